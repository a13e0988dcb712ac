import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { onFile, scene, watch } from "./scene.js";

const type = job({ type: "t", run: () => {} });

describe("natural batching", () => {
  it("fifty concurrent enqueues are one write", async () => {
    const { hf, store } = await scene();
    const results = await Promise.all(Array.from({ length: 50 }, () => hf.enqueue(type)));
    expect(store.calls("insert").map(([jobs]) => (jobs as unknown[]).length)).toEqual([50]);
    expect(new Set(results.map(({ id }) => id)).size).toBe(50);
    expect((await hf.stats()).states.pending).toBe(50);
  });

  it("an enqueue of an idle client is written without a timer", async () => {
    const { hf, store } = await scene();
    // The clock never moves, so the enqueue did not wait for a timer.
    await hf.enqueue(type);
    await hf.enqueue(type);
    expect(store.calls("insert").map(([jobs]) => (jobs as unknown[]).length)).toEqual([1, 1]);
  });

  it("enqueues during a write go into the next one", async () => {
    const { hf, clock, store } = await scene();
    const letGo = store.hold("insert");
    const first = hf.enqueue(type);
    await clock.settle();
    const rest = Array.from({ length: 30 }, () => hf.enqueue(type));
    await clock.settle();
    expect(store.count("insert")).toBe(1);
    letGo();
    await Promise.all([first, ...rest]);
    expect(store.calls("insert").map(([jobs]) => (jobs as unknown[]).length)).toEqual([1, 30]);
  });

  it("a batch has at most 500 jobs and 1 MB", async () => {
    const { hf, store } = await scene();
    await Promise.all(Array.from({ length: 1_200 }, () => hf.enqueue(type)));
    expect(store.calls("insert").map(([jobs]) => (jobs as unknown[]).length)).toEqual([500, 500, 200]);

    store.forget();
    const text = job({ type: "text", input: z.string(), run: () => {} });
    await Promise.all(Array.from({ length: 12 }, () => hf.enqueue(text, "x".repeat(200_000))));
    expect(store.calls("insert").map(([jobs]) => (jobs as unknown[]).length)).toEqual([5, 5, 2]);
  });

  it("a failed batch rejects all its callers, and not the next batch", async () => {
    const { hf, store } = await scene();
    const back = store.fail(new Error("disk gone"), "insert");
    const results = await Promise.allSettled([hf.enqueue(type), hf.enqueue(type)]);
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    back();
    await hf.enqueue(type);
    expect((await hf.stats()).states.pending).toBe(1);
  });

  it("outcomes of a hundred quick jobs take a few writes", async () => {
    const { hf, clock, store } = await scene({ jobs: [type] });
    await hf.enqueueMany(type, Array.from({ length: 100 }));
    hf.work({ concurrency: 100 });
    await clock.advance("1s");
    expect((await hf.stats()).states.completed).toBe(100);
    expect(store.count("settle")).toBeLessThanOrEqual(5);
    expect(store.count("start")).toBe(0);
  });

  it("a client that only enqueues starts no timer and no listener", async () => {
    const { clock, store, another } = await scene();
    const line = watch(store.store);
    let timers = 0;
    const counted = {
      ...clock,
      after: (...args: Parameters<typeof clock.after>) => {
        timers++;
        return clock.after(...args);
      },
    };
    const { holdfast } = await import("holdfast");
    const hf = await holdfast({ store: line.store, jobs: [type], clock: counted });
    await hf.enqueue(type);
    await hf.enqueueMany(type, Array.from({ length: 600 }));
    await hf.enqueue(type, undefined, { delay: "1h", unique: "once" });
    await hf.stats();
    // The timer that writes the counts of this minute for the history.
    expect(timers).toBe(1);
    expect(line.count("listen")).toBe(0);
    expect(line.count("heartbeat")).toBe(0);
    await hf.close();

    const working = await another({ jobs: [type] });
    working.work();
    // One for the worker and one for the scheduler.
    expect(store.count("listen")).toBe(2);
  });

  it("fifty concurrent enqueues on a file are durable and run", async () => {
    const { hf } = await onFile({ jobs: [type] });
    const results = await Promise.all(Array.from({ length: 50 }, () => hf.enqueue(type)));
    hf.work();
    await Promise.all(results.map(({ id }) => hf.result(id)));
    expect((await hf.stats()).states.completed).toBe(50);
  });
});
