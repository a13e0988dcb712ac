import { STATE_NAMES, type State } from "holdfast";
import { engineOf } from "#src/engine/client/holdfast.js";
import { describe, expect, it } from "vitest";
import { cleanup, double, jobCount, open } from "./scene.js";

const counts = (some: Partial<Record<State, number>> = {}): Record<State, number> =>
  ({ ...Object.fromEntries(STATE_NAMES.map((state) => [state, 0])), ...some }) as Record<State, number>;

describe("A-26 E-01 stats", () => {
  it("of an empty store are all zero", async () => {
    const { hf } = await open();
    expect(await hf.stats()).toEqual({
      states: counts(),
      queues: {},
      types: {},
      counts: [],
      oldestDueMs: null,
      oldestDue: [],
      lastMinute: { completed: 0, dead: 0, cancelled: 0 },
      completedPerSecond: 0,
    });
  });

  it("count by state, type and queue through all changes", async () => {
    const { hf } = await open();
    for (let n = 0; n < 6; n++) await hf.enqueue(double, { n }, { queue: n < 3 ? "a" : "b", priority: -n });
    const { id: last } = await hf.enqueue(cleanup, {}, { queue: "b", delay: "1h" });
    const [zero, one, two, three] = await hf.claim({ limit: 4 });
    await zero?.start();
    await zero?.complete();
    await one?.fail("broken");
    await two?.fail("broken", { retry: false });
    await three?.start();
    await hf.claim({ limit: 1 });
    await hf.cancel(last);
    const stats = await hf.stats();
    expect(stats.states).toEqual({
      pending: 1,
      claimed: 1,
      running: 1,
      failed: 1,
      completed: 1,
      dead: 1,
      cancelled: 1,
    });
    expect(stats.counts).toHaveLength(7);
    expect(stats.counts).toContainEqual({ queue: "a", type: double.type, state: "failed", count: 1 });
    expect(stats.queues).toEqual({
      a: counts({ completed: 1, failed: 1, dead: 1 }),
      b: counts({ running: 1, claimed: 1, pending: 1, cancelled: 1 }),
    });
    expect(stats.types).toEqual({
      double: counts({ completed: 1, failed: 1, dead: 1, running: 1, claimed: 1, pending: 1 }),
      cleanup: counts({ cancelled: 1 }),
    });
    await hf.retry({ state: "dead" });
    await hf.remove({ state: ["completed", "cancelled"] });
    expect((await hf.stats()).states).toEqual(counts({ pending: 2, claimed: 1, running: 1, failed: 1 }));
    expect((await hf.stats()).types).not.toHaveProperty("cleanup");
  });

  it("count names of Object.prototype like others", async () => {
    const { hf } = await open();
    for (const queue of ["__proto__", "constructor", "toString"]) await hf.enqueue(cleanup, {}, { queue });
    const { queues } = await hf.stats();
    expect(Object.keys(queues).toSorted()).toEqual(["__proto__", "constructor", "toString"]);
    for (const [, states] of Object.entries(queues)) expect(states).toEqual(counts({ pending: 1 }));
    expect(({} as { pending?: unknown }).pending).toBeUndefined();
    expect((Object as { pending?: unknown }).pending).toBeUndefined();
  });

  it("C-17 show how long the oldest due job has waited", async () => {
    const { hf, clock } = await open();
    await hf.enqueue(cleanup, {}, { delay: "1m" });
    expect((await hf.stats()).oldestDueMs).toBeNull();
    await clock.advance("90s");
    await hf.enqueue(cleanup, {}, { priority: 100 });
    await hf.enqueue(cleanup, {}, { queue: "other", runAt: new Date(clock.now() - 5_000) });
    expect(await hf.stats()).toMatchObject({
      oldestDueMs: 30_000,
      oldestDue: expect.arrayContaining([
        { queue: "default", dueMs: 30_000 },
        { queue: "other", dueMs: 5_000 },
      ]) as unknown,
    });
    await hf.claim({ limit: 3 });
    expect((await hf.stats()).oldestDueMs).toBeNull();
  });

  it("show jobs that finished in the last minute", async () => {
    const { hf, clock } = await open({ jobs: [double] });
    for (let n = 0; n < 30; n++) await hf.enqueue(double, { n });
    await hf.drain();
    const { id } = await hf.enqueue(cleanup);
    await hf.cancel(id);
    await clock.advance("30s");
    await hf.enqueue(cleanup);
    const [lease] = await hf.claim();
    await lease?.fail("broken", { retry: false });
    const stats = await hf.stats();
    expect(stats.lastMinute).toEqual({ completed: 30, dead: 1, cancelled: 1 });
    expect(stats.completedPerSecond).toBe(0.5);
    await clock.advance("40s");
    expect((await hf.stats()).lastMinute).toEqual({ completed: 0, dead: 1, cancelled: 0 });
    await clock.advance("30s");
    expect((await hf.stats()).lastMinute).toEqual({ completed: 0, dead: 0, cancelled: 0 });
  });

  it("do not count purged jobs", async () => {
    const { hf, clock } = await open({ jobs: [double] });
    await hf.enqueueMany(double, [{ n: 1 }, { n: 2 }]);
    await hf.runNext();
    await clock.advance("1h");
    expect(await hf.purge({ state: "completed", olderThan: "2h" })).toBe(0);
    expect(await hf.purge({ state: "completed", olderThan: "30m" })).toBe(1);
    expect(await jobCount(hf)).toBe(1);
  });
});

