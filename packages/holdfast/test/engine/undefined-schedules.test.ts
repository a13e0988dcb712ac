import { job, type Events } from "holdfast";
import { describe, expect, it } from "vitest";
import { eventsOf, scene, type Scene } from "./scene.js";
import { MINUTE, slotsMade, steps } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });
const hourly = { job: nothing, every: "1h" } as const;
const minutely = { job: nothing, every: "1m" } as const;
// Claims are rare: only the scheduler is tested.
const seldom = { poll: "1h" } as const;

/** A restarted process whose code no longer defines the schedule `old`. */
async function restarted(): Promise<Scene & { reported: Events["undefinedSchedule"][] }> {
  const scenery = await scene({ jobs: [nothing] });
  const before = await scenery.another({ jobs: [nothing] });
  await before.schedule("old", minutely);
  await before.schedule("kept", hourly);
  await before.schedules.create("made", hourly);
  await before.close();
  const { hf } = scenery;
  await hf.schedule("kept", hourly);
  await hf.schedule("new", hourly);
  return { ...scenery, reported: eventsOf(hf, "undefinedSchedule") };
}

describe("a schedule that code no longer defines", () => {
  it("is reported once, and never deleted", async () => {
    const { hf, clock, lines, reported } = await restarted();
    hf.work(seldom);
    await clock.advance("66s");
    expect(reported).toEqual([{ schedule: "old" }]);
    await clock.advance("20m");
    expect(reported).toHaveLength(1);
    const logged = lines.filter(({ fields }) => fields["schedule"] === "old");
    expect(logged.map(({ level, message }) => [level, /hf\.unschedule/.test(message)])).toEqual([["warn", true]]);
    expect(await hf.schedules.get("old")).toMatchObject({ enabled: true, origin: "code" });
    expect(await slotsMade(hf, "old")).toEqual(steps(MINUTE, 1, 21));
  });

  it("is reported after the last worker that defines it has stopped", async () => {
    const { hf, clock, another, reported } = await restarted();
    const other = await another({ jobs: [nothing] });
    await other.schedule("old", minutely);
    other.work(seldom);
    hf.work(seldom);
    await clock.advance("20m");
    expect(reported).toEqual([]);
    // Checked every five minutes. Deregistered workers do not count.
    await clock.advance("298s");
    const closing = other.close();
    await clock.advance("70s");
    await closing;
    expect(reported).toEqual([{ schedule: "old" }]);
  });

  it("is not reported while a live worker with rare heartbeats defines it", async () => {
    const { hf, clock, another, reported } = await restarted();
    const other = await another({ jobs: [nothing] });
    await other.schedule("old", minutely);
    other.work({ ...seldom, lease: "13m" });
    hf.work(seldom);
    await clock.advance("1h");
    expect(reported).toEqual([]);
  });

  it("is not reported if another worker defined it after its start", async () => {
    const { hf, clock, another, reported } = await restarted();
    const other = await another({ jobs: [nothing] });
    other.work(seldom);
    await clock.settle();
    await other.schedule("old", minutely);
    hf.work(seldom);
    await clock.advance("1m");
    expect(reported).toEqual([]);
  });

  it("is reported if the worker that defined it crashed", async () => {
    const { hf, clock, store, reported } = await restarted();
    await store.store.heartbeat({
      id: "dead",
      queues: null,
      types: [],
      schedules: ["old"],
      concurrency: 1,
      running: 0,
      host: "h",
      pid: 1,
      startedAt: clock.now(),
    });
    hf.work(seldom);
    await clock.advance("30s");
    expect(reported).toEqual([]);
    await clock.advance("11m");
    expect(reported).toEqual([{ schedule: "old" }]);
  });

  it("is not reported again after it is unscheduled", async () => {
    const { hf, clock, reported } = await restarted();
    hf.work(seldom);
    await clock.advance("66s");
    await hf.unschedule("old");
    await clock.advance("6m");
    expect(reported).toEqual([{ schedule: "old" }]);
    expect(await hf.schedules.get("old")).toBeNull();
  });

  it("is reported if code defined and unscheduled it", async () => {
    const { hf, clock, another, reported } = await restarted();
    await hf.schedule("old", minutely);
    await hf.unschedule("old");
    const other = await another({ jobs: [nothing] });
    await other.schedule("old", minutely);
    hf.work(seldom);
    await clock.advance("66s");
    expect(reported).toEqual([{ schedule: "old" }]);
  });

  it("is searched every five minutes with two calls", async () => {
    const { hf, clock, store } = await restarted();
    hf.work(seldom);
    await clock.advance("1m");
    store.forget();
    await clock.advance("30m");
    expect(store.count("listSchedules")).toBe(6);
    expect(store.count("workers")).toBeLessThanOrEqual(6);
  });

  it("is found among thousands", async () => {
    const { hf, clock, store, reported } = await restarted();
    const old = await store.store.getSchedule("old");
    if (old === null) throw new Error("it was just made");
    for (let n = 0; n < 2_100; n++) {
      await store.store.putSchedule({ ...old, name: `lost ${n}`, version: `${n}`, enabled: false }, null);
    }
    hf.work(seldom);
    await clock.advance("66s");
    expect(new Set(reported.map(({ schedule }) => schedule)).size).toBe(2_101);
  });
});
