import { InvalidOptionError, type EnqueueOptions } from "holdfast";
import { describe, expect, it } from "vitest";
import { cleanup, double, expectRefusal, jobCount, open, START, untyped } from "./scene.js";

describe("enqueue refuses an invalid option and names it", () => {
  const long = "x".repeat(10_000);
  it.each<[string, object, string, RegExp]>([
    ["a negative delay", { delay: -1 }, "delay", /negative; use 0 or more/],
    ["a delay in words", { delay: "10 minutes" }, "delay", /"10 minutes" is not a duration; use .*"10m"/],
    ["an empty delay", { delay: "" }, "delay", /is not a duration/],
    ["a delay of an unknown unit", { delay: "1x" }, "delay", /is not a duration/],
    ["a negative delay as text", { delay: "-5s" }, "delay", /is not a duration/],
    ["an infinite delay", { delay: Number.POSITIVE_INFINITY }, "delay", /finite/],
    ["a delay of no type at all", { delay: null }, "delay", /null is not a duration/],
    ["a delay beyond ten years", { delay: "600w" }, "delay", /ten years/],
    ["both delay and runAt", { delay: "1s", runAt: START + 1 }, "delay", /cannot be combined with runAt/],
    ["a runAt that is no date", { runAt: new Date("x") }, "runAt", /ISO 8601/],
    ["a runAt in words", { runAt: "tomorrow" }, "runAt", /ISO 8601/],
    ["a runAt that only looks like a date", { runAt: "in 5" }, "runAt", /ISO 8601/],
    ["a runAt without a zone", { runAt: "2027-01-01" }, "runAt", /"2027-01-01" has no time zone; write it like/],
    ["a runAt of no day", { runAt: "2027-02-30T00:00:00Z" }, "runAt", /is a day that does not exist/],
    ["an expiresAt without a zone", { expiresAt: "2027-01-01T08:00" }, "expiresAt", /has no time zone/],
    ["an expiresAt of no day", { expiresAt: "2027-02-29T00:00:00Z" }, "expiresAt", /is a day that does not exist/],
    ["an expiresAt that is no Date", { expiresAt: new Date("x") }, "expiresAt", /not a valid time/],
    ["an expiresAt in the past", { expiresAt: START - 1 }, "expiresAt", /2025-12-31T23:59:59.999Z is in the past/],
    ["an expiresAt of this moment", { expiresAt: START }, "expiresAt", /is in the past/],
    ["an expiresAt that is not a date", { expiresAt: Number.NaN }, "expiresAt", /not a valid time/],
    ["a fraction of a priority", { priority: 1.5 }, "priority", /1.5 is not a whole number from -100 to 100/],
    ["a priority too high", { priority: 101 }, "priority", /-100 to 100/],
    ["a priority too low", { priority: -101 }, "priority", /-100 to 100/],
    ["a priority as text", { priority: "5" }, "priority", /"5" is not a whole number/],
    ["a priority that is NaN", { priority: Number.NaN }, "priority", /NaN/],
    ["a priority past all integers", { priority: 2 ** 53 }, "priority", /-100 to 100/],
    ["a priority that is a BigInt", { priority: 5n }, "priority", /-100 to 100/],
    ["no attempts", { maxAttempts: 0 }, "maxAttempts", /0 is not a whole number from 1 to 1000/],
    ["negative attempts", { maxAttempts: -1 }, "maxAttempts", /1 to 1000/],
    ["a fraction of an attempt", { maxAttempts: 1.5 }, "maxAttempts", /1 to 1000/],
    ["an empty queue", { queue: "" }, "queue", /non-empty string/],
    ["a long queue", { queue: long }, "queue", /10000 characters long; the limit is 100/],
    ["a queue with a line break", { queue: "a\nb" }, "queue", /control characters/],
    ["an empty user", { user: "" }, "user", /non-empty string/],
    ["a user that is a number", { user: 5 }, "user", /non-empty string/],
    ["an empty key", { unique: "" }, "unique", /non-empty string/],
    ["an empty key with options", { unique: { key: "" } }, "unique.key", /non-empty string/],
    ["a key that is no text", { unique: { key: 5 } }, "unique.key", /non-empty string/],
    ["a long key", { unique: long }, "unique", /the limit is 500/],
    ["no unique options", { unique: null }, "unique", /null is not an options object; known: key, scope/],
    [
      "an unknown scope",
      { unique: { key: "k", scope: "week" } },
      "unique.scope",
      /"week" is none of "waiting", "live"/,
    ],
    ["an unknown onConflict", { unique: { key: "k", onConflict: "drop" } }, "unique.onConflict", /"keep", "replace"/],
    ["a period of nothing", { unique: { key: "k", scope: { period: 0 } } }, "unique.scope.period", /longer than 0/],
    ["a period in words", { unique: { key: "k", scope: { period: "a day" } } }, "unique.scope.period", /"7d"/],
    ["a scope without its period", { unique: { key: "k", scope: {} } }, "unique.scope.period", /not a duration/],
    [
      "a misspelt scope",
      { unique: { key: "k", scope: { period: "1h", per: 1 } } },
      "unique.scope.per",
      /not an option of unique.scope/,
    ],
    [
      "an unknown calendar period",
      { unique: { key: "k", scope: { calendar: "fortnight" } } },
      "unique.scope.calendar",
      /"fortnight" is none of "hour", "day", "week", "month", "year"/,
    ],
    [
      "a zone that is none",
      { unique: { key: "k", scope: { calendar: "day", zone: "Europe/Nowhere" } } },
      "unique.scope.zone",
      /"Europe\/Nowhere" is not an IANA time zone; for example "Europe\/Berlin"/,
    ],
    [
      "an offset for a zone",
      { unique: { key: "k", scope: { calendar: "day", zone: "+02:00" } } },
      "unique.scope.zone",
      /is not an IANA time zone/,
    ],
    [
      "a period and a calendar",
      { unique: { key: "k", scope: { calendar: "day", period: "1d" } } },
      "unique.scope.period",
      /is not an option of unique.scope; known: calendar, zone/,
    ],
    [
      "a misspelt unique option",
      { unique: { key: "k", onconflict: "reject" } },
      "unique.onconflict",
      /known: .*onConflict; did you mean onConflict\?$/,
    ],
    [
      "a misspelt zone",
      { unique: { key: "k", scope: { calendar: "day", timezone: "UTC" } } },
      "unique.scope.timezone",
      /^unique\.scope\.timezone is not an option of unique.scope/,
    ],
    [
      "a zone that is not set",
      { unique: { key: "k", scope: { calendar: "day", zone: undefined } } },
      "unique.scope.zone",
      /is undefined; name a zone such as "Europe\/Berlin", or leave it out for UTC/,
    ],
    ["too many tags", { tags: Array.from({ length: 21 }, String) }, "tags", /at most 20 tags/],
    ["tags that are not an array", { tags: "urgent" }, "tags", /must be an array/],
    ["a long tag", { tags: ["ok", long] }, "tags.1", /the limit is 100/],
    ["an empty tag", { tags: [""] }, "tags.0", /non-empty string/],
    ["a tag that is no text", { tags: [5] }, "tags.0", /non-empty string/],
    ["an id that is no UUID", { id: "42" }, "id", /"42" is not a UUID such as/],
    ["a misspelt option", { dealy: "5m" }, "dealy", /is not an option of enqueue; known: delay, runAt, priority/],
    ["an option of enqueueMany", { onResult: () => {} }, "onResult", /is not an option of enqueue/],
    ["options that are no object", "5m" as unknown as object, "enqueue", /is not an options object; known: delay/],
    ["options that are null", null as unknown as object, "enqueue", /null is not an options object/],
    ["a transaction on a store in memory", { tx: {} }, "tx", /not supported by this store/],
  ])("%s", async (_name, options, field, says) => {
    const { hf } = await open();
    const refused = (): unknown => hf.enqueue(double, { n: 1 }, options);
    await expectRefusal(refused, { is: InvalidOptionError, code: "INVALID_OPTION", field, says });
    expect(await jobCount(hf)).toBe(0);
    expect(await hf.queues()).toEqual([]);
  });

  it("refuses a value that is not a job type", async () => {
    const { hf } = await open();
    for (const type of ["double", undefined, null, {}, { type: "double" }]) {
      await expectRefusal(untyped(hf).enqueue(type, { n: 1 }), {
        is: InvalidOptionError,
        code: "INVALID_OPTION",
        field: "type",
        says: /is not a job type; pass what job\(\{ … \}\) returned/,
      });
    }
    expect(await jobCount(hf)).toBe(0);
  });

  it("a refused enqueue does not affect concurrent ones", async () => {
    const { hf } = await open();
    const results = await Promise.allSettled([
      hf.enqueue(double, { n: 1 }),
      hf.enqueue(double, { n: 2 }, { priority: 1_000 }),
      hf.enqueue(cleanup),
    ]);
    expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(await jobCount(hf)).toBe(2);
  });
});

describe("values at the limits", () => {
  it("are stored as given", async () => {
    const { hf } = await open();
    const options: EnqueueOptions = {
      priority: -100,
      maxAttempts: 1_000,
      queue: "q".repeat(100),
      user: "ü".repeat(200),
      unique: "k".repeat(500),
      tags: Array.from({ length: 20 }, (_, index) => `${index}`.padStart(100, "t")),
      delay: "3650d",
    };
    const { id } = await hf.enqueue(double, { n: 1 }, options);
    const { unique: key, delay: _delay, ...same } = options;
    expect(await hf.get(id)).toMatchObject({ ...same, key });
  });

  it("minus zero is stored as priority zero", async () => {
    const { hf } = await open();
    const { id } = await hf.enqueue(double, { n: 1 }, { priority: -0 });
    expect(Object.is((await hf.get(id))?.priority, 0)).toBe(true);
  });
});
