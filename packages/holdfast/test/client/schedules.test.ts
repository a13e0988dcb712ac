import { ClosedError, holdfast, job, ScheduleExistsError, ScheduleNotFoundError, type Schedule } from "holdfast";
import { describe, expect, it } from "vitest";
import { recordingLogger } from "../engine/scene.js";
import { after, DAY, HOUR, MINUTE, openOn, PLACES, scheduleOf, slotsMade } from "./schedule-scene.js";
import { cleanup, double, expectRefusal, jobOf, START } from "./scene.js";

const names = ({ schedules }: { schedules: Schedule[] }): string[] => schedules.map(({ name }) => name);

describe.each(PLACES)("schedules %s", (place) => {
  it("C-11 are stored with all settings, next and last run", async () => {
    const { hf, clock } = await openOn(place);
    const made = await hf.schedules.create("digest", {
      job: double,
      input: { n: 5 },
      cron: " 0 8 * * MON-FRI ",
      timezone: "Europe/Berlin",
      enabled: true,
      catchUp: { all: 7 },
      overlap: "skip",
      startAt: "2026-01-02T00:00:00Z",
      endAt: new Date("2026-02-01T00:00:00Z"),
      jitter: "30s",
      queue: "mail",
      priority: 5,
      maxAttempts: 9,
      user: "ada",
      tags: ["morning", "mail", "mail"],
    });
    const expected: Schedule = {
      name: "digest",
      origin: "runtime",
      changed: [],
      type: "double",
      input: { n: 5 },
      cron: "0 8 * * MON-FRI",
      timezone: "Europe/Berlin",
      everyMs: null,
      startAt: new Date("2026-01-02T00:00:00Z"),
      endAt: new Date("2026-02-01T00:00:00Z"),
      jitterMs: 30_000,
      catchUp: { all: 7 },
      overlap: "skip",
      enabled: true,
      queue: "mail",
      priority: 5,
      maxAttempts: 9,
      user: "ada",
      tags: ["morning", "mail"],
      nextRunAt: new Date("2026-01-02T07:00:00Z"),
      lastSlot: null,
      createdAt: after(0),
      updatedAt: after(0),
      slots: [],
    };
    expect(made).toEqual(expected);
    expect(await hf.schedules.get("digest")).toEqual(expected);

    await clock.advance("31h");
    expect(await hf.schedules.fireDue()).toBe(1);
    const [run] = (await hf.list({ schedule: "digest" })).jobs;
    expect(run).toMatchObject({ type: "double", input: { n: 5 }, queue: "mail", priority: 5, maxAttempts: 9 });
    expect(run).toMatchObject({ user: "ada", tags: ["morning", "mail"] });
    expect(run?.schedule).toEqual({ name: "digest", slot: new Date("2026-01-02T07:00:00Z") });
    expect(await hf.schedules.get("digest")).toEqual({
      ...expected,
      lastSlot: new Date("2026-01-02T07:00:00Z"),
      // The slot after Friday is on Monday.
      nextRunAt: new Date("2026-01-05T07:00:00Z"),
      updatedAt: after(31 * HOUR),
      slots: [
        { slot: new Date("2026-01-02T07:00:00Z"), through: null, job: run?.id, reason: null, at: after(31 * HOUR) },
      ],
    });
  });

  it("C-11 have defaults, also from the job type", async () => {
    const { hf } = await openOn(place);
    const slow = job({ type: "slow", queue: "slow", priority: -7, retry: { maxAttempts: 2 }, tags: ["t"], run() {} });
    expect(await hf.schedules.create("nightly", { job: slow, cron: "@daily" })).toMatchObject({
      timezone: "UTC",
      input: {},
      catchUp: "latest",
      overlap: "allow",
      enabled: true,
      jitterMs: 0,
      startAt: null,
      endAt: null,
      user: null,
      queue: "slow",
      priority: -7,
      maxAttempts: 2,
      tags: ["t"],
      nextRunAt: after(DAY),
    });
  });

  it("have no next run if disabled or ended", async () => {
    const { hf, clock } = await openOn(place);
    expect(await hf.schedules.create("off", { job: cleanup, every: "1h", enabled: false })).toMatchObject({
      enabled: false,
      nextRunAt: null,
    });
    await hf.schedules.create("short", { job: cleanup, every: "1h", endAt: after(90 * MINUTE) });
    // A definition in code may have ended.
    expect((await hf.schedule("over", { job: cleanup, every: "1h", endAt: after(-1) })).nextRunAt).toBeNull();
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await scheduleOf(hf, "short")).toMatchObject({ enabled: true, nextRunAt: null, lastSlot: after(HOUR) });
    await clock.advance("100d");
    expect(await hf.schedules.fireDue()).toBe(0);
  });

  it("C-11 have unique names: a second one is refused", async () => {
    const { hf, versionOf } = await openOn(place);
    await hf.schedules.create("one", { job: cleanup, every: "1h" });
    await hf.schedule("two", { job: cleanup, every: "1h" });
    const versions = [await versionOf("one"), await versionOf("two")];
    for (const name of ["one", "two"]) {
      const again = hf.schedules.create(name, { job: double, input: { n: 1 }, every: "2h" });
      await expectRefusal(again, { is: ScheduleExistsError, code: "SCHEDULE_EXISTS", says: /hf\.schedules\.update/ });
    }
    expect([await versionOf("one"), await versionOf("two")]).toEqual(versions);
    await hf.unschedule("one");
    expect(await hf.schedules.create("one", { job: cleanup, every: "2h" })).toMatchObject({ everyMs: 2 * HOUR });
  });

  it("accept any readable name up to the length limit", async () => {
    const { hf } = await openOn(place);
    for (const name of ["x".repeat(200), "ü ☕ / ' \" ; --", "__proto__", "constructor", " "]) {
      await hf.schedules.create(name, { job: cleanup, every: "1h" });
      expect((await scheduleOf(hf, name)).name).toBe(name);
      expect((await hf.schedules.runNow(name)).duplicate).toBe(false);
      expect((await hf.list({ schedule: name })).jobs).toHaveLength(1);
      expect(await hf.schedules.remove(name)).toBe(true);
    }
  });

  it("may name an unknown job type, with any JSON input", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedules.create("elsewhere", { job: "elsewhere", input: [1, null], every: "1h" });
    await clock.advance("1h");
    await hf.schedules.fireDue();
    expect((await hf.list()).jobs[0]).toMatchObject({ type: "elsewhere", input: [1, null], queue: "default" });
    // The name of a known type is equivalent to the type.
    const known = await hf.schedules.create("known", { job: "double", input: { n: 2 }, every: "1h" });
    expect(known).toMatchObject({ type: "double", input: { n: 2 } });
  });

  it("are removed with their slot history; their jobs stay", async () => {
    const { hf } = await openOn(place);
    await hf.schedules.create("a", { job: cleanup, every: "1h" });
    await hf.schedule("b", { job: cleanup, every: "1h" });
    const { id } = await hf.schedules.runNow("a");
    expect(await hf.schedules.remove("a")).toBe(true);
    expect(await hf.schedules.remove("a")).toBe(false);
    expect(await hf.unschedule("b")).toBe(true);
    expect(await hf.unschedule("b")).toBe(false);
    expect(await hf.schedules.get("a")).toBeNull();
    expect(await hf.schedules.list()).toEqual({ schedules: [], cursor: null });
    expect((await jobOf(hf, id)).schedule?.name).toBe("a");
    expect((await hf.schedules.create("a", { job: cleanup, every: "1h" })).slots).toEqual([]);
    expect((await scheduleOf(hf, "a")).slots).toEqual([]);
  });

  it("are listed by name, filtered and a page at a time, without their slots", async () => {
    const { hf } = await openOn(place);
    for (const name of ["e", "c", "a"]) await hf.schedule(name, { job: cleanup, every: "1h" });
    await hf.schedules.create("b", { job: double, input: { n: 1 }, every: "1h", user: "ada", enabled: false });
    await hf.schedules.create("d", { job: cleanup, every: "1h", user: "ada" });
    await hf.schedules.runNow("a");
    const { schedules, cursor } = await hf.schedules.list();
    expect([names({ schedules }), cursor]).toEqual([["a", "b", "c", "d", "e"], null]);
    expect(schedules[0]?.slots).toEqual([]);
    expect(names(await hf.schedules.list({ origin: "code" }))).toEqual(["a", "c", "e"]);
    expect(names(await hf.schedules.list({ origin: "runtime" }))).toEqual(["b", "d"]);
    expect(names(await hf.schedules.list({ enabled: false }))).toEqual(["b"]);
    expect(names(await hf.schedules.list({ enabled: true, user: "ada" }))).toEqual(["d"]);
    expect(names(await hf.schedules.list({ type: double }))).toEqual(["b"]);
    expect(names(await hf.schedules.list({ type: "cleanup" }))).toEqual(["a", "c", "d", "e"]);
    expect(names(await hf.schedules.list({ user: "unused" }))).toEqual([]);

    const pages: string[][] = [];
    let at: string | null = null;
    do {
      const page: Awaited<ReturnType<typeof hf.schedules.list>> = await hf.schedules.list({ limit: 2, cursor: at });
      pages.push(names(page));
      at = page.cursor;
    } while (at !== null);
    expect(pages).toEqual([["a", "b"], ["c", "d"], ["e"]]);
    // A removal between two pages hides no other schedule.
    const first = await hf.schedules.list({ limit: 2 });
    await hf.unschedule("b");
    expect(names(await hf.schedules.list({ limit: 2, cursor: first.cursor }))).toEqual(["c", "d"]);
    expect(names(await hf.schedules.list({ origin: "code", limit: 1, cursor: "a" }))).toEqual(["c"]);
  });

  it("C-13 keep their history while disabled, and resume from now", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h", catchUp: { all: 100 } });
    await clock.advance("2h");
    expect(await hf.schedules.fireDue()).toBe(2);
    const { slots, lastSlot } = await scheduleOf(hf, "hourly");
    expect(slots).toHaveLength(2);
    expect(await hf.schedules.disable("hourly")).toMatchObject({ enabled: false, nextRunAt: null, lastSlot, slots });
    await clock.advance("10h");
    expect(await hf.schedules.fireDue()).toBe(0);
    expect(await scheduleOf(hf, "hourly")).toMatchObject({ slots, lastSlot, nextRunAt: null });
    await clock.advance("30m");
    const enabled = await hf.schedules.enable("hourly");
    expect(enabled).toMatchObject({ enabled: true, nextRunAt: after(13 * HOUR), slots, lastSlot });
    expect(await hf.schedules.fireDue()).toBe(0);
    await clock.advance("30m");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await slotsMade(hf, "hourly")).toEqual([after(HOUR), after(2 * HOUR), after(13 * HOUR)]);
  });

  it("that are already enabled keep a due slot", async () => {
    const { hf, clock, versionOf } = await openOn(place);
    await hf.schedules.create("hourly", { job: cleanup, every: "1h", catchUp: { all: 100 } });
    await clock.advance("3h");
    const version = await versionOf("hourly");
    expect((await hf.schedules.enable("hourly")).nextRunAt).toEqual(after(HOUR));
    expect(await versionOf("hourly")).toBe(version);
    expect(await hf.schedules.fireDue()).toBe(3);
  });

  it("that do not exist cannot be changed, run or previewed", async () => {
    const { hf } = await openOn(place);
    await hf.schedule("there", { job: cleanup, every: "1h" });
    for (const action of [
      hf.schedules.update("gone", { priority: 1 }),
      hf.schedules.enable("gone"),
      hf.schedules.disable("gone"),
      hf.schedules.reset("gone"),
      hf.schedules.runNow("gone"),
      hf.schedules.preview("gone"),
    ]) {
      await expectRefusal(action, {
        is: ScheduleNotFoundError,
        code: "SCHEDULE_NOT_FOUND",
        says: /^schedule "gone" not found/,
      });
    }
    expect(names(await hf.schedules.list())).toEqual(["there"]);
  });

  it("cannot be used after close", async () => {
    const { hf } = await openOn(place);
    await hf.close();
    for (const action of [
      () => hf.schedule("a", { job: cleanup, every: "1h" }),
      () => hf.unschedule("a"),
      () => hf.schedules.create("a", { job: cleanup, every: "1h" }),
      () => hf.schedules.get("a"),
      () => hf.schedules.list(),
      () => hf.schedules.update("a", {}),
      () => hf.schedules.reset("a"),
      () => hf.schedules.preview({ every: "1h" }),
      () => hf.schedules.runNow("a"),
      () => hf.schedules.fireDue(),
    ]) {
      await expectRefusal(action(), { is: ClosedError, code: "CLOSED" });
    }
  });

  it("fireDue creates one job per due slot and returns the count", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h" });
    await hf.schedule("daily", { job: double, input: { n: 1 }, cron: "@daily" });
    expect(await hf.schedules.fireDue()).toBe(0);
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await hf.schedules.fireDue()).toBe(0);
    await clock.advance("23h");
    expect(await Promise.all([hf.schedules.fireDue(), hf.schedules.fireDue()])).toContain(2);
    expect(await hf.schedules.fireDue()).toBe(0);
    expect(await slotsMade(hf, "daily")).toEqual([after(DAY)]);
    expect(await slotsMade(hf, "hourly")).toEqual([after(HOUR), after(DAY)]);
    expect(await hf.drain()).toBe(3);
    expect(START + DAY).toBe(clock.now());
  });
});

