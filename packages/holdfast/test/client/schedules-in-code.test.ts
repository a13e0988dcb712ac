import { InvalidOptionError, job, type Schedule, type ScheduleChanges } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { recordingLogger } from "../engine/scene.js";
import { after, DAY, HOUR, openOn, PLACES, scheduleOf, settingsOf, slotsMade } from "./schedule-scene.js";
import { cleanup, double, expectRefusal } from "./scene.js";

describe.each(PLACES)("a schedule defined in code %s", (place) => {
  const hourly = { job: double, input: { n: 1 }, every: "1h", catchUp: { all: 5 }, tags: ["a"], user: "ada" } as const;

  it("C-15 is written once: an equal definition writes nothing", async () => {
    const { hf, clock, store, versionOf } = await openOn(place);
    const first = await hf.schedule("hourly", hourly);
    expect(first).toMatchObject({ origin: "code", changed: [], nextRunAt: after(HOUR) });
    const version = await versionOf("hourly");
    await clock.advance("59m");
    store.forget();
    // Written differently, but equal.
    expect(await hf.schedule("hourly", { ...hourly, every: 3_600_000, enabled: true, priority: 0 })).toEqual(first);
    expect(await hf.schedule("hourly", { overlap: "allow", ...hourly, tags: ["a", "a"] })).toEqual(first);
    expect([store.count("putSchedule"), await versionOf("hourly")]).toEqual([0, version]);
  });

  it("takes effect from now on if it changed", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("s", { job: double, input: { n: 1 }, cron: "0 8 * * *", priority: 5, tags: ["a"] });
    await clock.advance("1h");
    const changed = await hf.schedule("s", { job: double, input: { n: 2 }, every: "10m", queue: "q" });
    expect(changed).toMatchObject({ origin: "code", changed: [], createdAt: after(0), updatedAt: after(HOUR) });
    expect(changed).toMatchObject({ input: { n: 2 }, cron: null, timezone: null, everyMs: 600_000, queue: "q" });
    // A setting that code no longer has returns to its default.
    expect(changed).toMatchObject({ priority: 0, tags: [], nextRunAt: after(HOUR + 600_000) });
    expect(await scheduleOf(hf, "s")).toEqual(changed);
    expect(await hf.schedule("s", { job: cleanup, every: "10m" })).toMatchObject({ type: "cleanup", input: {} });
  });

  it("keeps a due slot if the timing is unchanged", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", hourly);
    await clock.advance("190m");
    const again = await hf.schedule("hourly", { ...hourly, input: { n: 2 }, jitter: "1m" });
    expect(again.nextRunAt).toEqual(after(HOUR));
    expect(await hf.schedules.fireDue()).toBe(3);
    expect((await hf.list()).jobs.map(({ input }) => input)).toEqual([{ n: 2 }, { n: 2 }, { n: 2 }]);
  });

  it("has another origin than one created at run time", async () => {
    const { hf } = await openOn(place);
    await hf.schedule("in code", hourly);
    await hf.schedules.create("at run time", hourly);
    const { schedules } = await hf.schedules.list();
    expect(schedules.map(({ name, origin }) => [name, origin])).toEqual([
      ["at run time", "runtime"],
      ["in code", "code"],
    ]);
  });

  it("returns to the definition in code when it is reset", async () => {
    const { hf, clock } = await openOn(place);
    const before = await hf.schedule("hourly", hourly);
    const changed = await hf.schedules.update("hourly", {
      cron: "@daily",
      queue: "q",
      endAt: after(9 * DAY),
      user: null,
    });
    expect([...changed.changed].toSorted()).toEqual(["cron", "endAt", "queue", "timezone", "user"]);
    await clock.advance("30m");
    const reset = await hf.schedules.reset("hourly");
    expect(settingsOf(reset)).toEqual(settingsOf(before));
    expect(reset).toMatchObject({ changed: [], nextRunAt: after(HOUR), origin: "code" });
    expect(await scheduleOf(hf, "hourly")).toEqual(reset);
    // And follows later definitions again.
    expect((await hf.schedule("hourly", { ...hourly, queue: "z" })).queue).toBe("z");
  });

  it("of a later deployment is what a reset restores", async () => {
    const { hf } = await openOn(place);
    await hf.schedule("hourly", hourly);
    await hf.schedules.update("hourly", { priority: 9 });
    await hf.schedule("hourly", { ...hourly, priority: 2, queue: "new" });
    expect(await scheduleOf(hf, "hourly")).toMatchObject({ priority: 9, queue: "new", changed: ["priority"] });
    expect(await hf.schedules.reset("hourly")).toMatchObject({ priority: 2, queue: "new", changed: [] });
  });

  it("can be reset; one created at run time cannot", async () => {
    const { hf } = await openOn(place);
    await hf.schedules.create("made", hourly);
    const reset = hf.schedules.reset("made");
    await expectRefusal(reset, {
      is: InvalidOptionError,
      code: "INVALID_OPTION",
      field: "name",
      says: /not defined in code/,
    });
  });

  it("does not count as changed if set to the same value", async () => {
    const { hf } = await openOn(place);
    await hf.schedule("hourly", hourly);
    expect((await hf.schedules.update("hourly", { priority: 0, every: "60m", user: "ada" })).changed).toEqual([]);
    await hf.schedules.update("hourly", { priority: 5 });
    expect((await hf.schedules.update("hourly", { priority: 0 })).changed).toEqual([]);
    expect((await hf.schedule("hourly", { ...hourly, priority: 7 })).priority).toBe(7);
  });

  it("keeps the settings of one created at run time, and reports them", async () => {
    const { hf } = await openOn(place);
    await hf.schedules.create("s", { job: double, input: { n: 1 }, cron: "0 6 * * *", priority: 3, queue: "q" });
    const defined = await hf.schedule("s", { job: double, input: { n: 2 }, every: "1h", queue: "q", tags: ["new"] });
    expect(defined).toMatchObject({ origin: "code", input: { n: 1 }, cron: "0 6 * * *", everyMs: null, priority: 3 });
    expect(defined.changed.toSorted()).toEqual(["cron", "input", "priority", "tags", "timezone"]);
    // Settings that are equal follow later code.
    expect(await hf.schedule("s", { job: double, input: { n: 2 }, every: "1h", queue: "r" })).toMatchObject({
      queue: "r",
      cron: "0 6 * * *",
    });
    expect(await hf.schedules.reset("s")).toMatchObject({ cron: null, everyMs: HOUR, input: { n: 2 }, changed: [] });
  });

  it("is created again after it was unscheduled", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", hourly);
    await hf.schedules.update("hourly", { priority: 9 });
    await clock.advance("1h");
    await hf.schedules.fireDue();
    await hf.unschedule("hourly");
    expect(await hf.schedule("hourly", hourly)).toMatchObject({
      priority: 0,
      changed: [],
      createdAt: after(HOUR),
      nextRunAt: after(2 * HOUR),
      lastSlot: null,
      slots: [],
    });
  });
});

