import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { eventsOf } from "../engine/scene.js";
import { after, DAY, HOUR, MINUTE, openOn, PLACES, scheduleOf, slotsMade } from "./schedule-scene.js";
import { cleanup, double, jobOf, stateOf } from "./scene.js";

const count = (many: number): undefined[] => Array.from({ length: many });

describe.each(PLACES)("a preview of slots %s", (place) => {
  it("lists the next five slots, or a given number, and changes nothing", async () => {
    const { hf, clock, store } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h" });
    await clock.advance("30m");
    store.forget();
    const hours = (many: number): Date[] => count(many).map((_, index) => after((index + 1) * HOUR));
    expect(await hf.schedules.preview("hourly")).toEqual(hours(5));
    expect(await hf.schedules.preview("hourly", 1)).toEqual(hours(1));
    expect(await hf.schedules.preview("hourly", 100)).toEqual(hours(100));
    expect(store.count("putSchedule") + store.count("fire")).toBe(0);
  });

  it("lists the slots of a given timing, across a clock change", async () => {
    const { hf, clock } = await openOn(place);
    clock.setWall(Date.UTC(2026, 2, 27, 12));
    expect(await hf.schedules.preview({ cron: "30 2 * * *", timezone: "Europe/Berlin" }, 4)).toEqual([
      new Date("2026-03-28T01:30:00Z"),
      // 02:30 does not exist on this day; it runs at the clock change.
      new Date("2026-03-29T01:00:00Z"),
      new Date("2026-03-30T00:30:00Z"),
      new Date("2026-03-31T00:30:00Z"),
    ]);
    expect(await hf.schedules.preview({ every: "1d", startAt: "2026-04-01T06:15:00Z" }, 2)).toEqual([
      new Date("2026-04-01T06:15:00Z"),
      new Date("2026-04-02T06:15:00Z"),
    ]);
    expect((await hf.schedules.list()).schedules).toEqual([]);
  });

  it("ends with the last slot", async () => {
    const { hf } = await openOn(place);
    await hf.schedule("short", { job: cleanup, every: "1h", startAt: after(HOUR), endAt: after(3 * HOUR) });
    const both = [after(HOUR), after(2 * HOUR)];
    expect(await hf.schedules.preview("short", 10)).toEqual(both);
    expect(await hf.schedules.preview({ cron: "@hourly", startAt: after(1), endAt: after(3 * HOUR) })).toEqual(both);
    expect(await hf.schedules.preview({ cron: "@hourly", endAt: after(0) })).toEqual([]);
  });

  it("of a disabled schedule shows future slots only", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h", enabled: false });
    expect(await hf.schedules.preview("hourly", 1)).toEqual([after(HOUR)]);
    await hf.schedules.enable("hourly");
    await clock.advance("2h");
    await hf.schedules.fireDue();
    clock.setWall(clock.now() - 90 * MINUTE);
    expect(await hf.schedules.preview("hourly", 1)).toEqual([after(3 * HOUR)]);
  });
});

describe.each(PLACES)("a manual run %s", (place) => {
  it("creates a job and does not affect the slots", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: double, input: { n: 4 }, every: "1h", queue: "q", priority: 3, jitter: "30m" });
    const fired = eventsOf(hf, "fired");
    await clock.advance("10m");
    const before = await scheduleOf(hf, "hourly");
    const { id, duplicate } = await hf.schedules.runNow("hourly");
    expect(duplicate).toBe(false);
    // Immediately: jitter does not apply to a manual run.
    expect(await jobOf(hf, id)).toMatchObject({ type: "double", queue: "q", priority: 3, runAt: after(10 * MINUTE) });
    expect((await jobOf(hf, id)).schedule).toEqual({ name: "hourly", slot: after(10 * MINUTE) });
    const now = await scheduleOf(hf, "hourly");
    expect(now).toMatchObject({ nextRunAt: before.nextRunAt, lastSlot: null });
    expect(now.slots).toEqual([
      { slot: after(10 * MINUTE), through: null, job: id, reason: "manual", at: after(10 * MINUTE) },
    ]);
    expect(fired).toEqual([{ schedule: "hourly", slot: after(10 * MINUTE), id, reason: "manual" }]);
    expect(await hf.drain()).toBe(1);
    await clock.advance("50m");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await slotsMade(hf, "hourly")).toEqual([after(10 * MINUTE), after(HOUR)]);
  });

  it("may be repeated, also at the same instant", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h" });
    await clock.advance("1h");
    const runs = await Promise.all(count(10).map(() => hf.schedules.runNow("hourly")));
    expect(new Set(runs.map(({ id }) => id)).size).toBe(10);
    expect(runs.some(({ duplicate }) => duplicate)).toBe(false);
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await slotsMade(hf, "hourly")).toHaveLength(11);
  });

  it("works on a disabled schedule, which stays disabled", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h", enabled: false });
    const { id } = await hf.schedules.runNow("hourly");
    expect(await stateOf(hf, id)).toBe("pending");
    expect(await scheduleOf(hf, "hourly")).toMatchObject({ enabled: false, nextRunAt: null });
    await clock.advance("1d");
    expect(await hf.schedules.fireDue()).toBe(0);
  });

  it("returns the live run if overlap is skipped", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h", overlap: "skip" });
    await clock.advance("1h");
    await hf.schedules.fireDue();
    const [live] = (await hf.list({ schedule: "hourly" })).jobs;
    expect(await hf.schedules.runNow("hourly")).toEqual({ id: live?.id, duplicate: true, replaced: false });
    expect(await slotsMade(hf, "hourly")).toEqual([after(HOUR)]);
    expect((await scheduleOf(hf, "hourly")).slots[0]).toMatchObject({
      job: null,
      reason: "overlap",
    });
    await hf.drain();
    const again = await hf.schedules.runNow("hourly");
    expect(again).toMatchObject({ duplicate: false });
    expect(again.id).not.toBe(live?.id);
    // It counts as a run: a slot that becomes due meanwhile is skipped.
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBe(0);
    expect((await scheduleOf(hf, "hourly")).lastSlot).toEqual(after(2 * HOUR));
  });
});