describe("warnings for authors of schedules", () => {
  it("at the start: options changed at run time that override code", async () => {
    const { logger, lines } = recordingLogger();
    const hf = await holdfast({ store: "sqlite::memory:", jobs: [cleanup], logger });
    await hf.schedule("s", { job: cleanup, every: "1h" });
    await hf.schedules.update("s", { every: "2h" });
    expect(lines).toEqual([]);
    await hf.schedule("s", { job: cleanup, every: "3h" });
    expect(lines).toMatchObject([{ level: "warn", fields: { schedule: "s", changed: "every" } }]);
    await hf.close();
  });

  it("at the start: a job that this process does not have", async () => {
    const { logger, lines } = recordingLogger();
    const hf = await holdfast({ store: "sqlite::memory:", jobs: [cleanup], logger });
    await hf.schedule("s", { job: job({ type: "forgotten", run() {} }), every: "1h" });
    expect(lines).toMatchObject([{ level: "warn", fields: { schedule: "s", type: "forgotten" } }]);
    await hf.close();
  });

  it("are not needed for a missing await: close waits for the schedule", async () => {
    const { hf, another } = await openOn("on a file");
    const reader = await another();
    const defined = hf.schedule("s", { job: cleanup, every: "1h" });
    await hf.close();
    await defined;
    expect(await reader.schedules.get("s")).not.toBeNull();
  });
});
