import { job, StoreUnavailableError } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { deferred, scene, untilAborted } from "./scene.js";

describe("runNext and drain", () => {
  it("E-02 runNext runs one job, and returns false if none is due", async () => {
    const ran: number[] = [];
    const type = job({ type: "t", input: z.object({ n: z.number() }), run: ({ input }) => void ran.push(input.n) });
    const { hf, clock } = await scene({ jobs: [type] });
    expect(await hf.runNext()).toBe(false);
    await hf.enqueue(type, { n: 1 });
    await hf.enqueue(type, { n: 2 });
    await hf.enqueue(type, { n: 3 }, { delay: "1m" });
    expect(await hf.runNext()).toBe(true);
    expect(ran).toEqual([1]);
    expect(await hf.runNext()).toBe(true);
    expect(await hf.runNext()).toBe(false);
    expect(ran).toEqual([1, 2]);
    await clock.advance("1m");
    expect(await hf.runNext()).toBe(true);
    expect((await hf.stats()).states.completed).toBe(3);
  });

  it("a failed job counts as run, a rejected one does not", async () => {
    const bad = job({ type: "bad", run: () => Promise.reject(new Error("no")) });
    const { hf, clock, job: read } = await scene({ jobs: [bad] });
    const { id } = await hf.enqueue(bad);
    expect(await hf.runNext()).toBe(true);
    expect((await read(id)).state).toBe("failed");
    await hf.enqueue(bad, undefined, { expiresAt: clock.now() + 1 });
    const alive = await hf.enqueue(bad);
    await clock.advance(1);
    expect(await hf.runNext()).toBe(true);
    expect((await read(alive.id)).state).toBe("failed");
  });

  it("E-02 E-12 A-29 concurrent runNext calls take different jobs", async () => {
    const ran: string[] = [];
    const type = job({ type: "t", run: ({ job: own }) => void ran.push(own.id) });
    const { hf } = await scene({ jobs: [type] });
    for (let n = 0; n < 3; n++) await hf.enqueue(type);
    expect(await Promise.all([hf.runNext(), hf.runNext(), hf.runNext(), hf.runNext()])).toEqual([
      true,
      true,
      true,
      false,
    ]);
    expect(new Set(ran).size).toBe(3);
  });

  it("E-02 work() starts immediately and stop() ends it", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const worker = hf.work();
    const first = await hf.enqueue(type);
    await clock.settle();
    expect((await read(first.id)).state).toBe("completed");
    await worker.stop();
    const second = await hf.enqueue(type);
    await clock.advance("1m");
    expect((await read(second.id)).state).toBe("pending");
  });

  it("drain runs all due jobs and those they enqueue", async () => {
    const step = job({
      type: "step",
      input: z.object({ left: z.number() }),
      async run({ input }): Promise<void> {
        if (input.left > 0) await hf.enqueue(step, { left: input.left - 1 });
      },
    });
    const { hf } = await scene({ jobs: [step] });
    await hf.enqueue(step, { left: 9 });
    await hf.enqueue(step, { left: 0 }, { delay: "1m" });
    expect(await hf.drain()).toBe(10);
    expect(await hf.drain()).toBe(0);
    expect((await hf.stats()).states).toMatchObject({ completed: 10, pending: 1 });
  });

  it("drain respects concurrency, queues and types", async () => {
    let now = 0;
    let most = 0;
    const a = job({
      type: "a",
      async run() {
        most = Math.max(most, ++now);
        await new Promise((resolve) => setImmediate(resolve));
        now--;
      },
    });
    const b = job({ type: "b", run: () => {} });
    const { hf } = await scene({ jobs: [a, b] });
    await hf.enqueueMany(a, Array.from({ length: 250 }));
    await hf.enqueue(a, undefined, { queue: "other" });
    await hf.enqueue(b);
    expect(await hf.drain({ concurrency: 3, queues: ["default"], types: [a] })).toBe(250);
    expect(most).toBe(3);
    expect(await hf.drain({ queues: ["other"] })).toBe(1);
    expect(await hf.drain()).toBe(1);
  });

  it("a long runNext extends its lease", async () => {
    const type = job({ type: "t", run: () => new Promise<void>((resolve) => void clock.after(120_000, resolve)) });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const ticking = hf.runNext();
    await clock.advance("2m");
    expect(await ticking).toBe(true);
    expect(await read(id)).toMatchObject({ state: "completed", attempt: 1 });
  });

  it("runNext leaves no timer, listener or worker behind", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock, store } = await scene({ jobs: [type] });
    await hf.enqueue(type);
    await hf.runNext();
    expect(store.count("listen")).toBe(0);
    expect(await hf.workers()).toEqual([]);
    store.forget();
    await clock.advance("5m");
    // The counts of the minute in which it ran are written once.
    expect([store.total(), store.count("putHistory")]).toEqual([1, 1]);
  });

  it("an error of the store reaches the caller", async () => {
    const { hf, store } = await scene();
    const gone = new StoreUnavailableError("gone");
    store.fail(gone, "claim");
    await expect(hf.runNext()).rejects.toBe(gone);
    await expect(hf.drain()).rejects.toBe(gone);
  });

  it("a signal ends drain and releases prefetched jobs", async () => {
    const gate = deferred();
    const type = job({ type: "t", run: () => gate.promise });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push((await hf.enqueue(type)).id);
    const stop = new AbortController();
    const draining = hf.drain({ concurrency: 1, signal: stop.signal });
    await clock.settle();
    stop.abort();
    await clock.settle();
    gate.resolve();
    expect(await draining).toBe(1);
    const jobs = await Promise.all(ids.map((id) => read(id)));
    expect(jobs.map(({ state, attempt }) => [state, attempt])).toEqual([
      ["completed", 1],
      ["pending", 0],
      ["pending", 0],
    ]);
    // Aborted before it starts.
    expect(await hf.drain({ signal: stop.signal })).toBe(0);
    expect(await hf.runNext({ signal: stop.signal })).toBe(false);
    expect(await hf.drain()).toBe(2);
  });

  it("a signal during the claim releases all its jobs", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, store, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const stop = new AbortController();
    const release = store.hold("claim");
    const draining = hf.drain({ signal: stop.signal });
    await clock.settle();
    stop.abort();
    await clock.settle();
    release();
    expect(await draining).toBe(0);
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
  });

  it("a handler is aborted after the grace time and released", async () => {
    const type = job({ type: "t", run: ({ signal }) => untilAborted(signal) });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const stop = new AbortController();
    const draining = hf.drain({ signal: stop.signal, grace: "10s" });
    await clock.settle();
    stop.abort();
    await clock.advance(9_999);
    expect((await read(id)).state).toBe("running");
    await clock.advance(1);
    expect(await draining).toBe(1);
    expect(await read(id)).toMatchObject({ state: "pending", attempt: 0 });
  });
});
