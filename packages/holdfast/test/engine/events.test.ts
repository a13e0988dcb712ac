import { job, type EventName } from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, eventsOf, scene } from "./scene.js";

const quick = job({ type: "quick", run: () => {} });

describe("events", () => {
  it("a listener that subscribes again is called once per event", async () => {
    const { hf } = await scene({ jobs: [quick] });
    let calls = 0;
    let off = (): void => {};
    const listener = (): void => {
      if (++calls > 10) return;
      off();
      off = hf.on("enqueued", listener);
    };
    off = hf.on("enqueued", listener);
    await hf.enqueue(quick);
    expect(calls).toBe(1);
    await hf.enqueue(quick);
    expect(calls).toBe(2);
  });

  it("a listener cannot change the event of the next one", async () => {
    const { hf } = await scene({ jobs: [quick] });
    const ids: string[] = [];
    hf.on("enqueued", (event) => void ((event as { id: string }).id = "forged"));
    hf.on("enqueued", (event) => void ids.push(event.id));
    const { id } = await hf.enqueue(quick);
    expect(ids).toEqual([id]);
  });

  it("B-18 are emitted for each step of a job, after the store confirmed it", async () => {
    const gate = deferred();
    let attempt = 0;
    const type = job({
      type: "t",
      async run({ progress }) {
        if (++attempt === 1) throw new Error("once");
        progress(0.5, "half");
        await gate.promise;
        return { n: 1 };
      },
    });
    const { hf, clock } = await scene({ jobs: [type] });
    const received: [EventName, object][] = [];
    for (const name of ["enqueued", "claimed", "started", "progress", "completed", "failed", "retried"] as const) {
      hf.on(name, (event) => void received.push([name, event]));
    }
    const worker = hf.work();
    const { id } = await hf.enqueue(type);
    await clock.advance("1s");
    await hf.retry(id);
    await clock.advance("1s");
    gate.resolve();
    await clock.settle();

    const about = { id, type: "t", queue: "default" };
    const lease = { ...about, worker: worker.id };
    const error = { message: "once", code: null };
    expect(received).toEqual([
      ["enqueued", { ...about, replaced: false }],
      ["claimed", { ...lease, attempt: 1 }],
      ["failed", { ...lease, attempt: 1, error, retryInMs: 30_000, durationMs: 0, waitMs: 0 }],
      ["retried", { id }],
      ["claimed", { ...lease, attempt: 2 }],
      ["progress", { ...lease, attempt: 2, fraction: 0.5, note: "half", data: null }],
      ["started", { ...lease, attempt: 2, waitMs: 0 }],
      ["completed", { ...lease, attempt: 2, output: { n: 1 }, durationMs: 1_000, waitMs: 0 }],
    ]);
  });

  it("have the wait and the duration of a job", async () => {
    const gate = deferred();
    const slow = job({ type: "slow", run: () => gate.promise });
    const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("no")) });
    const { hf, clock } = await scene({ jobs: [slow, bad] });
    const received: [EventName, number | null, number | null][] = [];
    hf.on("started", ({ waitMs }) => void received.push(["started", waitMs, null]));
    hf.on("completed", ({ waitMs, durationMs }) => void received.push(["completed", waitMs, durationMs]));
    hf.on("dead", ({ waitMs, durationMs }) => void received.push(["dead", waitMs, durationMs]));
    await hf.enqueue(slow, {}, { delay: "5s" });
    await hf.enqueue(bad, {}, { delay: "8s", priority: -1 });
    await hf.enqueue(bad, {}, { delay: "1s", queue: "other", expiresAt: clock.now() + 2_000 });
    await clock.advance("9s");
    // Concurrency 1: the second job is claimed with the first, and waits for it.
    hf.work({ concurrency: 1 });
    await clock.advance("700ms");
    gate.resolve();
    await clock.settle();
    expect(received).toEqual([
      ["dead", null, null],
      ["started", 4_000, null],
      ["completed", 4_000, 700],
      ["dead", 1_700, 0],
    ]);
  });

  it("B-18 are emitted for manual changes of jobs and queues", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf } = await scene({ jobs: [type] });
    const received: unknown[] = [];
    for (const name of ["cancelled", "removed", "paused", "resumed"] as const) {
      hf.on(name, (event) => void received.push([name, event]));
    }
    const { id } = await hf.enqueue(type);
    await hf.cancel(id);
    await hf.remove(id);
    await hf.remove(id);
    await hf.pause("default");
    await hf.resume("default");
    expect(received).toEqual([
      ["cancelled", { id, type: "t", queue: "default" }],
      ["removed", { id }],
      ["paused", { queue: "default" }],
      ["resumed", { queue: "default" }],
    ]);
  });

  it("a listener that throws is logged and affects no other", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf, clock, lines, job: read } = await scene({ jobs: [type] });
    const broken = new Error("in a listener");
    for (const name of ["enqueued", "claimed", "completed", "workerStarted"] as const) {
      hf.on(name, () => {
        throw broken;
      });
    }
    const completed = eventsOf(hf, "completed");
    hf.work();
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push((await hf.enqueue(type)).id);
    await clock.settle();
    for (const id of ids) expect((await read(id)).state).toBe("completed");
    expect(completed.map(({ id }) => id)).toEqual(ids);
    expect(lines).toContainEqual({
      level: "error",
      message: "an event listener threw",
      fields: { event: "completed", error: broken },
    });
  });

  it("a removed listener is not called, even during an event", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf } = await scene({ jobs: [type] });
    const received: string[] = [];
    const off = hf.on("completed", ({ id }) => {
      received.push(id);
      off();
      off();
    });
    const first = await hf.enqueue(type);
    await hf.enqueue(type);
    await hf.drain();
    expect(received).toEqual([first.id]);
  });

  it("a duplicate enqueue emits nothing; a replacing one does", async () => {
    const type = job({ type: "t", run: () => {} });
    const { hf } = await scene({ jobs: [type] });
    const enqueued = eventsOf(hf, "enqueued");
    const { id } = await hf.enqueue(type, undefined, { unique: "k" });
    await hf.enqueue(type, undefined, { unique: "k" });
    await hf.enqueue(type, undefined, { unique: { key: "k", onConflict: "replace" } });
    expect(enqueued.map((event) => [event.id, event.replaced])).toEqual([
      [id, false],
      [id, true],
    ]);
  });

  it("a misspelt name is refused with the known names", async () => {
    const { hf } = await scene();
    expect(() => hf.on("complete" as "completed", () => {})).toThrow(/^event: "complete" is none of enqueued, claimed/);
  });
});
