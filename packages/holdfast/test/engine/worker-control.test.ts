import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { engineOf } from "#src/engine/client/holdfast.js";
import { deferred, scene } from "./scene.js";

describe("a worker", () => {
  it("that is paused claims nothing until it is resumed", async () => {
    const ran: number[] = [];
    const type = job({ type: "t", run: () => void ran.push(1) });
    const { hf, clock } = await scene({ jobs: [type] });
    const worker = hf.work();
    worker.pause();
    expect(worker.paused).toBe(true);
    await hf.enqueue(type);
    await clock.advance("1m");
    expect(ran).toEqual([]);
    worker.resume();
    await clock.advance("1s");
    expect(ran).toEqual([1]);
    expect(worker.paused).toBe(false);
  });

  it("that is paused finishes what runs, and releases what has not started", async () => {
    const gate = deferred<void>();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock } = await scene({ jobs: [type] });
    const worker = hf.work({ concurrency: 1 });
    const ids = [(await hf.enqueue(type)).id, (await hf.enqueue(type)).id];
    await clock.advance(10);
    worker.pause();
    expect(worker.running).toBe(1);
    gate.resolve();
    await clock.advance("1m");
    const states = await Promise.all(ids.map(async (id) => (await hf.get(id))?.state));
    expect(states).toEqual(["completed", "pending"]);
  });

  it("that drains finishes what runs and claims nothing", async () => {
    const gate = deferred<void>();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock } = await scene({ jobs: [type] });
    const { store } = engineOf(hf);
    const worker = hf.work({ concurrency: 1, lease: "30s" });
    const first = await hf.enqueue(type);
    await clock.advance(10);
    await clock.advance("10s");
    expect(await hf.workers()).toMatchObject([
      {
        id: worker.id,
        draining: false,
        jobs: [{ id: first.id, type: "t" }],
        version: expect.stringMatching(/^\d/) as string,
      },
    ]);
    expect(await store.drainWorker(worker.id, true)).toBe(true);
    const second = await hf.enqueue(type);
    // The next heartbeat.
    await clock.advance("10s");
    expect(worker.draining).toBe(true);
    expect(worker.running).toBe(1);
    gate.resolve();
    await clock.advance("1m");
    expect(await hf.get(first.id)).toMatchObject({ state: "completed" });
    expect(await hf.get(second.id)).toMatchObject({ state: "pending", attempt: 0 });
    expect(await hf.workers()).toMatchObject([{ id: worker.id, draining: true, left: false, running: 0, jobs: [] }]);
    expect(await hf.explain(second.id)).toMatchObject({
      text: "The worker that takes it drains and claims no more jobs.",
      reasons: [{ kind: "no-worker", workers: [worker.id] }],
    });
    // A resume in code does not undo it.
    worker.pause();
    worker.resume();
    await clock.advance("1m");
    expect(await hf.get(second.id)).toMatchObject({ state: "pending" });
    await store.drainWorker(worker.id, false);
    await clock.advance("1m");
    expect(worker.draining).toBe(false);
    expect(await hf.get(second.id)).toMatchObject({ state: "completed" });
  });

  it("leaves other workers alone when it is paused", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock } = await scene({ jobs: [type] });
    hf.work().pause();
    hf.work();
    const { id } = await hf.enqueue(type);
    await clock.advance("1s");
    expect((await hf.get(id))?.state).toBe("completed");
  });

  it("runs more jobs when its concurrency is raised, fewer when lowered", async () => {
    const gates: ReturnType<typeof deferred<void>>[] = [];
    const type = job({
      type: "t",
      run: () => {
        gates.push(deferred<void>());
        return gates.at(-1)!.promise;
      },
    });
    const { hf, clock } = await scene({ jobs: [type] });
    const worker = hf.work({ concurrency: 1 });
    for (let n = 0; n < 6; n++) await hf.enqueue(type);
    await clock.advance("1s");
    expect(worker.running).toBe(1);
    worker.concurrency = 3;
    expect(worker.concurrency).toBe(3);
    await clock.advance("2s");
    expect(worker.running).toBe(3);
    worker.concurrency = 1;
    gates[0]?.resolve();
    gates[1]?.resolve();
    await clock.advance("2s");
    expect([worker.running, gates.length]).toEqual([1, 3]);
    gates[2]?.resolve();
    await clock.advance("2s");
    expect([worker.running, gates.length]).toEqual([1, 4]);
    for (const gate of gates) gate.resolve();
  });

  it.each([[0], [1.5], [1_001], ["4"]])("refuses %j as its concurrency", async (concurrency) => {
    const { hf } = await scene({ jobs: [] });
    const worker = hf.work();
    expect(() => (worker.concurrency = concurrency as never)).toThrow(/^concurrency: .* is not a whole number/);
    expect(worker.concurrency).toBe(4);
  });
});

describe("a pause of everything", () => {
  it("stops all queues and is shown", async () => {
    const ran: string[] = [];
    const type = job({ type: "t", run: ({ job: { queue } }) => void ran.push(queue) });
    const { hf, clock } = await scene({ jobs: [type] });
    hf.work();
    await hf.pause();
    expect(await hf.isPaused()).toBe(true);
    await hf.enqueue(type, {}, { queue: "mail" });
    await clock.advance("1m");
    expect(ran).toEqual([]);
    expect(await hf.queues()).toMatchObject([{ queue: "mail", paused: false, priorities: [0] }]);
    await hf.resume();
    await clock.advance("1s");
    expect([ran, await hf.isPaused()]).toEqual([["mail"], false]);
  });

  it.each(["pause", "resume"] as const)("%s refuses an undefined queue", async (call) => {
    const { hf } = await scene({ jobs: [] });
    await expect(hf[call](undefined as never)).rejects.toThrow(/^queue is undefined; for all queues call/);
    await expect(hf[call]("*")).rejects.toThrow(/for all queues call .+ without an argument/);
    expect(await hf.isPaused()).toBe(false);
  });
});

describe("the attempts of a job", () => {
  it("carry their fence and how they ended", async () => {
    let calls = 0;
    const type = job({
      type: "t",
      retry: { backoff: () => 0 },
      run: () => {
        if (++calls === 1) throw new Error("first");
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    const [lost] = await hf.claim({ lease: "1s" });
    await lost?.start();
    await clock.advance("2s");
    const [released] = await hf.claim({ lease: "1m" });
    await released?.start();
    await released?.release();
    await hf.runNext();
    const { attempts } = await read(id);
    expect(attempts.map(({ fence, end, error }) => [fence, end, error?.message ?? null])).toEqual([
      [1, "failed", "first"],
      [2, "expired", "Job timed out (stale claim)"],
      [3, "released", null],
      [4, "completed", null],
    ]);
    expect((await hf.list({ id })).jobs[0]?.attempts).toEqual([]);
  });
});
