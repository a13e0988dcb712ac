import type { EngineContext } from "#src/engine/context.js";
import { Emitter } from "#src/engine/events/events.js";
import { Settler } from "#src/engine/worker/settler.js";
import { readWorkOptions } from "#src/engine/worker/work-options.js";
import { JobWorker } from "#src/engine/worker/worker.js";
import type { Outcome, SettleResult, Store } from "#src/store.js";
import { ClosedError, job, WorkerStoppingError, type AbortReason } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene, untilAborted } from "./scene.js";

describe("shutdown", () => {
  it("C-10 B-14 stop waits for running handlers and starts no job", async () => {
    const gate = deferred();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock, job: read, store } = await scene({ jobs: [type] });
    const worker = hf.work();
    const first = await hf.enqueue(type);
    await clock.settle();
    store.forget();
    let stopped = false;
    const stopping = worker.stop().then(() => (stopped = true));
    const second = await hf.enqueue(type);
    await clock.advance("20s");
    expect(stopped).toBe(false);
    expect(store.count("claim")).toBe(0);
    expect((await read(second.id)).state).toBe("pending");
    // The lease is extended meanwhile.
    expect((await read(first.id)).dueAt?.getTime()).toBeGreaterThan(clock.now() + 15_000);

    gate.resolve();
    await stopping;
    expect((await read(first.id)).state).toBe("completed");
    expect((await read(second.id)).state).toBe("pending");
  });

  it("C-10 after the grace time handlers are aborted and released", async () => {
    let reason: AbortReason | undefined;
    const type = job({
      type: "t",
      run: ({ signal }) =>
        untilAborted(signal).catch((error: unknown) => {
          reason = signal.reason;
          throw error;
        }),
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const released = eventsOf(hf, "released");
    const worker = hf.work({ grace: "10s" });
    const { id } = await hf.enqueue(type);
    await clock.advance("1s");
    const stopping = worker.stop();
    await clock.advance(9_999);
    expect(reason).toBeUndefined();
    await clock.advance(1);
    await stopping;
    expect(reason).toBeInstanceOf(WorkerStoppingError);
    const waiting = await read(id);
    expect(waiting).toMatchObject({
      state: "pending",
      attempt: 0,
      attempts: [{ attempt: 1, end: "released" }],
      error: null,
    });
    expect(waiting.dueAt?.getTime()).toBeLessThanOrEqual(clock.now());
    expect(released).toMatchObject([{ id, worker: worker.id }]);
  });

  it("C-10 a handler that ignores its signal is abandoned", async () => {
    const gate = deferred<{ late: boolean }>();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const worker = hf.work({ grace: 0 });
    const { id } = await hf.enqueue(type);
    await clock.settle();
    const stopping = worker.stop();
    await clock.advance("1s");
    await stopping;
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
    gate.resolve({ late: true });
    await clock.settle();
    expect(await read(id)).toMatchObject({ state: "pending", output: null });
  });

  it("logs waiting, aborted and abandoned jobs", async () => {
    const gate = deferred();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock, lines } = await scene({ jobs: [type] });
    const worker = hf.work({ grace: "2s", queues: ["default"] });
    const ids = [(await hf.enqueue(type)).id, (await hf.enqueue(type)).id];
    const alone = hf.work({ grace: "500ms", queues: ["alone"] });
    const { id } = await hf.enqueue(type, undefined, { queue: "alone" });
    await clock.settle();
    lines.length = 0;
    const stopping = worker.stop();
    await clock.settle();
    expect(lines).toEqual([
      { level: "info", fields: { worker: worker.id }, message: "stopping: waiting up to 2s for 2 jobs" },
    ]);
    await clock.advance("3s");
    await stopping;
    expect(lines.slice(1)).toEqual([
      { level: "info", fields: { worker: worker.id, jobs: ids }, message: "stopping: time is up, 2 jobs are aborted" },
      {
        level: "warn",
        fields: { jobs: ids },
        message: "2 handlers ignored their signals; their jobs were released",
      },
    ]);

    const stoppingAlone = alone.stop();
    await clock.advance("2s");
    await stoppingAlone;
    expect(lines.slice(3)).toMatchObject([
      { level: "info", message: "stopping: waiting up to 0.5s for 1 job" },
      { level: "info", message: "stopping: time is up, 1 job is aborted" },
      { level: "warn", fields: { jobs: [id] }, message: "1 handler ignored its signal; its job was released" },
    ]);
    gate.resolve();
  });

  it("a stop without running jobs logs nothing", async () => {
    const { hf, clock, lines } = await scene({ jobs: [job({ type: "t", run() {} })] });
    const worker = hf.work();
    await clock.settle();
    await worker.stop();
    expect(lines).toEqual([]);
  });

  it("a handler that completes after the abort is completed", async () => {
    const type = job({ type: "t", run: ({ signal }) => untilAborted(signal).catch(() => ({ saved: true })) });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const worker = hf.work({ grace: 0 });
    const { id } = await hf.enqueue(type);
    await clock.settle();
    await worker.stop();
    expect(await read(id)).toMatchObject({ state: "completed", output: { saved: true } });
  });

  it("a release restores the attempt at most three times", async () => {
    const type = job({ type: "t", retry: { maxAttempts: 2 }, run: ({ signal }) => untilAborted(signal) });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const seen: unknown[] = [];
    for (let round = 0; round < 5; round++) {
      const worker = hf.work({ grace: 0 });
      await clock.advance("1s");
      await worker.stop();
      const { state, attempt } = await read(id);
      seen.push([state, attempt]);
    }
    expect(seen).toEqual([
      ["pending", 0],
      ["pending", 0],
      ["pending", 0],
      ["pending", 1],
      ["dead", 2],
    ]);
  });

  it("C-10 prefetched jobs are released without an attempt", async () => {
    const gate = deferred();
    const quick = job({ type: "quick", run: () => {} });
    const slow = job({ type: "slow", run: () => gate.promise });
    const { hf, clock, job: read } = await scene({ jobs: [quick, slow] });
    for (let n = 0; n < 20; n++) await hf.enqueue(quick);
    const worker = hf.work({ concurrency: 1 });
    await clock.settle();
    await hf.pause("default");
    await hf.enqueue(slow);
    const held: string[] = [];
    for (let n = 0; n < 10; n++) held.push((await hf.enqueue(quick)).id);
    await hf.resume("default");
    await clock.settle();
    expect((await read(held[0] ?? "")).state).toBe("claimed");

    const stopping = worker.stop();
    await clock.settle();
    for (const id of held) expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
    expect(worker.running).toBe(1);
    gate.resolve();
    await stopping;
    for (const id of held) expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
  });

  it("stop can be repeated, and called before start", async () => {
    const { hf, clock } = await scene();
    const stopped = eventsOf(hf, "workerStopped");
    const worker = hf.work();
    await clock.settle();
    await Promise.all([worker.stop(), worker.stop()]);
    await worker.stop();
    expect(stopped).toHaveLength(1);

    const engine = { clock, events: new Emitter(() => {}), store: { capabilities: {} } } as unknown as EngineContext;
    const unstarted = new JobWorker(engine, readWorkOptions({}));
    await unstarted.stop();
    await unstarted.stop();
    expect(() => unstarted.start()).toThrow(ClosedError);
  });

  it("C-10 close stops workers, flushes outcomes and closes the store", async () => {
    const gate = deferred();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock, store, another } = await scene({ jobs: [type] });
    const reader = await another();
    hf.work();
    const running = await hf.enqueue(type);
    await clock.settle();
    store.forget();
    const lastMoment = hf.enqueue(type, undefined, { delay: "1h" });
    const closing = hf.close();
    expect(hf.close()).toBe(closing);
    gate.resolve();
    await closing;
    expect((await reader.get(running.id))?.state).toBe("completed");
    expect((await reader.get((await lastMoment).id))?.state).toBe("pending");
    expect(store.count("close")).toBe(1);
    await expect(hf.enqueue(type)).rejects.toThrow(ClosedError);
    await expect(hf.get(running.id)).rejects.toThrow(ClosedError);
    await expect(hf.runNext()).rejects.toThrow(ClosedError);
    expect(() => hf.work()).toThrow(ClosedError);
  });

  it("C-10 a handler can enqueue during its grace time", async () => {
    const gate = deferred();
    const follow = job({ type: "follow", run: () => {} });
    const type = job({
      type: "t",
      async run() {
        await gate.promise;
        return hf.enqueue(follow);
      },
    });
    const { hf, clock, another } = await scene({ jobs: [type, follow] });
    const reader = await another();
    hf.work();
    const { id } = await hf.enqueue(type);
    await clock.settle();
    const closing = hf.close();
    await clock.advance("1s");
    gate.resolve();
    await closing;
    expect(await reader.get(id)).toMatchObject({ state: "completed", error: null });
    expect((await reader.list({ type: follow, state: "pending" })).jobs).toHaveLength(1);
  });

  it("a flush waits only for earlier outcomes", async () => {
    const { clock } = await scene();
    const pending: (() => void)[] = [];
    const settle = (outcomes: readonly Outcome[]): Promise<SettleResult[]> =>
      new Promise((resolve) => pending.push(() => resolve(outcomes.map(() => "applied"))));
    const settler = new Settler({ settle } as unknown as Store, clock, new Emitter(() => {}));
    const add = (): void => settler.add({} as Outcome, 30_000, () => {});
    add();
    await clock.settle();
    let flushed = false;
    const flushing = settler.idle().then(() => (flushed = true));
    add();
    await clock.settle();
    expect(flushed).toBe(false);
    pending.shift()?.();
    // The next batch is in flight, and never ends.
    await clock.settle();
    expect(settler.size + pending.length).toBeGreaterThan(0);
    expect(flushed).toBe(true);
    await flushing;
  });

  it("close ends a drain and leaves the other jobs", async () => {
    const gate = deferred();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock, another } = await scene({ jobs: [type] });
    const reader = await another();
    for (let n = 0; n < 150; n++) await hf.enqueue(type);
    const draining = hf.drain();
    await clock.settle();
    const closing = hf.close();
    await clock.settle();
    gate.resolve();
    await closing;
    expect(await draining).toBe(4);
    expect((await reader.stats()).states).toMatchObject({ completed: 4, pending: 146, claimed: 0, running: 0 });
  });
});
