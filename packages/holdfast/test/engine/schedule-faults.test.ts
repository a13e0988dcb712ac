import { holdfast, job } from "holdfast";
import type { Store, StoredSchedule } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { scene } from "./scene.js";
import { after, overwrite, DAY, HOUR, jobsOf, SECOND, slotsMade, START, steps } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });
const other = job({ type: "other", run() {} });

describe("C-12 a slot is neither lost nor invented", () => {
  it("by a process that cannot read the schedule", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "1h" });
    await clock.advance("1h");
    await overwrite(store.store, "s", { everyMs: null, cron: "0 * * * *", timezone: "Europe/Atlantis" });
    expect(await hf.schedules.fireDue()).toBe(0);
    await overwrite(store.store, "s", { everyMs: null, cron: "0 * * * *", timezone: "UTC" });
    await clock.advance("10m");
    const elsewhere = await another({ jobs: [nothing], scheduler: false });
    expect(await elsewhere.schedules.fireDue()).toBe(1);
    expect(await slotsMade(hf, "s")).toEqual([after(HOUR)]);
  });

  it("by a stored next run that is no longer a slot", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, cron: "0 * * * *" });
    await overwrite(store.store, "s", { nextRunAt: START + HOUR - 1_800_000 });
    await clock.advance("45m");
    expect(await hf.schedules.fireDue()).toBe(0);
    await clock.advance("15m");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect(await slotsMade(hf, "s")).toEqual([after(HOUR)]);
  });

  it("by a deployment that changes its timing", async () => {
    const { hf, clock } = await scene({ jobs: [nothing], scheduler: false });
    const daily = { job: nothing, every: "1d", catchUp: { all: 10 } } as const;
    await hf.schedule("s", { ...daily, endAt: START + 400 * DAY });
    await clock.advance("3d");
    await hf.schedule("s", { ...daily, endAt: START + 800 * DAY });
    expect(await slotsMade(hf, "s")).toEqual(steps(DAY, 1, 3));
    await clock.advance("2d");
    await hf.schedule("s", { ...daily, every: "2d" });
    expect(await slotsMade(hf, "s")).toEqual(steps(DAY, 1, 5));
    expect((await hf.schedules.get("s"))?.nextRunAt).toEqual(after(6 * DAY));
  });

  it("but disabling a schedule drops its due slots", async () => {
    const { hf, clock } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "1h" });
    await clock.advance("1h");
    await hf.schedules.disable("s");
    await hf.schedules.enable("s");
    expect(await hf.schedules.fireDue()).toBe(0);
  });

  it("by a recreated schedule of the same name", async () => {
    const { hf, clock } = await scene({ jobs: [nothing, other], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "10s" });
    await clock.advance("10s");
    expect(await hf.schedules.fireDue()).toBe(1);
    await hf.unschedule("s");
    clock.setWall(START + 5 * SECOND);
    await hf.schedule("s", { job: other, every: "10s" });
    await clock.advance("5s");
    expect(await hf.schedules.fireDue()).toBe(1);
    expect((await jobsOf(hf, "s")).map(({ type }) => type).toSorted()).toEqual(["nothing", "other"]);
  });
});