const RUNNING = { paused: false, pausedAt: null, pausedBy: null };

describe("queues", () => {
  it("are listed with their priorities once jobs have used them", async () => {
    const { hf } = await open();
    await hf.enqueue(cleanup, {}, { queue: "mail", priority: 5 });
    await hf.enqueue(cleanup, {}, { queue: "mail" });
    await hf.enqueue(cleanup);
    expect(await hf.queues()).toEqual([
      { queue: "default", ...RUNNING, priorities: [0] },
      { queue: "mail", ...RUNNING, priorities: [5, 0] },
    ]);
  });

  it("are listed after all their jobs have finished", async () => {
    const { hf, clock } = await open({ jobs: [double] });
    await hf.enqueue(double, { n: 1 }, { queue: "done" });
    await hf.enqueue(double, { n: 1 }, { queue: "waiting", priority: 1 });
    await hf.runNext({ queues: ["done"] });
    // By then the store has forgotten the lane of the job.
    await clock.advance("1h");
    await hf.maintain();
    expect(await engineOf(hf).store.queues()).toEqual([{ queue: "waiting", ...RUNNING, priorities: [1] }]);
    expect(await hf.queues()).toEqual([
      { queue: "done", ...RUNNING, priorities: [] },
      { queue: "waiting", ...RUNNING, priorities: [1] },
    ]);
  });

  it("pause stops claims at all priorities, resume allows them", async () => {
    const { hf } = await open();
    await hf.enqueue(cleanup, {}, { queue: "mail" });
    const [lease] = await hf.claim();
    await hf.enqueue(cleanup, {}, { queue: "mail" });
    const events: string[] = [];
    hf.on("paused", ({ queue }) => events.push(`paused ${queue}`));
    hf.on("resumed", ({ queue }) => events.push(`resumed ${queue}`));
    await hf.pause("mail");
    await hf.enqueue(cleanup, {}, { queue: "mail", priority: 50 });
    expect(await hf.claim({ limit: 5 })).toEqual([]);
    expect((await hf.queues()).find((known) => known.queue === "mail")?.paused).toBe(true);
    await lease?.complete();
    await hf.resume("mail");
    expect(await hf.claim({ limit: 5 })).toHaveLength(2);
    expect(events).toEqual(["paused mail", "resumed mail"]);
  });

  it("can be paused before the first job", async () => {
    const { hf } = await open();
    await hf.pause("later");
    await hf.pause("later");
    await hf.enqueue(cleanup, {}, { queue: "later", priority: 3 });
    expect(await hf.claim()).toEqual([]);
    await hf.enqueue(cleanup);
    expect(await hf.claim({ limit: 5 })).toHaveLength(1);
  });
});

describe("workers", () => {
  it("are listed with their types, until a while after they stop", async () => {
    const { hf, clock } = await open({ jobs: [double, cleanup] });
    const worker = hf.work({ concurrency: 3, queues: ["default", "mail"] });
    await clock.settle();
    const expected = { id: worker.id, types: ["double", "cleanup"], queues: ["default", "mail"], concurrency: 3 };
    expect(await hf.workers()).toMatchObject([
      { ...expected, running: 0, pid: process.pid, left: false, seenAt: new Date(clock.now()) },
    ]);
    await worker.stop();
    expect(await hf.workers()).toMatchObject([{ id: worker.id, left: true }]);
    await clock.advance("61m");
    expect(await hf.workers()).toEqual([]);
  });

  it("do not include clients that only enqueue", async () => {
    const { hf, clock } = await open({ jobs: [double] });
    await hf.enqueue(double, { n: 1 });
    await clock.advance("5m");
    expect(await hf.workers()).toEqual([]);
  });
});
