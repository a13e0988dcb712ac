import {
  ClosedError,
  job,
  JobNotCompletedError,
  JobNotFoundError,
  StoreUnavailableError,
  StoreUnreadableError,
  WaitTimeoutError,
} from "holdfast";
import { describe, expect, it } from "vitest";
import { deferred, hinting, onFile, scene, type LogLine } from "./scene.js";

const type = job({ type: "t", run: () => ({ total: 42 }) });

describe("results", () => {
  it("the output of a finished job is returned", async () => {
    const { hf } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    const output: { total: number } = await hf.result(type, id);
    expect(output).toEqual({ total: 42 });
    expect(await hf.result(id)).toEqual({ total: 42 });
  });

  it("a wait ends with the job, without a poll", async () => {
    const { hf, clock } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const waiting = hf.result(type, id);
    await clock.settle();
    hf.work();
    expect(await waiting).toEqual({ total: 42 });
  });

  it("false hints cost a bounded number of reads", async () => {
    const { hf, clock, store } = await scene({ jobs: [type] });
    const hint = hinting(store.store);
    const { id } = await hf.enqueue(type);
    const waiting = hf.result(type, id);
    await clock.settle();
    store.forget();
    for (let round = 0; round < 250; round++) {
      hint({ kind: "finished" });
      await clock.advance(2);
    }
    expect(store.count("get")).toBeLessThan(100);
    await hf.runNext();
    await clock.advance(20);
    expect(await waiting).toEqual({ total: 42 });
  });

  it("without hints polling finds the result", async () => {
    const { clock, store } = await scene();
    const deaf = new Proxy(store.store, {
      get: (target, property) => (property === "listen" ? () => () => {} : (Reflect.get(target, property) as unknown)),
    });
    const { holdfast } = await import("holdfast");
    const client = await holdfast({ store: deaf, jobs: [type], clock, logger: false });
    const { id } = await client.enqueue(type);
    let output: unknown;
    const waiting = client.result(id).then((value) => (output = value));
    await clock.settle();
    await client.runNext();
    await clock.settle();
    expect(output).toBeUndefined();
    await clock.advance("1s");
    expect(output).toEqual({ total: 42 });
    await waiting;
    await client.close();
  });

  it("a dead or cancelled job throws JobNotCompletedError", async () => {
    const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("out of paper")) });
    const { hf } = await scene({ jobs: [type, bad] });
    const dead = await hf.enqueue(bad);
    const waiting = hf.result(bad, dead.id);
    await hf.runNext();
    await expect(waiting).rejects.toThrow(JobNotCompletedError);
    await expect(waiting).rejects.toMatchObject({
      id: dead.id,
      state: "dead",
      message: expect.stringContaining("paper"),
    });
    const gone = await hf.enqueue(type);
    const cancelled = hf.result(type, gone.id);
    await hf.cancel(gone.id);
    await expect(cancelled).rejects.toMatchObject({ state: "cancelled" });
  });

  it("a failed attempt does not end the wait", async () => {
    let attempt = 0;
    const flaky = job({
      type: "flaky",
      run: () => (++attempt === 1 ? Promise.reject(new Error("once")) : { attempt }),
    });
    const { hf, clock } = await scene({ jobs: [flaky] });
    hf.work();
    const { id } = await hf.enqueue(flaky);
    const waiting = hf.result(id);
    await clock.advance("31s");
    expect(await waiting).toEqual({ attempt: 2 });
  });

  it("a wait ends by timeout, signal, missing job or close", async () => {
    const { hf, clock } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const caught = (promise: Promise<unknown>): Promise<unknown> => promise.then(String, (error: unknown) => error);

    const timed = caught(hf.result(id, { timeout: "10s" }));
    await clock.advance("10s");
    expect(await timed).toBeInstanceOf(WaitTimeoutError);

    const controller = new AbortController();
    const aborted = caught(hf.result(id, { signal: controller.signal }));
    await clock.settle();
    const reason = new Error("the user left");
    controller.abort(reason);
    expect(await aborted).toBe(reason);
    expect(await caught(hf.result(id, { signal: controller.signal }))).toBe(reason);

    expect(await caught(hf.result("00000000-0000-7000-8000-000000000000"))).toBeInstanceOf(JobNotFoundError);

    const closed = caught(hf.result(id));
    await clock.settle();
    await hf.close();
    expect(await closed).toBeInstanceOf(ClosedError);
  });

  it("the store is polled only during a wait", async () => {
    const { hf, clock, store } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    const waiting = [hf.result(id), hf.result(id), hf.result(id)];
    await clock.advance("5s");
    expect(store.count("listen")).toBe(1);
    expect(store.count("get")).toBeLessThanOrEqual(3 * 7);
    await hf.runNext();
    expect(await Promise.all(waiting)).toEqual([{ total: 42 }, { total: 42 }, { total: 42 }]);
    store.forget();
    await clock.advance("2m");
    expect(store.total()).toBe(store.count("putHistory"));
  });

  it("on a file the result of another process arrives", async () => {
    const { hf, file } = await onFile({ jobs: [type] });
    const other = (await onFile({}, file)).hf;
    const { id } = await other.enqueue(type);
    const waiting = other.result(type, id);
    hf.work();
    expect(await waiting).toEqual({ total: 42 });
  });

  describe("a wait for a job that no worker serves", () => {
    const warnings = (lines: LogLine[]): string[] =>
      lines.filter(({ level }) => level === "warn").map(({ message }) => message);

    it("is logged after 5 s, once per client", async () => {
      const { hf, clock, lines } = await scene({ jobs: [type] });
      const first = await hf.enqueue(type);
      const second = await hf.enqueue(type);
      const waiting = [hf.result(first.id), hf.result(second.id)];
      await clock.advance(4_999);
      expect(warnings(lines)).toEqual([]);
      await clock.advance("1s");
      expect(warnings(lines)).toEqual([
        `job ${first.id} is due, but no live worker claims from its queue; did you call hf.work()?`,
      ]);
      await clock.advance("1m");
      expect(warnings(lines)).toHaveLength(1);
      await hf.drain();
      await Promise.all(waiting);
    });

    it("is logged if workers have stopped or serve other queues", async () => {
      const { hf, clock, lines } = await scene({ jobs: [type] });
      const gone = hf.work();
      await clock.settle();
      await gone.stop();
      hf.work({ queues: ["other"] });
      const { id } = await hf.enqueue(type);
      const waiting = hf.result(id);
      await clock.advance("6s");
      expect(warnings(lines).filter((message) => message.includes(id))).toHaveLength(1);
      await hf.drain();
      await waiting;
    });

    it("is not logged while the job is not due or a worker is busy", async () => {
      const gate = deferred();
      const slow = job({ type: "slow", run: () => gate.promise });
      const { hf, clock, lines } = await scene({ jobs: [type, slow] });
      const later = await hf.enqueue(type, undefined, { delay: "1h" });
      const waiting = hf.result(later.id);
      await clock.advance("1m");
      hf.work({ concurrency: 1 });
      await hf.enqueue(slow, undefined, { priority: 1 });
      await clock.settle();
      const { id } = await hf.enqueue(type);
      const behind = hf.result(id);
      await clock.advance("1m");
      expect(warnings(lines)).toEqual([]);
      gate.resolve();
      await behind;
      await clock.advance("1h");
      await waiting;
    });

    it("continues if workers cannot be listed", async () => {
      const { hf, clock, lines, store } = await scene({ jobs: [type] });
      store.fail(new StoreUnavailableError("away"), "workers");
      const { id } = await hf.enqueue(type);
      const waiting = hf.result(id);
      await clock.advance("10s");
      expect(warnings(lines)).toEqual([]);
      await hf.drain();
      expect(await waiting).toEqual({ total: 42 });
    });
  });

  it("a store without read permission throws", async () => {
    const { hf, store } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    store.fail(new StoreUnreadableError("permission denied"), "get");
    await expect(hf.result(id)).rejects.toThrow(StoreUnreadableError);
  });
});
