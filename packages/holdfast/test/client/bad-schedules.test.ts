import { holdfast, InvalidInputError, InvalidOptionError, job, PayloadTooLargeError, type Holdfast } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { after, DAY, HOUR, openOn } from "./schedule-scene.js";
import { cleanup, double, errorOf, expectRefusal } from "./scene.js";

type Refusal = [what: string, options: object, field: string, says: RegExp];

const long = "x".repeat(10_000);
const every = { job: cleanup, every: "1h" };
const cron = { job: cleanup, cron: "0 8 * * *" };

/** Invalid schedules, with the wrong field and the reason. */
const TIMINGS: Refusal[] = [
  ["a date that never comes", { cron: "0 0 30 2 *" }, "cron", /"0 0 30 2 \*" never matches a date.*as in "/],
  ["another date that never comes", { cron: "0 0 31 APR,JUN,SEP,NOV *" }, "cron", /never matches a date.*as in "/],
  ["a 29 February that never comes", { cron: "0 0 30-31 FEB *" }, "cron", /never matches a date/],
  ["a second out of range", { cron: "60 * * * * *" }, "cron", /the second field "60" .*0 to 59; for example "/],
  ["a minute out of range", { cron: "60 * * * *" }, "cron", /the minute field "60" .*0 to 59; for example "/],
  ["an hour out of range", { cron: "0 24 * * *" }, "cron", /the hour field "24" .*0 to 23; for example "/],
  ["a day out of range", { cron: "0 0 32 * *" }, "cron", /the day of month field "32" .*1 to 31; for example "/],
  ["a day 0", { cron: "0 0 0 * *" }, "cron", /the day of month field "0" /],
  [
    "a month out of range",
    { cron: "0 0 1 13 *" },
    "cron",
    /the month field "13" .*1 to 12 or one of JAN.*for example "/,
  ],
  ["a month in words", { cron: "0 0 1 march *" }, "cron", /the month field "march" /],
  ["a weekday out of range", { cron: "0 0 * * 8" }, "cron", /the day of week field "8" .*0 to 7 or one of SUN/],
  ["a weekday in words", { cron: "0 0 * * monday" }, "cron", /the day of week field "monday" /],
  ["a range that goes down", { cron: "0 18-8 * * *" }, "cron", /the hour field "18-8" goes from 18 down to 8/],
  ["a step of nothing", { cron: "*/0 * * * *" }, "cron", /the minute field "\*\/0" has the step "0"/],
  ["a step without a range", { cron: "5/10 * * * *" }, "cron", /write 5-59\/10/],
  ["an empty item in a list", { cron: "1,,2 * * * *" }, "cron", /empty item between commas/],
  ["a negative number", { cron: "-1 * * * *" }, "cron", /the minute field "-1" is invalid at/],
  ["too few fields", { cron: "* * *" }, "cron", /has 3 fields; a pattern has five .*for example "0 8 \* \* MON-FRI"/],
  ["too many fields", { cron: "* * * * * * *" }, "cron", /has 7 fields/],
  ["no fields", { cron: "" }, "cron", /has 0 fields/],
  ["an unknown word", { cron: "@reboot" }, "cron", /"@reboot" is none of @yearly, .*; for example "@daily"/],
  ["a pattern that is no text", { cron: 5 }, "cron", /5 is not a cron pattern; for example "/],
  ["a pattern that is null", { cron: null }, "cron", /null is not a cron pattern/],
  ["a pattern without end", { cron: long }, "cron", /10000 characters long; the limit is 200; for example "/],
  ["a range without end", { cron: "0-99999999 * * * *" }, "cron", /the minute field "0-99999999" has "99999999"/],
  ["a list without end", { cron: `${"0,".repeat(99)}0 * * * *` }, "cron", /the limit is 200/],
  ["something else altogether", { cron: "'; DROP TABLE jobs; --" }, "cron", /the minute field "';" /],
  ["an unknown zone", { cron: "@daily", timezone: "Europe/Atlantis" }, "timezone", /"Europe\/Atlantis" is not an IANA/],
  ["an unknown zone, with an example", { cron: "@daily", timezone: "" }, "timezone", /for example "Europe\/Berlin"/],
  ["a zone that is an offset", { cron: "@daily", timezone: "+02:00" }, "timezone", /"\+02:00" is not an IANA/],
  ["a zone that is no text", { cron: "@daily", timezone: 2 }, "timezone", /2 is not an IANA time zone/],
  ["cron and every together", { cron: "@daily", every: "1h" }, "every", /cannot be combined with cron; for example/],
  ["a zone with an interval", { every: "1h", timezone: "UTC" }, "timezone", /requires a cron expression/],
  ["an interval below a second", { every: 999 }, "every", /999 is shorter than 1s; for example "15m"/],
  ["an interval of nothing", { every: "0s" }, "every", /0s is shorter than 1s/],
  ["a negative interval", { every: -5_000 }, "every", /negative/],
  ["an interval in words", { every: "15 minutes" }, "every", /"15 minutes" is not a duration; use .*"10m"/],
  ["an interval that is NaN", { every: Number.NaN }, "every", /finite/],
  ["an interval beyond ten years", { every: "600w" }, "every", /ten years/],
  ["an interval that is null", { every: null }, "every", /null is not a duration/],
  ["an end before the start", { every: "1h", startAt: after(1), endAt: after(0) }, "endAt", /must be after startAt/],
  ["an end at the start", { every: "1h", startAt: after(0), endAt: after(0) }, "endAt", /must be after startAt/],
  [
    "a window without a slot",
    { cron: "0 8 * * *", startAt: after(9 * HOUR), endAt: after(DAY) },
    "endAt",
    /leaves no slot after startAt/,
  ],
  ["a start in words", { every: "1h", startAt: "tomorrow" }, "startAt", /ISO 8601/],
  ["a start without a zone", { every: "1h", startAt: "2026-01-01T08:00" }, "startAt", /has no time zone/],
  ["a start of no day", { every: "1h", startAt: "2027-02-30T00:00:00Z" }, "startAt", /is a day that does not exist/],
  ["an end without a zone", { every: "1h", endAt: "2027-01-01" }, "endAt", /has no time zone/],
  ["an end that is no date", { every: "1h", endAt: new Date("x") }, "endAt", /not a valid time/],
];

const SETTINGS: Refusal[] = [
  ["nonsense to catch up", { catchUp: "none" }, "catchUp", /"none" is none of "skip", "latest", \{ all: 10 \}/],
  ["all to catch up, without a number", { catchUp: "all" }, "catchUp", /"all" is none of/],
  ["a list to catch up", { catchUp: ["skip"] }, "catchUp", /./],
  ["a number to catch up", { catchUp: 5 }, "catchUp", /5 is none of/],
  ["null to catch up", { catchUp: null }, "catchUp", /null is none of/],
  ["nothing of all to catch up", { catchUp: { all: 0 } }, "catchUp.all", /0 is not a whole number from 1 to 1000/],
  ["too much to catch up", { catchUp: { all: 1e9 } }, "catchUp.all", /1000000000 is not a whole number/],
  ["a fraction to catch up", { catchUp: { all: 1.5 } }, "catchUp.all", /1 to 1000/],
  ["an endless catch-up", { catchUp: { all: Number.POSITIVE_INFINITY } }, "catchUp.all", /1 to 1000/],
  ["no number to catch up", { catchUp: {} }, "catchUp.all", /undefined is not a whole number/],
  ["a misspelt catch-up", { catchUp: { al: 5 } }, "catchUp.al", /is not an option of catchUp; known: all/],
  ["nonsense of overlaps", { overlap: "forbid" }, "overlap", /"forbid" is none of "allow", "skip"/],
  ["an overlap that is true", { overlap: true }, "overlap", /true is none of/],
  ["yes for enabled", { enabled: "yes" }, "enabled", /"yes" is neither true nor false/],
  ["1 for enabled", { enabled: 1 }, "enabled", /1 is neither true nor false/],
  ["null for enabled", { enabled: null }, "enabled", /null is neither true nor false/],
  [
    "a jitter as long as the interval",
    { jitter: "1h" },
    "jitter",
    /shorter than the interval, 3600000 ms, but is 3600000 ms/,
  ],
  ["a jitter longer than the interval", { jitter: "2h" }, "jitter", /but is 7200000 ms/],
  ["a negative jitter", { jitter: -1 }, "jitter", /negative/],
  ["a jitter in words", { jitter: "some" }, "jitter", /"some" is not a duration/],
  ["an empty queue", { queue: "" }, "queue", /non-empty string/],
  ["a long queue", { queue: long }, "queue", /the limit is 100/],
  ["a priority too high", { priority: 101 }, "priority", /-100 to 100/],
  ["a priority as text", { priority: "5" }, "priority", /"5" is not a whole number/],
  ["no attempts", { maxAttempts: 0 }, "maxAttempts", /1 to 1000/],
  ["a fraction of an attempt", { maxAttempts: 1.5 }, "maxAttempts", /1 to 1000/],
  ["a user with a line break", { user: "a\nb" }, "user", /control characters/],
  ["an empty user", { user: "" }, "user", /non-empty string/],
  ["tags that are not an array", { tags: "urgent" }, "tags", /must be an array/],
  ["an empty tag", { tags: [""] }, "tags.0", /non-empty string/],
  ["a misspelt option", { timeZone: "UTC" }, "timeZone", /is not an option of .*; known: job, input, cron, timezone/],
  ["an option of enqueue", { delay: "5m" }, "delay", /is not an option of/],
];

async function left(hf: Holdfast): Promise<unknown> {
  return (await hf.schedules.list()).schedules;
}

describe("C-11 an invalid schedule is refused with field and reason", () => {
  it.each<Refusal>([
    ...TIMINGS.map(([what, options, ...rest]): Refusal => [what, { job: cleanup, ...options }, ...rest]),
    ...SETTINGS.map(([what, options, ...rest]): Refusal => [what, { ...every, ...options }, ...rest]),
    [
      "neither cron nor every",
      { job: cleanup },
      "cron",
      /is required, unless every is given; for example \{ cron: ".*every: "15m"/,
    ],
    ["neither, but a zone", { job: cleanup, timezone: "UTC" }, "cron", /is required, unless every is given/],
    ["no job", { every: "1h" }, "job", /is not a job type; pass what job\(\{ … \}\) returned/],
    ["a job that is null", { job: null, every: "1h" }, "job", /is not a job type/],
    ["a job that only looks like one", { job: { type: "cleanup" }, every: "1h" }, "job", /is not a job type/],
    ["a job that is a function", { job: () => {}, every: "1h" }, "job", /is not a job type/],
    ["no options", undefined as unknown as object, "schedule", /undefined is not an options object; known: job/],
    ["options that are null", null as unknown as object, "schedule", /null is not an options object/],
    ["options that are a pattern", "@daily" as unknown as object, "schedule", /is not an options object/],
  ])("%s", async (_what, options, field, says) => {
    const { hf, store } = await openOn("in memory");
    const expected = { is: InvalidOptionError, code: "INVALID_OPTION", field, says };
    await expectRefusal(() => hf.schedule("s", options as never), expected);
    await expectRefusal(() => hf.schedules.create("s", options as never), expected);
    expect(await left(hf)).toEqual([]);
    expect(store.count("putSchedule")).toBe(0);
  });

  it.each<[string, unknown, RegExp]>([
    ["with a line break", "a\nb", /control characters/],
    ["with a null character", "a\u0000b", /control characters/],
    ["with a separator of ours", "a\u001fb", /control characters/],
    ["with a delete character", "\u007f", /control characters/],
    ["of broken Unicode", "\ud800", /broken Unicode/],
    ["that is empty", "", /non-empty string/],
    ["that is too long", "x".repeat(201), /201 characters long; the limit is 200/],
    ["that is a number", 5, /non-empty string/],
    ["that is null", null, /non-empty string/],
    ["that is not given", undefined, /non-empty string/],
    ["that is an object", { name: "a" }, /non-empty string/],
  ])("a name %s", async (_what, given, says) => {
    const { hf } = await openOn("in memory");
    const name = given as string;
    const expected = { is: InvalidOptionError, code: "INVALID_OPTION", field: "name", says };
    await expectRefusal(() => hf.schedule(name, { job: cleanup, every: "1h" }), expected);
    await expectRefusal(() => hf.unschedule(name), expected);
    await expectRefusal(() => hf.schedules.create(name, { job: cleanup, every: "1h" }), expected);
    await expectRefusal(() => hf.schedules.get(name), expected);
    await expectRefusal(() => hf.schedules.update(name, {}), expected);
    await expectRefusal(() => hf.schedules.reset(name), expected);
    await expectRefusal(() => hf.schedules.remove(name), expected);
    await expectRefusal(() => hf.schedules.runNow(name), expected);
    expect(await left(hf)).toEqual([]);
  });

  it.each<[string, object]>([
    ["beyond what patterns know", { cron: "0 8 * * *", startAt: "9999-01-01T00:00:00Z" }],
    ["at the end of all dates", { cron: "0 8 * * *", timezone: "Europe/Berlin", startAt: new Date(8.64e15) }],
    ["at the beginning of all dates", { cron: "0 8 * * *", timezone: "Europe/Berlin", startAt: new Date(-8.64e15) }],
    ["at the beginning of all dates, for an interval", { every: "1h", startAt: new Date(-8.64e15) }],
    ["at the end of all dates, for an interval", { every: "1h", startAt: new Date(8.64e15) }],
  ])("a start %s is refused or accepted", async (_what, timing) => {
    const { hf } = await openOn("in memory");
    const slots = hf.schedule("s", { job: cleanup, ...timing } as never).then(() => hf.schedules.preview("s"));
    const error: unknown = await slots.then(
      () => null,
      (thrown: unknown) => thrown,
    );
    if (error !== null) {
      expect(error).toBeInstanceOf(InvalidOptionError);
      expect(error).toMatchObject({ field: "startAt" });
    } else {
      for (const slot of await slots) expect(slot.getTime()).not.toBeNaN();
    }
  });

  it("a schedule that has already ended, unless it is defined in code", async () => {
    const { hf } = await openOn("in memory");
    const over = { job: cleanup, every: "1h", endAt: after(-1) };
    const expected = {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "endAt",
      says: /no slot in the future/,
    };
    await expectRefusal(hf.schedules.create("s", over), expected);
    await hf.schedules.create("s", { ...over, endAt: after(DAY) });
    await expectRefusal(hf.schedules.update("s", { endAt: after(1) }), expected);
    expect(await hf.schedule("t", over)).toMatchObject({ nextRunAt: null, enabled: true });
    // An ended schedule still accepts other changes.
    expect(await hf.schedules.update("t", { queue: "q" })).toMatchObject({ nextRunAt: null, queue: "q" });
  });

  it("a job name in a schedule defined in code", async () => {
    const { hf } = await openOn("in memory");
    await expectRefusal(hf.schedule("s", { job: "cleanup", every: "1h" } as never), {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "job",
      says: /is not a job type; pass what job\(\{ … \}\) returned/,
    });
    for (const name of ["", "a\nb", long]) {
      const made = hf.schedules.create("s", { job: name, every: "1h" });
      await expectRefusal(made, { is: InvalidOptionError, code: "INVALID_OPTION", field: "job" });
    }
    expect(await left(hf)).toEqual([]);
  });
});

describe("C-11 an input that does not match its schema is refused", () => {
  const order = job({ type: "order", input: z.object({ items: z.array(z.object({ id: z.string() })) }), run() {} });

  it.each<[string, object, string, RegExp]>([
    ["a field of a wrong type", { job: double, input: { n: "one" } }, "n", /input of double: n: .*number/],
    ["a field that is missing", { job: double, input: {} }, "n", /input of double: n: /],
    ["no input where one is needed", { job: double }, "n", /input of double: n: /],
    ["a field deep inside", { job: order, input: { items: [{ id: "a" }, { id: 5 }] } }, "items.1.id", /items\.1\.id: /],
    ["an input where none is taken", { job: cleanup, input: { n: 1 } }, "", /has no input/],
    ["what JSON cannot carry", { job: double, input: { n: 1n } }, "n", /n: /],
    ["a NUL", { job: order, input: { items: [{ id: "\0" }] } }, "items.0.id", /the character NUL \(\\u0000\)/],
  ])("%s", async (_what, options, path, says) => {
    const { hf } = await openOn("in memory", { jobs: [double, order, cleanup] });
    for (const make of [hf.schedule.bind(hf), hf.schedules.create.bind(hf.schedules)]) {
      const error = await errorOf(() => make("s", { every: "1h", ...options } as never));
      expect(error).toBeInstanceOf(InvalidInputError);
      expect(error).toMatchObject({ code: "INVALID_INPUT", issues: [{ path }] });
      expect((error as Error).message).toMatch(says);
    }
    expect(await left(hf)).toEqual([]);
  });

  it("also for a job given by name", async () => {
    const { hf } = await openOn("in memory");
    const wrong = hf.schedules.create("s", { job: "double", input: { n: "one" }, every: "1h" });
    await expectRefusal(wrong, { is: InvalidInputError, code: "INVALID_INPUT", says: /n: / });
    const notJson = hf.schedules.create("s", { job: "elsewhere", input: { n: 1n }, every: "1h" });
    await expectRefusal(notJson, { is: InvalidInputError, code: "INVALID_INPUT", says: /n: / });
    const nul = hf.schedules.create("s", { job: "elsewhere", input: "a\0", every: "1h" });
    await expectRefusal(nul, { is: InvalidInputError, code: "INVALID_INPUT", says: /NUL/ });
    const large = hf.schedules.create("s", { job: "elsewhere", input: "x".repeat(300_000), every: "1h" });
    await expectRefusal(large, { is: PayloadTooLargeError, code: "PAYLOAD_TOO_LARGE" });
    expect(await left(hf)).toEqual([]);
  });

  it("also in an update, of the input or of the job", async () => {
    const { hf, versionOf } = await openOn("in memory");
    await hf.schedules.create("s", { job: double, input: { n: 1 }, every: "1h" });
    const version = await versionOf("s");
    for (const changes of [
      { input: { n: "one" } },
      { job: cleanup },
      { job: order },
      { job: order, input: {} },
      { input: { n: 1, s: "\0" } },
    ]) {
      await expectRefusal(hf.schedules.update("s", changes), { is: InvalidInputError, code: "INVALID_INPUT" });
    }
    expect(await versionOf("s")).toBe(version);
  });
});

describe("C-11 an invalid update is refused and changes nothing", () => {
  it.each<Refusal>([
    ...TIMINGS.filter(([, options]) => !("every" in options)),
    ...SETTINGS.filter(([, options]) => !("jitter" in options)),
    ["an interval below a second", { every: 999 }, "every", /999 is shorter than 1s/],
    ["a pattern and an interval", { cron: "@daily", every: "1h" }, "every", /cannot be combined with cron/],
    ["an interval with a zone", { every: "1h", timezone: "UTC" }, "timezone", /requires a cron expression/],
    ["an end before the start that is there", { endAt: after(-DAY) }, "endAt", /must be after startAt/],
    ["a start after the end that is there", { startAt: after(99 * DAY) }, "endAt", /must be after startAt/],
    ["undefined", { priority: undefined }, "priority", /is undefined; leave it out to keep the current value/],
    ["an undefined end", { endAt: undefined }, "endAt", /is undefined/],
    ["a name", { name: "t" }, "name", /is not an option of update/],
    ["a job that is none", { job: { type: "cleanup" } }, "job", /is not a job type/],
    ["no changes", undefined as unknown as object, "update", /undefined is not an options object/],
  ])("%s", async (_what, changes, field, says) => {
    const { hf, versionOf } = await openOn("in memory");
    const before = await hf.schedules.create("s", { ...cron, startAt: after(-HOUR), endAt: after(30 * DAY) });
    const version = await versionOf("s");
    const update = (): unknown => hf.schedules.update("s", changes);
    await expectRefusal(update, { is: InvalidOptionError, code: "INVALID_OPTION", field, says });
    expect([await versionOf("s"), await hf.schedules.get("s")]).toEqual([version, before]);
  });

  it("a jitter longer than the interval", async () => {
    const { hf } = await openOn("in memory");
    await hf.schedules.create("s", { job: cleanup, every: "1h", jitter: "30m" });
    for (const changes of [{ jitter: "1h" }, { every: "30m" }, { every: "10m" }]) {
      const expected = {
        is: InvalidOptionError,
        code: "INVALID_OPTION",
        field: "jitter",
        says: /shorter than the interval/,
      };
      await expectRefusal(hf.schedules.update("s", changes), expected);
    }
    expect(await hf.schedules.update("s", { every: "10m", jitter: "9m" })).toMatchObject({ jitterMs: 540_000 });
  });

  it("a zone for an interval", async () => {
    const { hf } = await openOn("in memory");
    await hf.schedules.create("s", { job: cleanup, every: "1h" });
    const update = hf.schedules.update("s", { timezone: "Europe/Berlin" });
    await expectRefusal(update, {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "timezone",
      says: /has none/,
    });
  });
});

describe("an invalid query for schedules is refused", () => {
  it.each<[string, (hf: Holdfast) => unknown, string, RegExp]>([
    ["a preview of nothing", (hf) => hf.schedules.preview("s", 0), "count", /0 is not a whole number from 1 to 100/],
    ["a preview of a million", (hf) => hf.schedules.preview("s", 1e6), "count", /1000000 is not .* from 1 to 100/],
    ["a preview of one and a half", (hf) => hf.schedules.preview({ every: "1h" }, 1.5), "count", /1 to 100/],
    ["a preview of a bad pattern", (hf) => hf.schedules.preview({ cron: "0 25 * * *" }), "cron", /the hour field "25"/],
    [
      "a preview of an unknown zone",
      (hf) => hf.schedules.preview({ cron: "@daily", timezone: "X" }),
      "timezone",
      /IANA/,
    ],
    ["a preview of no timing", (hf) => hf.schedules.preview({} as never), "cron", /is required, unless every is given/],
    [
      "a preview of settings",
      (hf) => hf.schedules.preview({ every: "1h", jitter: "1s" } as never),
      "jitter",
      /preview/,
    ],
    ["a preview of null", (hf) => hf.schedules.preview(null as never), "preview", /null is not an options object/],
    [
      "a preview of what never comes",
      (hf) => hf.schedules.preview({ cron: "0 0 30 2 *" }),
      "cron",
      /never matches a date/,
    ],
    ["a preview of a bad start", (hf) => hf.schedules.preview({ every: "1h", startAt: "x" }), "startAt", /ISO 8601/],
    [
      "a list of an unknown origin",
      (hf) => hf.schedules.list({ origin: "cli" as never }),
      "origin",
      /"code", "runtime"/,
    ],
    ["a list by maybe", (hf) => hf.schedules.list({ enabled: "maybe" as never }), "enabled", /neither true nor false/],
    ["a list of no type", (hf) => hf.schedules.list({ type: "" }), "type", /non-empty string/],
    ["a list of a null type", (hf) => hf.schedules.list({ type: null as never }), "type", /non-empty string/],
    ["a list of no user", (hf) => hf.schedules.list({ user: "" }), "user", /non-empty string/],
    ["a page of nothing", (hf) => hf.schedules.list({ limit: 0 }), "limit", /1 to 1000/],
    ["a page without end", (hf) => hf.schedules.list({ limit: 1_001 }), "limit", /1 to 1000/],
    ["a cursor that is a number", (hf) => hf.schedules.list({ cursor: 5 as never }), "cursor", /./],
    ["a cursor that is empty", (hf) => hf.schedules.list({ cursor: "" }), "cursor", /./],
    ["a misspelt filter", (hf) => hf.schedules.list({ enabld: true } as never), "enabld", /is not an option of list/],
    ["jobs of a schedule of no name", (hf) => hf.list({ schedule: "" }), "schedule", /non-empty string/],
  ])("%s", async (_what, ask, field, says) => {
    const { hf } = await openOn("in memory");
    await hf.schedules.create("s", { job: cleanup, every: "1h" });
    await expectRefusal(() => ask(hf), { is: InvalidOptionError, code: "INVALID_OPTION", field, says });
  });
});

describe("invalid scheduler options are refused", () => {
  it.each<[string, unknown, string, RegExp]>([
    ["a tick below a second", { tick: 999 }, "scheduler.tick", /from 1 s to 1 h/],
    ["a tick above an hour", { tick: "61m" }, "scheduler.tick", /from 1 s to 1 h/],
    ["a tick in words", { tick: "often" }, "scheduler.tick", /"often" is not a duration/],
    ["a misspelt tick", { tik: "5s" }, "scheduler.tik", /is not an option of scheduler; known: tick/],
    ["a scheduler that is true", true, "scheduler", /true is not an options object/],
    ["a scheduler that is a duration", "5s", "scheduler", /is not an options object/],
  ])("%s", async (_what, scheduler, field, says) => {
    const made = holdfast({ store: "sqlite::memory:", scheduler: scheduler as never });
    await expectRefusal(made, { is: InvalidOptionError, code: "INVALID_OPTION", field, says });
  });
});

it("long, wide and rare patterns cost little memory and time", async () => {
  const { hf } = await openOn("in memory");
  const before = process.memoryUsage().heapUsed;
  const patterns = [
    "0-99999999 * * * *",
    "0-9007199254740993 0-9007199254740993 * * *",
    "*/99999999 * * * *",
    `${"9".repeat(190)} * * *`,
    `${"*,".repeat(90)}* * * *`,
    "0 0 30 2 *",
    "0 0 31 2,4,6,9,11 *",
    "59 59 23 29 2 +MON#5",
  ];
  for (let round = 0; round < 50; round++) {
    for (const pattern of patterns) {
      await hf.schedule("s", { job: cleanup, cron: pattern, timezone: "Europe/Berlin" }).catch(() => {});
      await hf.schedules.preview({ cron: pattern, timezone: "America/New_York" }, 100).catch(() => {});
    }
  }
  // A table of a hundred million numbers would take 400 MB and seconds; the limit of this test is 30 s.
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(200 * 1024 * 1024);
});
