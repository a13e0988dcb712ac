import type { Note } from "#src/store.js";
import { job } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { deferred, eventsOf, scene } from "./scene.js";

const hostile = new Proxy(
  {},
  {
    get() {
      throw new Error("in a trap");
    },
    getPrototypeOf() {
      throw new Error("in a trap");
    },
  },
);

class Unreadable extends Error {
  override get message(): string {
    throw new Error("in a getter");
  }
}

const circular: { self?: unknown } = {};
circular.self = circular;

describe("handlers", () => {
  const unshowable = "the handler threw a value that cannot be shown";
  const thrown: [what: string, value: unknown, message: string][] = [
    ["an Error", new TypeError("not a function"), "not a function"],
    ["an Error without a message", new RangeError(""), "RangeError"],
    ["a string", "plain text", "plain text"],
    ["undefined", undefined, "undefined"],
    ["null", null, "null"],
    ["a number", 42, "42"],
    ["a symbol", Symbol("odd"), "Symbol(odd)"],
    ["an object", { status: 503 }, '{"status":503}'],
    ["an object that contains itself", circular, unshowable],
    ["an error whose message throws", new Unreadable(), unshowable],
    ["an object whose every trap throws", hostile, unshowable],
    ["a very long text", "x".repeat(10_000), `${"x".repeat(3_999)}…`],
    ["a NUL", "a\0b", "a\ufffdb"],
    ["broken Unicode", "half a pair: \ud83d", "half a pair: \ufffd"],
  ];

  it.each(thrown)(
    "A-17 %s that is thrown lands in the job's error, and the worker goes on",
    async (_what, value, message) => {
      const bad = job({
        type: "bad",
        run() {
          throw value;
        },
      });
      const good = job({ type: "good", run: () => {} });
      const { hf, clock, job: read } = await scene({ jobs: [bad, good] });
      hf.work({ concurrency: 1 });
      const thrower = await hf.enqueue(bad);
      const rejecter = await hf.enqueue(bad);
      const after = await hf.enqueue(good);
      await clock.settle();

      expect((await read(after.id)).state).toBe("completed");
      for (const { id } of [thrower, rejecter]) {
        const failed = await read(id);
        expect(failed.state).toBe("failed");
        expect(failed.error?.message).toBe(message);
      }
    },
  );

  it("A-17 a rejected promise fails the attempt and keeps the code", async () => {
    const bad = job({
      type: "bad",
      run: () => Promise.reject(Object.assign(new Error("no"), { code: "ECONNREFUSED" })),
    });
    const { hf, job: read } = await scene({ jobs: [bad] });
    const { id } = await hf.enqueue(bad);
    await hf.runNext();
    expect((await read(id)).error).toMatchObject({ message: "no", code: "ECONNREFUSED" });
  });

  it("A-33 a handler without a return value completes with {}", async () => {
    const types = [job({ type: "undefined", run: () => {} }), job({ type: "promise", run: async () => {} })];
    const { hf, job: read } = await scene({ jobs: types });
    for (const type of types) {
      const { id } = await hf.enqueue(type);
      await hf.runNext();
      const { state, output } = await read(id);
      expect([state, output]).toEqual(["completed", {}]);
      expect(await hf.result(type, id)).toEqual({});
    }
  });

  it("null, false and 0 are stored as outputs", async () => {
    const types = [null, false, 0, ""].map((output, n) => job({ type: `t${n}`, run: () => output }));
    const { hf } = await scene({ jobs: types });
    const outputs: unknown[] = [];
    for (const type of types) {
      const { id } = await hf.enqueue(type);
      await hf.runNext();
      outputs.push(await hf.result(type, id));
    }
    expect(outputs).toEqual([null, false, 0, ""]);
  });

  it("an output that is not JSON makes the job dead", async () => {
    const types = [
      job({ type: "bigint", run: () => ({ n: 1n }) }),
      job({ type: "map", run: () => ({ found: new Map() }) }),
      job({ type: "huge", run: () => "x".repeat(300_000) }),
    ];
    const { hf, job: read } = await scene({ jobs: types });
    const errors: unknown[] = [];
    for (const type of types) {
      const { id } = await hf.enqueue(type);
      await hf.runNext();
      const dead = await read(id);
      expect(dead.state).toBe("dead");
      errors.push([dead.error?.code, dead.error?.message.split(";")[0]]);
    }
    expect(errors).toEqual([
      ["INVALID_OUTPUT", "output of bigint: n: a BigInt cannot be represented as JSON"],
      ["INVALID_OUTPUT", "output of map: found: a Map cannot be represented as JSON"],
      ["PAYLOAD_TOO_LARGE", expect.stringContaining("output of huge is 300002 bytes of JSON")],
    ]);
  });

  it("D-07 an invalid input never reaches the handler: the job is dead", async () => {
    let ran = 0;
    const before = job({ type: "greet", input: z.object({ to: z.string() }), run: () => {} });
    const now = job({ type: "greet", input: z.object({ to: z.email() }), run: () => void ran++ });
    const { hf, another, job: read } = await scene({ jobs: [before] });
    const { id } = await hf.enqueue(before, { to: "not an address" });
    await (await another({ jobs: [now] })).drain();

    expect(ran).toBe(0);
    const dead = await read(id);
    expect(dead).toMatchObject({ state: "dead", maxAttempts: 4, error: { code: "INVALID_INPUT" } });
    expect(dead.error?.message).toContain("to: ");
    // Its frames would all be of the engine.
    expect(dead.attempts.map(({ error }) => error?.stack)).toEqual([null]);
  });

  it("a handler receives the output of its schema", async () => {
    const seen: unknown[] = [];
    const type = job({
      type: "parse",
      input: z.object({ n: z.string().transform(async (text) => Number(text)), unit: z.string().default("ms") }),
      run: ({ input }) => void seen.push(input),
    });
    const { hf } = await scene({ jobs: [type] });
    await hf.enqueue(type, { n: "42" });
    await hf.runNext();
    expect(seen).toEqual([{ n: 42, unit: "ms" }]);
  });

  it("D-10 the idempotency key is stable across attempts", async () => {
    const keys: string[] = [];
    const pay = job({
      type: "pay",
      retry: { maxAttempts: 3, backoff: () => 0 },
      run({ idempotencyKey, job: { attempt } }) {
        keys.push(`${attempt} ${idempotencyKey}`);
        throw new Error("declined");
      },
    });
    const { hf } = await scene({ jobs: [pay] });
    const { id } = await hf.enqueue(pay);
    await hf.drain();
    expect(keys).toEqual([`1 ${id}`, `2 ${id}`, `3 ${id}`]);
    const other = await hf.enqueue(pay);
    await hf.runNext();
    expect(keys.at(-1)).toBe(`1 ${other.id}`);
  });

  it("the fence grows with every claim", async () => {
    const fences: number[] = [];
    const write = job({
      type: "write",
      retry: { maxAttempts: 3, backoff: () => 0 },
      run({ job: { fence } }) {
        fences.push(fence);
        throw new Error("refused");
      },
    });
    const { hf } = await scene({ jobs: [write] });
    const { id } = await hf.enqueue(write);
    await hf.drain();
    await hf.retry(id);
    await hf.runNext();
    expect(fences).toEqual([1, 2, 3, 4]);
  });

  it("C-09 the handler receives its job with all fields", async () => {
    const seen: unknown[] = [];
    const look = job({ type: "look", run: ({ job: own, input }) => void seen.push({ ...own, input }) });
    const { hf, clock } = await scene({ jobs: [look] });
    const createdAt = new Date(clock.now());
    const { id } = await hf.enqueue(look, {}, { queue: "q", priority: 7, user: "ada", tags: ["x"], delay: "1s" });
    await clock.advance("2s");
    await hf.runNext();
    expect(seen).toEqual([
      {
        id,
        type: "look",
        queue: "q",
        priority: 7,
        user: "ada",
        attempt: 1,
        maxAttempts: 4,
        fence: 1,
        tags: ["x"],
        schedule: null,
        parent: null,
        createdAt,
        runAt: new Date(createdAt.getTime() + 1_000),
        input: {},
      },
    ]);
  });

  it("B-18 progress and log lines are stored and emitted while it runs", async () => {
    const gate = deferred();
    const type = job({
      type: "long",
      async run({ log, progress }) {
        log("begun");
        progress(0.5, "half way");
        await gate.promise;
        log("done");
        progress(1);
      },
    });
    const { hf, clock, job: read } = await scene({ jobs: [type] });
    const events = eventsOf(hf, "progress");
    const lines = eventsOf(hf, "log");
    const { id } = await hf.enqueue(type);
    hf.work();
    const begunAt = new Date(clock.now());
    await clock.advance("1s");
    expect(await read(id)).toMatchObject({
      state: "running",
      progress: { fraction: 0.5, note: "half way", data: null },
      log: [{ at: begunAt, line: "begun" }],
    });
    gate.resolve();
    await clock.settle();
    const ended = await read(id);
    expect(ended).toMatchObject({ state: "completed", progress: { fraction: 1, note: null, data: null } });
    expect(ended.log.map(({ line }) => line)).toEqual(["begun", "done"]);
    expect(events).toMatchObject([
      { id, fraction: 0.5, note: "half way" },
      { id, fraction: 1, note: null },
    ]);
    expect(lines).toMatchObject([
      { id, type: "long", attempt: 1, line: "begun" },
      { id, line: "done" },
    ]);
  });

  it("the log keeps the last 100 lines of 1,000 characters", async () => {
    const errors: unknown[] = [];
    const type = job({
      type: "chatty",
      run({ log, progress }) {
        for (let n = 1; n <= 250; n++) log(`line ${n}`);
        log("x".repeat(5_000));
        for (const wrong of [-0.1, 1.1, Number.NaN]) {
          try {
            progress(wrong);
          } catch (error) {
            errors.push((error as { code: string }).code);
          }
        }
      },
    });
    const { hf, store, job: read } = await scene({ jobs: [type] });
    const { id } = await hf.enqueue(type);
    await hf.runNext();
    // In memory too: a handler that logs in a loop must not fill it.
    expect(store.calls("note").map(([notes]) => (notes as Note[])[0]?.log.length)).toEqual([100]);
    const { log, progress } = await read(id);
    expect(log).toHaveLength(100);
    expect(log[0]?.line).toBe("line 152");
    expect(log.at(-1)?.line).toBe(`${"x".repeat(999)}…`);
    expect(errors).toEqual(["INVALID_OPTION", "INVALID_OPTION", "INVALID_OPTION"]);
    expect(progress).toBeNull();
  });

  it("A-10 only slow jobs get a start mark; all have a start time", async () => {
    const gate = deferred();
    const quick = job({ type: "quick", run: () => new Promise<void>((resolve) => void clock.after(15, resolve)) });
    const slow = job({ type: "slow", run: () => gate.promise });
    const { hf, clock, store, job: read } = await scene({ jobs: [quick, slow] });
    const started = eventsOf(hf, "started");
    hf.work();
    const first = await hf.enqueue(quick);
    await clock.advance("1s");
    expect(store.count("start")).toBe(0);
    expect((await read(first.id)).startedAt).not.toBeNull();

    const second = await hf.enqueue(slow);
    await clock.advance("1s");
    expect(store.count("start")).toBe(1);
    expect((await read(second.id)).state).toBe("running");
    expect(started.map(({ id }) => id)).toEqual([second.id]);
    gate.resolve();
  });
});