describe.each(PLACES)("the slot history %s", (place) => {
  it("has the last twenty fired and the last twenty skipped slots", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h", overlap: "skip" });
    for (let hour = 1; hour <= 50; hour++) {
      await clock.advance("1h");
      await hf.schedules.fireDue();
      // Every second run ends before the next slot.
      if (hour % 2 === 0) await hf.drain();
    }
    const { slots } = await scheduleOf(hf, "hourly");
    expect(slots.map(({ slot }) => slot)).toEqual(count(40).map((_, index) => after((50 - index) * HOUR)));
    for (const [index, { job: made, reason, at, slot, through }] of slots.entries()) {
      const fired = index % 2 === 1;
      expect({ made: made !== null, reason }).toEqual({
        made: fired,
        reason: fired ? null : "overlap",
      });
      expect([at, through]).toEqual([slot, null]);
      if (made !== null) expect((await jobOf(hf, made)).schedule).toEqual({ name: "hourly", slot });
    }
  });

  it("keeps the ids of purged jobs", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("hourly", { job: cleanup, every: "1h" });
    await clock.advance("1h");
    await hf.schedules.fireDue();
    await hf.drain();
    expect(await hf.purge({ state: "completed", olderThan: 0 })).toBe(0);
    await clock.advance("1s");
    expect(await hf.purge({ state: "completed", olderThan: 0 })).toBe(1);
    const [kept] = (await scheduleOf(hf, "hourly")).slots;
    expect(kept?.slot).toEqual(after(HOUR));
    expect(await hf.get(kept?.job ?? "")).toBeNull();
  });

  it("jobs can be listed, cancelled and removed by schedule", async () => {
    const { hf, clock } = await openOn(place);
    await hf.schedule("a", { job: cleanup, every: "1h", catchUp: { all: 10 } });
    await hf.schedule("b", { job: cleanup, every: "1h" });
    await hf.enqueue(cleanup);
    await clock.advance("3h");
    expect(await hf.schedules.fireDue()).toBe(4);
    expect(await hf.cancel({ schedule: "a" })).toBe(3);
    expect((await hf.list({ schedule: "b" })).jobs.map(({ state }) => state)).toEqual(["pending"]);
    expect(await hf.remove({ schedule: "a" })).toBe(3);
    const left = (await hf.list()).jobs;
    expect(left.map((found) => found.schedule?.name ?? null)).toEqual(["b", null]);
    const { id } = await hf.rerun(left[0]?.id ?? "");
    expect((await jobOf(hf, id)).schedule).toEqual({ name: "b", slot: after(3 * HOUR) });
  });

  it("expiresAfter of a job type counts from the slot's run", async () => {
    const brief = job({ type: "brief", expiresAfter: "10m", run() {} });
    const { hf, clock } = await openOn(place);
    await hf.schedule("daily", { job: brief, cron: "@daily" });
    await clock.advance("26h");
    await hf.schedules.fireDue();
    const [late] = (await hf.list()).jobs;
    expect(late?.expiresAt).toEqual(after(DAY + 2 * HOUR + 10 * MINUTE));
  });
});
