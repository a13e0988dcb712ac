import { job, JobCancelledError, StoreUnavailableError, type AbortReason } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, hinting, onFile, scene, untilAborted } from "./scene.js";

describe("cancellation", () => {
  it("C-07 a waiting job is cancelled and never runs", async () => {
    let ran = 0;
    const type = job({ type: "t", run: () => void ran++ });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const cancelled = eventsOf(hf, "cancelled");
    const { id } = await hf.enqueue(type, undefined, { delay: "1m" });

    expect(await hf.cancel(id)).toBe("cancelled");
    expect(await read(id)).toMatchObject({ state: "cancelled", attempt: 0, finishedAt: new Date(clock.now()) });
    expect(cancelled).toEqual([{ id, type: "t", queue: "default" }]);
    await clock.advance("5m");
    expect(await hf.drain()).toBe(0);
    expect(ran).toBe(0);
  });

  it("C-07 a failed job is cancelled before its retry", async () => {
    const type = job({
      type: "t",
      run() {
        throw new Error("down");
      },
    });
    const { hf, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    expect(await hf.cancel(id)).toBe("cancelled");
    expect(await read(id)).toMatchObject({ state: "cancelled", attempt: 1 });
  });

  it("C-07 a running job is cancelled through its signal", async () => {
    const reasons: (AbortReason | undefined)[] = [];
    const type = job({
      type: "t",
      async run({ signal }) {
        signal.addEventListener("abort", () => reasons.push(signal.reason));
        await untilAborted(signal);
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const events = eventsOf(hf, "cancelled");
    const worker = hf.work();
    const { id } = await hf.enqueue(type);
    await clock.settle();

    expect(await hf.cancel(id)).toBe("requested");
    await clock.settle();
    expect(reasons).toHaveLength(1);
    expect(reasons[0]).toBeInstanceOf(JobCancelledError);
    const cancelled = await read(id);
    expect(cancelled).toMatchObject({ state: "cancelled", attempt: 1, cancelRequestedAt: new Date(clock.now()) });
    // Stopping on request is not a failure.
    expect(cancelled).toMatchObject({ error: null, attempts: [{ attempt: 1, end: "cancelled", error: null }] });
    expect(events.map((event) => event.id)).toEqual([id]);
    expect(worker.running).toBe(0);
  });

  it("C-07 a handler that throws another error is cancelled too", async () => {
    const type = job({
      type: "t",
      run: ({ signal }) => untilAborted(signal).catch(() => Promise.reject(new Error("cleaned up"))),
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    hf.work();
    const { id } = await hf.enqueue(type);
    await clock.settle();
    await hf.cancel(id);
    await clock.settle();
    expect((await read(id)).state).toBe("cancelled");
  });

  it("C-07 a handler that completes anyway is completed", async () => {
    const gate = deferred();
    const type = job({ type: "t", run: () => gate.promise.then(() => ({ done: true })) });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    hf.work();
    const { id } = await hf.enqueue(type);
    await clock.settle();
    await hf.cancel(id);
    await clock.settle();
    expect((await read(id)).state).not.toBe("cancelled");
    gate.resolve();
    await clock.settle();
    expect(await read(id)).toMatchObject({ state: "completed", output: { done: true } });
  });

  it("C-07 without a hint the next lease extension reports it", async () => {
    const aborted: number[] = [];
    const type = job({
      type: "t",
      run: ({ signal }) => untilAborted(signal).finally(() => aborted.push(clock.now())),
    });
    const { hf, clock, store } = await scene({ jobs: [type] });
    // A store that sends no hints.
    const deaf = new Proxy(store.store, {
      get: (target, property) => (property === "listen" ? () => () => {} : (Reflect.get(target, property) as unknown)),
    });
    const { holdfast } = await import("holdfast");
    const worker = await holdfast({ store: deaf, jobs: [type], clock, logger: false });
    const { id } = await hf.enqueue(type);
    worker.work();
    await clock.advance("1s");
    const startedAt = clock.now() - 1_000;
    await hf.cancel(id);
    await clock.advance("8s");
    expect(aborted).toEqual([]);
    await clock.advance("2s");
    expect(aborted).toEqual([startedAt + 10_000]);
    await worker.close();
  });

  it("a prefetched job is cancelled without running", async () => {
    const gate = deferred();
    const ran: string[] = [];
    const quick = job({ type: "quick", run: ({ job: own }) => void ran.push(own.id) });
    const slow = job({ type: "slow", run: () => gate.promise });
    const { hf, clock, job: read } = await scene({ jobs: [quick, slow] });
    // Quick jobs make the worker claim ahead; then a slow one uses the only capacity.
    for (let n = 0; n < 20; n++) await hf.enqueue(quick);
    const worker = hf.work({ concurrency: 1 });
    await clock.settle();
    ran.length = 0;
    await hf.pause("default");
    await hf.enqueue(slow);
    const held = await hf.enqueue(quick);
    await hf.resume("default");
    await clock.settle();
    expect(worker.running).toBe(1);
    expect((await read(held.id)).state).toBe("claimed");

    expect(await hf.cancel(held.id)).toBe("requested");
    await clock.settle();
    expect(await read(held.id)).toMatchObject({ state: "cancelled", attempt: 0 });
    gate.resolve();
    await clock.settle();
    expect(ran).toEqual([]);
  });

  it("a job of a crashed worker is cancelled without running", async () => {
    let ran = 0;
    const type = job({ type: "t", run: () => void ran++ });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.claim();
    expect(await hf.cancel(id)).toBe("requested");
    await clock.advance("31s");
    expect(await hf.runNext()).toBe(false);
    expect(ran).toBe(0);
    expect((await read(id)).state).toBe("cancelled");
  });

  it("finished and unknown jobs return their own result", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    expect(await hf.cancel(id)).toBe("finished");
    expect(await hf.cancel("00000000-0000-7000-8000-000000000000")).toBe("missing");
  });

  it("jobs that match a filter are cancelled and counted", async () => {
    const a = job({ type: "a", run: () => {} });
    const b = job({ type: "b", run: () => {} });
    const { hf } = await scene({ jobs: [a, b] });
    await hf.enqueueMany(
      a,
      Array.from({ length: 450 }, () => undefined),
    );
    const kept = await hf.enqueue(b);
    expect(await hf.cancel({ type: a })).toBe(450);
    expect((await hf.stats()).types["a"]).toMatchObject({ cancelled: 450, pending: 0 });
    expect((await hf.get(kept.id))?.state).toBe("pending");
  });

  // Real time and threads: the median of five, so that one slow moment does not decide.
  it("events of jobs by filter need no read; those by id do", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, store, lines } = await scene({ jobs: [type] });
    const cancelled = eventsOf(hf, "cancelled");
    const add = async (): Promise<string> => (await hf.enqueue(type, undefined, { delay: "1m", queue: "q" })).id;
    const found = [await add(), await add(), await add(), await add()];
    store.forget();
    expect(await hf.cancel({ state: "pending" })).toBe(4);
    expect([store.count("get"), store.count("list")]).toEqual([0, 1]);
    const named = [await add(), await add(), await add(), await add()];
    expect(await hf.cancel(named)).toEqual(named.map(() => "cancelled"));
    expect(cancelled).toEqual([...found.toReversed(), ...named].map((id) => ({ id, type: "t", queue: "q" })));
    const id = await add();
    const back = store.fail(new StoreUnavailableError("out"), "list");
    expect(await hf.cancel(id)).toBe("cancelled");
    back();
    expect(cancelled).toHaveLength(8);
    expect(lines).toMatchObject([{ level: "warn", fields: { jobs: 1 } }]);
  });

  it("on a file a running handler is notified within 100 ms", async () => {
    const begun: (() => void)[] = [];
    const aborted: ((at: number) => void)[] = [];
    const type = job({
      type: "t",
      async run({ signal }) {
        begun.shift()?.();
        await untilAborted(signal).catch(() => aborted.shift()?.(performance.now()));
      },
    });
    const { hf, file } = await onFile({ jobs: [type] });
    const other = (await onFile({}, file)).hf;
    hf.work();
    for (const client of [hf, other]) {
      const took: number[] = [];
      for (let round = 0; round < 5; round++) {
        const running = deferred();
        const stopped = deferred<number>();
        begun.push(running.resolve);
        aborted.push(stopped.resolve);
        const { id } = await hf.enqueue(type);
        await running.promise;
        const asked = performance.now();
        expect(await client.cancel(id)).toBe("requested");
        took.push((await stopped.promise) - asked);
      }
      expect(took.toSorted((a, b) => a - b)[2]).toBeLessThan(100);
    }
  });

  it("false hints cost ever fewer reads", async () => {
    const type = job({ type: "t", run: ({ signal }) => untilAborted(signal) });
    const { hf, clock, store } = await scene({ jobs: [type] });
    const hint = hinting(store.store);
    hf.work({ lease: "10m" });
    const { id } = await hf.enqueue(type);
    await clock.settle();
    store.forget();
    for (let round = 0; round < 600; round++) {
      for (let n = 0; n < 100; n++) hint({ kind: "cancel", ids: [id, "another"] });
      await clock.advance(100);
    }
    // In a minute: after 50 ms, 100 ms and so on up to 5 s.
    expect(store.count("extend")).toBeLessThan(20);
    expect(await hf.cancel(id)).toBe("requested");
    await clock.advance("5s");
    expect((await hf.get(id))?.state).toBe("cancelled");
  });

  it("a cancellation reported by the start mark prevents the run", async () => {
    let ran = 0;
    const type = job({ type: "t", run: () => void ran++ });
    const { hf, clock, store, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    for (const lease of await hf.claim()) await lease.start();
    await clock.advance("30s");
    // After a lost lease the mark is written before the handler runs. The job is cancelled meanwhile.
    const go = store.hold("start");
    hf.work();
    await clock.settle();
    expect(await hf.cancel(id)).toBe("requested");
    go();
    await clock.settle();
    expect([(await read(id)).state, ran]).toEqual(["cancelled", 0]);
  });
});