/** The first and a later definition in code: only the job and the zone are equal. */
const OLD = {
  job: double,
  input: { n: 1 },
  cron: "0 8 * * *",
  timezone: "UTC",
  enabled: true,
  catchUp: "latest",
  overlap: "allow",
  startAt: after(0),
  endAt: after(300 * DAY),
  jitter: "1s",
  queue: "old",
  priority: 1,
  maxAttempts: 2,
  user: "old",
  tags: ["old"],
} as const;
const NEW = {
  ...OLD,
  input: { n: 2 },
  cron: "0 9 * * *",
  catchUp: { all: 2 },
  overlap: "skip",
  startAt: after(HOUR),
  endAt: after(301 * DAY),
  jitter: "2s",
  queue: "new",
  priority: 2,
  maxAttempts: 3,
  user: "new",
  tags: ["new"],
} as const;

describe("C-15 changes of an operator survive a deployment that changes everything", () => {
  it.each<[string, ScheduleChanges, Partial<Schedule>]>([
    ["input", { input: { n: 7 } }, { input: { n: 7 } }],
    ["cron", { cron: "0 7 * * *" }, { cron: "0 7 * * *" }],
    ["timezone", { timezone: "Asia/Tokyo" }, { timezone: "Asia/Tokyo" }],
    ["every", { every: "15m" }, { cron: null, timezone: null, everyMs: 900_000 }],
    ["enabled", { enabled: false }, { enabled: false }],
    ["catchUp", { catchUp: "skip" }, { catchUp: "skip" }],
    ["catchUp", { catchUp: { all: 9 } }, { catchUp: { all: 9 } }],
    ["startAt", { startAt: after(7 * HOUR) }, { startAt: after(7 * HOUR) }],
    ["startAt", { startAt: null }, { startAt: null }],
    ["endAt", { endAt: after(7 * DAY) }, { endAt: after(7 * DAY) }],
    ["endAt", { endAt: null }, { endAt: null }],
    ["jitter", { jitter: 0 }, { jitterMs: 0 }],
    ["queue", { queue: "mine" }, { queue: "mine" }],
    ["priority", { priority: 7 }, { priority: 7 }],
    ["maxAttempts", { maxAttempts: 7 }, { maxAttempts: 7 }],
    ["user", { user: "mine" }, { user: "mine" }],
    ["user", { user: null }, { user: null }],
    ["tags", { tags: [] }, { tags: [] }],
  ])("%s: %o", async (field, changes, expected) => {
    const { hf, clock } = await openOn("in memory");
    await hf.schedule("s", OLD);
    const changed = await hf.schedules.update("s", changes);
    expect(changed).toMatchObject(expected);
    expect(changed.changed).toContain(field);
    await clock.advance("1s");
    const kept = await hf.schedule("s", OLD);
    expect(kept).toEqual(changed);

    const deployed = await hf.schedule("s", NEW);
    const asCodeSays = await hf.schedule("as code says", NEW);
    // All other settings follow the code.
    expect(settingsOf(deployed)).toEqual({ ...settingsOf(asCodeSays), ...expected });
    expect(deployed.changed).toEqual(changed.changed);
    expect(deployed.nextRunAt).toEqual(deployed.enabled ? (await hf.schedules.preview("s", 1))[0] : null);
    expect(settingsOf(await hf.schedules.reset("s"))).toEqual(settingsOf(asCodeSays));
  });

  it("several changes, one after another", async () => {
    const { hf } = await openOn("in memory");
    await hf.schedule("s", OLD);
    await hf.schedules.update("s", { priority: 7 });
    await hf.schedules.update("s", { queue: "mine", every: "15m" });
    await hf.schedules.disable("s");
    const deployed = await hf.schedule("s", NEW);
    expect(deployed).toMatchObject({ priority: 7, queue: "mine", everyMs: 900_000, cron: null, enabled: false });
    expect([...deployed.changed].toSorted()).toEqual(["enabled", "every", "priority", "queue"]);
  });

  it("although no slot is left: the start logs it, and a reset repairs it", async () => {
    const { logger, lines } = recordingLogger();
    const { hf } = await openOn("in memory", { jobs: [cleanup], logger });
    await hf.schedule("s", { job: cleanup, every: "1h" });
    await hf.schedules.update("s", { endAt: after(DAY) });
    expect(lines).toEqual([]);
    const deployed = await hf.schedule("s", { job: cleanup, every: "1h", startAt: after(2 * DAY) });
    expect(deployed).toMatchObject({ startAt: after(2 * DAY), endAt: after(DAY), nextRunAt: null, changed: ["endAt"] });
    expect(lines.slice(0, 1)).toMatchObject([
      { level: "warn", fields: { schedule: "s", problem: expect.stringMatching(/^endAt /) } },
    ]);
    expect(await hf.schedules.reset("s")).toMatchObject({ endAt: null, nextRunAt: after(2 * DAY) });
  });

  it("overlap, in both directions", async () => {
    const { hf } = await openOn("in memory");
    for (const [code, operator] of [
      ["allow", "skip"],
      ["skip", "allow"],
    ] as const) {
      await hf.schedule(code, { job: cleanup, every: "1h", overlap: code });
      expect((await hf.schedules.update(code, { overlap: operator })).changed).toEqual(["overlap"]);
      expect(await hf.schedule(code, { job: cleanup, every: "2h", overlap: code })).toMatchObject({
        overlap: operator,
        everyMs: 2 * HOUR,
      });
    }
  });

  it("a zone is dropped with the pattern when code changes to an interval", async () => {
    const { hf } = await openOn("in memory");
    await hf.schedule("s", { job: cleanup, cron: "0 8 * * *", timezone: "Europe/Berlin" });
    await hf.schedules.update("s", { timezone: "Asia/Tokyo" });
    expect(await hf.schedule("s", { job: cleanup, every: "1h" })).toMatchObject({
      cron: null,
      timezone: null,
      everyMs: HOUR,
      nextRunAt: after(HOUR),
    });
  });

  it("an interval, also when code changes to a pattern", async () => {
    const { hf } = await openOn("in memory");
    await hf.schedule("s", { job: cleanup, every: "1h" });
    await hf.schedules.update("s", { every: "5m" });
    const kept = { everyMs: 300_000, cron: null, timezone: null, changed: ["every"] };
    expect(await hf.schedule("s", { job: cleanup, every: "2h" })).toMatchObject(kept);
    expect(await hf.schedule("s", { job: cleanup, cron: "0 8 * * *", timezone: "Asia/Tokyo" })).toMatchObject(kept);
    expect(await hf.schedules.reset("s")).toMatchObject({ cron: "0 8 * * *", timezone: "Asia/Tokyo", everyMs: null });
  });

  it("a job, with the input that was checked for it", async () => {
    const triple = job({ type: "triple", input: z.object({ n: z.number() }), run() {} });
    const renamed = job({ type: "double", input: z.object({ value: z.number() }), run() {} });
    const { hf } = await openOn("in memory", { jobs: [double, triple] });
    await hf.schedule("s", { job: double, input: { n: 1 }, every: "1h" });
    expect((await hf.schedules.update("s", { job: triple })).changed).toContain("job");
    const deployed = await hf.schedule("s", { job: renamed, input: { value: 1 }, every: "1h" });
    expect(deployed).toMatchObject({ type: "triple", input: { n: 1 } });
  });

  it("lists the changed fields by their option names", async () => {
    const brief = job({
      type: "brief",
      expiresAfter: "1h",
      queue: "brief",
      input: z.object({ n: z.number() }),
      run() {},
    });
    const { hf } = await openOn("in memory");
    await hf.schedule("s", OLD);
    const { changed } = await hf.schedules.update("s", { job: brief, every: "1h", jitter: "5s", startAt: null });
    const known = [...Object.keys(OLD), "every"];
    expect(changed.filter((field) => !known.includes(field))).toEqual([]);
  });
});

