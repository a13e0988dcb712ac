import { job, type Schedule, type ScheduleChanges } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { after, DAY, HOUR, openOn, PLACES, scheduleOf, settingsOf, slotsMade } from "./schedule-scene.js";
import { cleanup, double, START } from "./scene.js";

const digest = job({ type: "digest", input: z.object({ n: z.number() }), queue: "digests", priority: 9, run() {} });

describe("an update", () => {
  it.each<[string, ScheduleChanges, Partial<Schedule>]>([
    ["the input", { input: { n: 2 } }, { input: { n: 2 } }],
    ["the pattern", { cron: "0 9 * * *" }, { cron: "0 9 * * *", nextRunAt: after(9 * HOUR) }],
    ["the zone", { timezone: "Asia/Tokyo" }, { timezone: "Asia/Tokyo", nextRunAt: after(23 * HOUR) }],
    [
      "pattern and zone",
      { cron: "0 9 * * *", timezone: "Asia/Tokyo" },
      { cron: "0 9 * * *", timezone: "Asia/Tokyo", nextRunAt: after(DAY) },
    ],
    [
      "the pattern for an interval",
      { every: "15m" },
      { cron: null, timezone: null, everyMs: 900_000, nextRunAt: after(900_000) },
    ],
    ["whether it runs", { enabled: false }, { enabled: false, nextRunAt: null }],
    ["what is caught up", { catchUp: { all: 3 } }, { catchUp: { all: 3 } }],
    ["whether runs overlap", { overlap: "skip" }, { overlap: "skip" }],
    ["the start", { startAt: after(5 * DAY) }, { startAt: after(5 * DAY), nextRunAt: after(5 * DAY + 8 * HOUR) }],
    ["the end", { endAt: START + DAY }, { endAt: after(DAY) }],
    ["the jitter", { jitter: "5s" }, { jitterMs: 5_000 }],
    ["the queue", { queue: "other" }, { queue: "other" }],
    ["the priority", { priority: -3 }, { priority: -3 }],
    ["the attempts", { maxAttempts: 1 }, { maxAttempts: 1 }],
    ["the user", { user: "grace" }, { user: "grace" }],
    ["the tags", { tags: ["b"] }, { tags: ["b"] }],
    ["the job, with the defaults of its type", { job: digest }, { type: "digest", queue: "digests", priority: 9 }],
    [
      "the job, and a setting beside it",
      { job: digest, queue: "mine" },
      { type: "digest", queue: "mine", priority: 9 },
    ],
    ["the job by its name", { job: "cleanup", input: {} }, { type: "cleanup", input: {} }],
  ])("changes %s and nothing else", async (_what, changes, expected) => {
    const { hf, clock, versionOf } = await openOn("in memory");
    const options = { job: double, input: { n: 1 }, cron: "0 8 * * *", user: "ada", overlap: "allow" } as const;
    const before = await hf.schedules.create("s", options);
    const version = await versionOf("s");
    await clock.advance("1ms");
    const changed = await hf.schedules.update("s", changes);
    expect(settingsOf(changed)).toEqual({
      ...settingsOf(before),
      ...settingsOf(expected as Schedule),
    });
    expect(changed).toMatchObject({ ...expected, origin: "runtime", changed: [], updatedAt: after(1) });
    expect(await scheduleOf(hf, "s")).toEqual(changed);
    expect(await versionOf("s")).not.toBe(version);
  });
});

describe.each(PLACES)("an update %s", (place) => {
  it("removes the start, the end and the user with null", async () => {
    const { hf } = await openOn(place);
    const window = { startAt: after(DAY), endAt: after(2 * DAY), user: "ada" };
    await hf.schedules.create("s", { job: cleanup, every: "1h", ...window });
    expect(await hf.schedules.update("s", { startAt: null, endAt: null, user: null })).toMatchObject({
      startAt: null,
      endAt: null,
      user: null,
      nextRunAt: after(HOUR),
    });
  });

  it("without a change writes nothing", async () => {
    const { hf, clock, versionOf, store } = await openOn(place);
    const made = await hf.schedules.create("s", { job: double, input: { n: 1 }, every: "1h", tags: ["a"] });
    const version = await versionOf("s");
    await clock.advance("3h");
    store.forget();
    for (const same of [{}, { input: { n: 1 } }, { every: 3_600_000 }, { tags: ["a", "a"] }, { enabled: true }]) {
      expect(await hf.schedules.update("s", same)).toEqual(made);
    }
    expect([store.count("putSchedule"), await versionOf("s")]).toEqual([0, version]);
  });

  it("of the pattern keeps its zone", async () => {
    const { hf } = await openOn(place);
    await hf.schedules.create("s", { job: cleanup, cron: "0 8 * * *", timezone: "Europe/Berlin" });
    expect(await hf.schedules.update("s", { cron: "0 9 * * *" })).toMatchObject({
      cron: "0 9 * * *",
      timezone: "Europe/Berlin",
      nextRunAt: after(8 * HOUR),
    });
  });

  it("may set a null input if the job accepts it", async () => {
    const nullable = job({ type: "nullable", input: z.object({ n: z.number() }).nullable(), run() {} });
    const { hf } = await openOn(place, { jobs: [nullable] });
    await hf.schedules.create("s", { job: nullable, input: { n: 1 }, every: "1h" });
    expect((await hf.schedules.update("s", { input: null })).input).toBeNull();
  });

  it("of other settings keeps a due slot", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedules.create("s", { job: double, input: { n: 1 }, every: "1h", catchUp: { all: 10 } });
    await clock.advance("150m");
    expect((await hf.schedules.update("s", { input: { n: 2 }, priority: 4 })).nextRunAt).toEqual(after(HOUR));
    expect(await hf.schedules.fireDue()).toBe(2);
    const { jobs } = await hf.list({ schedule: "s" });
    expect(jobs.map(({ input, priority }) => ({ input, priority }))).toEqual([
      { input: { n: 2 }, priority: 4 },
      { input: { n: 2 }, priority: 4 },
    ]);
  });

  it("of the timing starts from now, and repeats no slot", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedules.create("s", { job: cleanup, every: "1h" });
    await clock.advance("1h");
    await hf.schedules.fireDue();
    clock.setWall(clock.now() - HOUR + 1);
    expect((await hf.schedules.update("s", { every: "10m" })).nextRunAt).toEqual(after(HOUR + 600_000));
    await clock.advance("2h");
    await hf.schedules.fireDue();
    expect(await slotsMade(hf, "s")).toEqual([after(HOUR), after(2 * HOUR)]);
  });

  it("can disable and repair a damaged schedule", async () => {
    const { hf, store, clock } = await openOn(place);
    await hf.schedules.create("s", { job: cleanup, cron: "0 8 * * *" });
    const stored = await store.store.getSchedule("s");
    if (stored === null) throw new Error("it was just made");
    await store.store.putSchedule({ ...stored, cron: "every morning", version: "manual" }, stored.version);
    expect(await scheduleOf(hf, "s")).toMatchObject({ cron: "every morning", enabled: true });
    await clock.advance("1ms");
    expect(await hf.schedules.update("s", { cron: "0 9 * * *" })).toMatchObject({ nextRunAt: after(9 * HOUR) });
    const mended = await store.store.getSchedule("s");
    if (mended === null) throw new Error("it was just mended");
    await store.store.putSchedule({ ...mended, cron: "every morning", version: "manual" }, mended.version);
    expect(await hf.schedules.disable("s")).toMatchObject({ enabled: false, nextRunAt: null });
  });
});
