import { job, type ScheduledSlot } from "holdfast";
import { sqlite } from "holdfast/sqlite";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { deferred, eventsOf, next, onFile, scene, type Scene } from "./scene.js";
import { after, overwrite, HOUR, jobsOf, MINUTE, noting, SECOND, slotsMade, steps } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });

describe("the scheduler", () => {
  it("C-12 fires each slot on time, and a worker runs it", async () => {
    const { type, ran } = noting(() => scenery.clock);
    const scenery: Scene = await scene({ jobs: [type] });
    const { hf, clock } = scenery;
    await hf.schedule("ten", { job: type, every: "10s", startAt: after(-123_456) });
    await hf.schedule("odd", { job: type, every: 7_777, startAt: after(12_345) });
    await hf.schedule("cron", { job: type, cron: "*/15 * * * * *", timezone: "Asia/Kolkata" });
    hf.work();
    await clock.advance("1m");
    const ten = [6_544, 16_544, 26_544, 36_544, 46_544, 56_544];
    const odd = [12_345, 20_122, 27_899, 35_676, 43_453, 51_230, 59_007];
    const cron = [15_000, 30_000, 45_000, 60_000];
    const expected = [...ten, ...odd, ...cron].toSorted((a, b) => a - b);
    expect(ran.map(({ slot }) => slot)).toEqual(expected.map((ms) => after(ms)));
    for (const { slot, at } of ran) expect(at).toEqual(slot);
    for (const made of await jobsOf(hf, "odd")) {
      expect([made.createdAt, made.runAt, made.finishedAt]).toEqual(Array(3).fill(made.schedule?.slot));
    }
  });

  it("passes schedule and slot to the handler", async () => {
    const seen: (ScheduledSlot | null)[] = [];
    const type = job({ type: "t", input: z.object({ n: z.number() }), run: (run) => void seen.push(run.job.schedule) });
    const { hf, clock } = await scene({ jobs: [type] });
    await hf.schedule("minutely", { job: type, input: { n: 1 }, every: "1m" });
    await hf.enqueue(type, { n: 2 });
    hf.work();
    await clock.advance("2m");
    expect(seen).toEqual([
      null,
      { name: "minutely", slot: after(MINUTE) },
      { name: "minutely", slot: after(2 * MINUTE) },
    ]);
  });

  it("emits fired events once the jobs are stored", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    const order: string[] = [];
    for (const name of ["enqueued", "fired", "completed"] as const) hf.on(name, () => void order.push(name));
    const [fired, enqueued, skipped] = [eventsOf(hf, "fired"), eventsOf(hf, "enqueued"), eventsOf(hf, "skipped")];
    await hf.schedule("s", { job: nothing, every: "10s", queue: "q" });
    hf.work();
    await clock.advance("10s");
    const [made] = await jobsOf(hf, "s");
    expect(fired).toEqual([{ schedule: "s", slot: after(10 * SECOND), id: made?.id, reason: null }]);
    expect(enqueued).toEqual([{ id: made?.id, type: "nothing", queue: "q", replaced: false }]);
    expect(skipped).toEqual([]);
    expect(order).toEqual(["enqueued", "fired", "completed"]);
  });

  it("fires from the start and before the end", async () => {
    const { hf, clock } = await scene({ jobs: [nothing] });
    await hf.schedule("every", { job: nothing, every: "10s", startAt: after(30_500), endAt: after(60_500) });
    await hf.schedule("cron", { job: nothing, cron: "*/10 * * * * *", startAt: after(30_000), endAt: after(60_000) });
    hf.work();
    await clock.advance("90s");
    expect(await slotsMade(hf, "every")).toEqual([after(30_500), after(40_500), after(50_500)]);
    expect(await slotsMade(hf, "cron")).toEqual([after(30_000), after(40_000), after(50_000)]);
    for (const name of ["every", "cron"]) {
      expect(await hf.schedules.get(name)).toMatchObject({ enabled: true, nextRunAt: null });
    }
  });

  it("delays runs by jitter, the same in every process", async () => {
    const due: Record<string, Date>[] = [];
    for (let round = 0; round < 2; round++) {
      const { hf, clock } = await scene({ jobs: [nothing] });
      const begun: Record<string, number> = {};
      hf.on("claimed", ({ id }) => (begun[id] = clock.now()));
      for (const name of ["a", "b"]) await hf.schedule(name, { job: nothing, every: "20s", jitter: "10s" });
      hf.work();
      await clock.advance("10m");
      const made = [...(await jobsOf(hf, "a")), ...(await jobsOf(hf, "b"))];
      expect(made).toHaveLength(60);
      for (const { id, schedule, runAt, createdAt } of made.filter(({ state }) => state === "completed")) {
        const late = Number(runAt) - Number(schedule?.slot);
        expect(late >= 0 && late <= 10_000).toBe(true);
        expect(createdAt).toEqual(schedule?.slot);
        expect(begun[id]).toBe(Number(runAt));
      }
      due.push(
        Object.fromEntries(made.map(({ schedule, runAt }) => [`${schedule?.name} ${Number(schedule?.slot)}`, runAt])),
      );
    }
    expect(due[0]).toEqual(due[1]);
    // The delays differ.
    const late = new Set(
      Object.entries(due[0] ?? {}).map(([slot, runAt]) => Number(runAt) - Number(slot.split(" ")[1])),
    );
    expect(late.size).toBeGreaterThan(50);
    expect(Math.max(...late) - Math.min(...late)).toBeGreaterThan(7_000);
  });

  it("does not run if it is disabled; fireDue replaces it", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [nothing], scheduler: false });
    await hf.schedule("s", { job: nothing, every: "10s", catchUp: { all: 10 } });
    store.forget();
    hf.work();
    await clock.advance("30s");
    expect(store.count("dueSchedules") + store.count("fire")).toBe(0);
    expect(await hf.schedules.fireDue()).toBe(3);
    await clock.settle();
    expect((await jobsOf(hf, "s")).map(({ state }) => state)).toEqual(Array(3).fill("completed"));
    // Nor without a worker.
    const client = await another({ jobs: [nothing] });
    await clock.advance("30s");
    expect(await slotsMade(client, "s")).toHaveLength(3);
    expect(await client.schedules.fireDue()).toBe(3);
  });

  it("C-10 stops first: no slot is fired during shutdown", async () => {
    const gate = deferred();
    const slow = job({ type: "slow", run: () => gate.promise });
    const { hf, clock, store, another } = await scene({ jobs: [slow] });
    await hf.schedule("s", { job: slow, every: "10s" });
    hf.work();
    await clock.advance("10s");
    store.forget();
    const closing = hf.close();
    await clock.advance("20s");
    expect(store.count("dueSchedules") + store.count("fire")).toBe(0);
    gate.resolve();
    await clock.settle();
    await closing;
    const after30s = await another();
    expect(await slotsMade(after30s, "s")).toEqual([after(10 * SECOND)]);
    expect((await after30s.schedules.get("s"))?.nextRunAt).toEqual(after(20 * SECOND));
  });

  it("C-10 completes a firing before it stops", async () => {
    const { hf, clock, store, another } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "10s" });
    hf.work({ poll: "1h" });
    await clock.advance("9s");
    const go = store.hold("fire");
    await clock.advance("1s");
    expect(store.count("fire")).toBe(1);
    let closed = false;
    const closing = hf.close().then(() => (closed = true));
    await clock.settle();
    expect(closed).toBe(false);
    go();
    await clock.settle();
    await closing;
    expect(await slotsMade(await another(), "s")).toEqual([after(10 * SECOND)]);
  });

  it.each([
    [undefined, 12],
    ["1s", 60],
    ["30s", 2],
    ["1h", 0],
  ])("polls once per tick (%s) when idle: %d times a minute", async (tick, polls) => {
    const { hf, clock, store } = await scene({ jobs: [nothing], scheduler: tick === undefined ? {} : { tick } });
    await hf.schedule("daily", { job: nothing, cron: "@daily" });
    hf.work({ poll: "1h" });
    await clock.advance("1s");
    store.forget();
    await clock.advance("1m");
    expect(store.count("dueSchedules")).toBe(polls);
    expect(store.count("fire") + store.count("putSchedule") + store.count("getSchedule")).toBe(0);
    expect(store.count("listSchedules")).toBeLessThanOrEqual(1);
    // Besides heartbeats and maintenance there are no other calls.
    expect(store.total() - polls).toBeLessThanOrEqual(30);
  });

  it("calls the store twice per slot, then is idle", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing], scheduler: { tick: "1h" } });
    await hf.schedule("s", { job: nothing, every: "10s" });
    hf.work({ poll: "1h" });
    await clock.advance("9s");
    store.forget();
    await clock.advance("10s");
    expect([store.count("fire"), store.count("dueSchedules")]).toEqual([1, 2]);
  });

  it("notices an earlier schedule of its own client", async () => {
    const { hf, clock } = await scene({ jobs: [nothing], scheduler: { tick: "1h" } });
    await hf.schedule("far", { job: nothing, cron: "@daily" });
    await hf.schedule("off", { job: nothing, every: "7s", enabled: false });
    hf.work();
    await clock.advance("1s");
    await hf.schedule("near", { job: nothing, every: "10s" });
    await hf.schedules.update("far", { every: "15s" });
    await hf.schedules.enable("off");
    await clock.advance("20s");
    expect(await slotsMade(hf, "near")).toEqual(steps(10 * SECOND, 1, 2));
    expect(await slotsMade(hf, "far")).toEqual(steps(15 * SECOND, 1, 1));
    expect(await slotsMade(hf, "off")).toEqual(steps(7 * SECOND, 1, 3));
  });

  it("notices a schedule of another client by the store's hint", async () => {
    const { hf, clock, another, store } = await scene({ jobs: [nothing], scheduler: { tick: "1h" } });
    hf.work({ poll: "1h" });
    await clock.settle();
    const other = await another({}, store.store);
    await other.schedules.create("s", { job: nothing, every: "10s" });
    await clock.advance("20s");
    expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 2));
  });

  it("notices a schedule of another process on a file", async () => {
    const { hf, file } = await onFile({ jobs: [nothing], scheduler: { tick: "1h" } });
    await hf.schedule("far", { job: nothing, cron: "@yearly" });
    hf.work();
    const { hf: other } = await onFile({}, file);
    const fired = next(hf, "fired");
    await other.schedules.create("s", { job: nothing, every: "1s" });
    expect((await fired).schedule).toBe("s");
    await other.unschedule("s");
    // Also one whose next run is not computed yet.
    await other.schedules.create("t", { job: nothing, every: "1s", enabled: false });
    const firedToo = new Promise((resolve) => hf.on("fired", ({ schedule }) => schedule === "t" && resolve(schedule)));
    const store = sqlite(file);
    await overwrite(store, "t", { enabled: true, nextRunAt: null });
    expect(await firedToo).toBe("t");
    await store.close();
  });

  it("notices schedules of its own client without hints", async () => {
    const { clock, another, store } = await scene();
    const silent = new Proxy(store.store, {
      get: (target, property) => (property === "listen" ? () => () => {} : (Reflect.get(target, property) as unknown)),
    });
    const hf = await another({ jobs: [nothing], scheduler: { tick: "1h" } }, silent);
    hf.work({ poll: "1h" });
    await clock.advance("1s");
    await hf.schedule("s", { job: nothing, every: "10s" });
    await clock.advance("20s");
    expect(await slotsMade(hf, "s")).toEqual(steps(10 * SECOND, 1, 2));
  });

  it("polls again if a schedule changed meanwhile", async () => {
    const { hf, clock, another, store } = await scene({ jobs: [nothing] });
    // The store has read the schedules; the result has not arrived yet.
    let result = Promise.resolve();
    const slow = new Proxy(store.store, {
      get(target, property) {
        if (property !== "dueSchedules") return Reflect.get(target, property) as unknown;
        return async (limit: number) => {
          const due = await target.dueSchedules(limit);
          await result;
          return due;
        };
      },
    });
    const gate = deferred();
    result = gate.promise;
    const scheduler = await another({ jobs: [nothing], scheduler: { tick: "1h" } }, slow);
    scheduler.work({ poll: "1h" });
    await clock.settle();
    await hf.schedules.create("s", { job: nothing, every: "10s" });
    await clock.settle();
    result = Promise.resolve();
    gate.resolve();
    await clock.advance("10s");
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND)]);
  });

  it("follows zone rules that are only certain near the time", async () => {
    const { hf, clock } = await scene({ jobs: [nothing], scheduler: { tick: "1h" } });
    await hf.schedule("daily", { job: nothing, cron: "17 6 * * *", timezone: "America/New_York" });
    hf.work({ poll: "1h", lease: "1h" });
    await clock.advance("12h");
    const [made] = await jobsOf(hf, "daily");
    expect([made?.schedule?.slot, made?.createdAt]).toEqual(Array(2).fill(after(11 * HOUR + 17 * MINUTE)));
  });

  it("runs once per client, while any worker runs", async () => {
    const { hf, clock, store } = await scene({ jobs: [nothing] });
    await hf.schedule("s", { job: nothing, every: "10s" });
    const [first] = [hf.work({ poll: "1h" }), hf.work({ poll: "1h" }), hf.work({ poll: "1h" })];
    await clock.advance("1s");
    store.forget();
    await clock.advance("4s");
    expect(store.count("dueSchedules")).toBe(1);
    const stopping = first?.stop();
    await clock.advance("5s");
    await stopping;
    expect(await slotsMade(hf, "s")).toEqual([after(10 * SECOND)]);
  });
});