describe("C-15 schedules that a product ships", () => {
  const defaults = [
    ["sessions", "0 * * * *"],
    ["webhooks", "30 3 * * *"],
    ["tokens", "0 4 * * *"],
  ] as const;

  it("are inserted once and never overwrite changes of an operator", async () => {
    const { hf, another, clock } = await openOn("on a file");
    const start = async (client: typeof hf): Promise<void> => {
      for (const [name, cron] of defaults) await client.schedule(name, { job: cleanup, cron });
    };
    await start(hf);
    await hf.schedules.update("webhooks", { cron: "0 5 * * *", timezone: "Europe/Berlin" });
    await hf.schedules.disable("tokens");
    const before = await hf.schedules.list();
    for (let restarts = 0; restarts < 3; restarts++) {
      await clock.advance("10m");
      await start(await another());
    }
    expect(await hf.schedules.list()).toEqual(before);
    expect(await scheduleOf(hf, "webhooks")).toMatchObject({ cron: "0 5 * * *", timezone: "Europe/Berlin" });
    expect(await scheduleOf(hf, "tokens")).toMatchObject({ enabled: false, nextRunAt: null, changed: ["enabled"] });
    await clock.advance("1d");
    await hf.schedules.fireDue();
    expect(await slotsMade(hf, "tokens")).toEqual([]);
    expect(await slotsMade(hf, "webhooks")).toEqual([after(4 * HOUR)]);
  });

  it("lose no slot in a restart", async () => {
    const { hf, another, clock } = await openOn("on a file");
    const hourly = { job: cleanup, every: "1h", catchUp: { all: 24 } } as const;
    await hf.schedule("hourly", hourly);
    await clock.advance("90m");
    await hf.schedules.fireDue();
    await hf.close();
    await clock.advance("4h");
    const restarted = await another();
    expect((await restarted.schedule("hourly", hourly)).nextRunAt).toEqual(after(2 * HOUR));
    expect(await restarted.schedules.fireDue()).toBe(4);
    expect(await slotsMade(restarted, "hourly")).toEqual([1, 2, 3, 4, 5].map((hour) => after(hour * HOUR)));
  });
});