describe("one bad schedule", () => {
  it.each<[string, Partial<StoredSchedule>]>([
    ["a start beyond all dates", { startAt: 9_000_000_000_000_000 }],
    ["a catch-up of no number", { catchUp: { all: Number.NaN } }],
    ["neither pattern nor interval that makes sense", { cron: "x y z", timezone: "UTC", everyMs: null }],
  ])("with %s does not affect other schedules", async (_what, changes) => {
    const { hf, clock, store, lines } = await scene({ jobs: [nothing], scheduler: false });
    for (const name of ["a", "bad", "c"]) await hf.schedule(name, { job: nothing, cron: "* * * * *" });
    await overwrite(store.store, "bad", changes);
    await clock.advance("1m");
    expect(await hf.schedules.fireDue()).toBe(2);
    await clock.advance("1m");
    expect(await hf.schedules.fireDue()).toBe(2);
    expect(lines.filter(({ level, fields }) => level === "error" && fields["schedule"] === "bad")).toHaveLength(1);
  });

  it("that the store refuses does not affect others", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing], scheduler: false });
    for (const name of ["a", "bad", "c"]) await hf.schedule(name, { job: nothing, every: "1m" });
    const choosy = new Proxy(store.store, {
      get(target, property) {
        if (property !== "fire") return Reflect.get(target, property) as unknown;
        return async (firings: Parameters<Store["fire"]>[0]) => {
          if (firings.some(({ name }) => name === "bad")) throw new TypeError("what is this");
          return target.fire(firings);
        };
      },
    });
    const client = await holdfast({ store: choosy, clock, logger: false });
    await clock.advance("1m");
    expect(await client.schedules.fireDue()).toBe(2);
    expect(await slotsMade(hf, "bad")).toEqual([]);
  });
});

describe("a scheduler in trouble", () => {
  it("that is slower than its schedules still returns", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "1s" });
    const slow = new Proxy(store.store, {
      get(target, property) {
        if (property !== "fire") return Reflect.get(target, property) as unknown;
        return async (firings: Parameters<Store["fire"]>[0]) => {
          const results = await target.fire(firings);
          // Each firing takes longer than the interval: afterwards the next slot is due.
          clock.setWall(clock.now() + 2_000);
          return results;
        };
      },
    });
    const client = await holdfast({ store: slow, clock, logger: false });
    await clock.advance("1s");
    expect(await client.schedules.fireDue()).toBe(1);
  });

  it("retries soon after a failure, even with a long tick", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing], scheduler: { tick: "1h" } });
    await hf.schedule("s", { job: nothing, every: "10s", catchUp: "skip" });
    hf.work({ poll: "1h" });
    const back = store.fail(new Error("a moment's trouble"), "fire");
    await clock.advance("10s");
    back();
    await clock.advance("1s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND)]);
  });
});

describe("stored schedules", () => {
  it("store a large input once", async () => {
    const { hf, store } = await scene({ jobs: [nothing], scheduler: false });
    const text = "x".repeat(100_000);
    await hf.schedules.create("s", { job: "big", input: { text }, every: "1h" });
    await overwrite(store.store, "s", { origin: "code", defined: JSON.stringify({ type: "big" }), changes: "{}" });
    await hf.schedules.update("s", { priority: 5 });
    const { input, defined, changes } = (await store.store.getSchedule("s")) ?? {};
    expect([input?.length, (defined?.length ?? 0) < 1_000, (changes?.length ?? 0) < 1_000]).toEqual([
      100_011,
      true,
      true,
    ]);
  });

  it("C-15 stay disabled by an operator, also if code agrees for a while", async () => {
    const { hf } = await scene({ jobs: [nothing], scheduler: false });
    const hourly = { job: nothing, every: "1h" } as const;
    await hf.schedule("s", hourly);
    await hf.schedules.disable("s");
    await hf.schedule("s", { ...hourly, enabled: false });
    expect((await hf.schedule("s", hourly)).enabled).toBe(false);
    expect((await hf.schedules.enable("s")).enabled).toBe(true);
    expect((await hf.schedule("s", hourly)).changed).toEqual([]);
  });

  it("respect overlap: skip in a rerun", async () => {
    const { hf, clock } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "1h", overlap: "skip" });
    await clock.advance("1h");
    await hf.schedules.fireDue();
    await hf.drain();
    const [done] = await jobsOf(hf, "s");
    const again = await hf.rerun(done?.id ?? "");
    await clock.advance("1h");
    expect(await hf.schedules.fireDue()).toBe(0);
    expect(await hf.rerun(done?.id ?? "")).toEqual({ id: again.id, duplicate: true, replaced: false });
  });
});
