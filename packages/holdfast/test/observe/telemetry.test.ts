import { job, type EnqueueCall, type EnqueueEnd, type RunEnd, type Telemetry, type TracedRun } from "holdfast";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { LIMITS } from "#src/defaults.js";
import { BROKEN, raise } from "./broken-telemetry.js";
import { deferred, onFile, scene } from "../engine/scene.js";

interface Recorded extends Telemetry {
  calls: [EnqueueCall, EnqueueEnd | null][];
  runs: { run: TracedRun; end: RunEnd | null; inside: unknown }[];
}

/** Telemetry that records its calls and returns a carrier for each. */
function recorded(carrier: (n: number) => Record<string, string> | null = (n) => ({ n: String(n) })): Recorded {
  const calls: Recorded["calls"] = [];
  const runs: Recorded["runs"] = [];
  return {
    calls,
    runs,
    enqueue(call) {
      const entry: Recorded["calls"][number] = [call, null];
      calls.push(entry);
      return { carrier: carrier(calls.length), end: (end) => void (entry[1] = end) };
    },
    run(run) {
      const entry: Recorded["runs"][number] = { run, end: null, inside: undefined };
      runs.push(entry);
      return {
        inside: (handler) => {
          const output = handler();
          entry.inside = output;
          return output;
        },
        end: (end) => void (entry.end = end),
      };
    },
  };
}

const double = job({ type: "double", input: z.object({ n: z.number() }), run: ({ input }) => ({ n: input.n * 2 }) });

describe("telemetry of an enqueue call", () => {
  it("is called once and passes its carrier to the run", async () => {
    const telemetry = recorded();
    const { hf } = await scene({ jobs: [double], telemetry });
    const { id } = await hf.enqueue(double, { n: 1 }, { queue: "q" });
    await hf.drain();
    expect(telemetry.calls).toEqual([
      [
        { type: "double", queue: "q", many: false },
        { jobs: 1, id, duplicate: false, error: null },
      ],
    ]);
    expect(telemetry.runs[0]?.run).toMatchObject({ carrier: { n: "1" }, job: { id, type: "double", attempt: 1 } });
  });

  it("is called once per enqueueMany, with the number of jobs", async () => {
    const telemetry = recorded();
    const { hf } = await scene({ jobs: [double], telemetry });
    async function* stream(): AsyncGenerator<{ n: number }> {
      for (let n = 0; n < 1_200; n++) yield await Promise.resolve({ n });
    }
    await hf.enqueueMany(double, [{ n: 1 }, { n: "x" as never }, { n: 3 }]);
    await hf.enqueueMany(double, stream(), { onResult: () => {} });
    const end = { id: null, duplicate: false, error: null };
    const call = { type: "double", queue: "default", many: true };
    expect(telemetry.calls).toEqual([
      [call, { ...end, jobs: 2 }],
      [call, { ...end, jobs: 1_200 }],
    ]);
    expect(await hf.drain()).toBe(1_202);
    const carried = telemetry.runs.map(({ run }) => run.carrier?.["n"]);
    expect([carried.filter((n) => n === "1").length, carried.filter((n) => n === "2").length]).toEqual([2, 1_200]);
  });

  it("covers transactions, where errors are thrown synchronously", async () => {
    const { default: Database } = await import("better-sqlite3");
    const telemetry = recorded();
    const { hf, file } = await onFile({ jobs: [double], telemetry });
    const db = new Database(file);
    db.exec("BEGIN IMMEDIATE");
    const one = hf.enqueue(double, { n: 1 }, { tx: db });
    const many = hf.enqueueMany(double, [{ n: 2 }, { n: 3 }], { tx: db });
    expect(() => hf.enqueue(double, { n: "x" as never }, { tx: db })).toThrow(/n/);
    db.exec("COMMIT");
    db.close();
    await Promise.all([one, many]);
    expect(telemetry.calls.map(([, end]) => [end?.jobs, end?.error === null])).toEqual([
      [1, true],
      [2, true],
      [0, false],
    ]);
    await hf.drain();
    expect(telemetry.runs.map(({ run }) => run.carrier?.["n"])).toEqual(["1", "2", "2"]);
  });

  it("gets the error, or that the job is a duplicate", async () => {
    const telemetry = recorded();
    const { hf } = await scene({ jobs: [double], telemetry });
    const { id } = await hf.enqueue(double, { n: 1 }, { unique: "k" });
    await hf.enqueue(double, { n: 2 }, { unique: "k" });
    const thrown: unknown = await hf.enqueue(double, { n: "x" as never }).catch((error: unknown) => error);
    expect(telemetry.calls.map(([, end]) => end)).toEqual([
      { jobs: 1, id, duplicate: false, error: null },
      { jobs: 1, id, duplicate: true, error: null },
      { jobs: 0, id: null, duplicate: false, error: thrown },
    ]);
  });

  it.each<[string, () => unknown]>([
    ["throws when it is read", () => raise()],
    ["has a value that throws", () => Object.defineProperty({}, "traceparent", { get: raise, enumerable: true })],
    ["is a proxy whose traps throw", () => new Proxy({}, { ownKeys: raise, get: raise })],
  ])("ignores a carrier that %s", async (_, read) => {
    const telemetry = {
      enqueue: () => ({
        get carrier(): never {
          return read() as never;
        },
        end: () => {},
      }),
      run: () => ({ inside: <Output>(handler: () => Output) => handler(), end: () => {} }),
    };
    const type = job({ type: "t", run: () => "done" });
    const { hf, lines } = await scene({ jobs: [type], telemetry });
    const { id } = await hf.enqueue(type);
    await hf.enqueueMany(type, [undefined]);
    expect(await hf.drain()).toBe(2);
    expect([(await hf.get(id))?.state, (await hf.get(id))?.trace]).toEqual(["completed", null]);
    expect(lines.filter(({ message }) => message === "telemetry threw")).toHaveLength(2);
  });

  it("ignores a carrier that is too long or missing", async () => {
    const long = { tracestate: "x".repeat(LIMITS.traceBytes) };
    const fits = { s: "x".repeat(LIMITS.traceBytes - `{"s":""}`.length) };
    const carriers = [long, fits, {}, null, { odd: 7 as never, ok: "é" }];
    const telemetry = recorded((n) => carriers[n - 1] ?? null);
    const { hf } = await scene({ jobs: [double], telemetry });
    for (const [n] of carriers.entries()) await hf.enqueue(double, { n }, { priority: -n });
    await hf.drain();
    expect(telemetry.runs.map(({ run }) => run.carrier)).toEqual([null, fits, null, null, { ok: "é" }]);
  });

  it("a rerun has a new trace, a retry the old one", async () => {
    const bad = job({ type: "bad", retry: { maxAttempts: 1 }, run: () => Promise.reject(new Error("no")) });
    const telemetry = recorded();
    const { hf } = await scene({ jobs: [bad], telemetry });
    const { id } = await hf.enqueue(bad, {});
    await hf.drain();
    await hf.retry(id);
    await hf.drain();
    await hf.rerun(id);
    await hf.drain();
    await hf.schedule("nightly", { job: bad, cron: "0 3 * * *" });
    await hf.schedules.runNow("nightly");
    await hf.drain();
    expect(telemetry.calls).toHaveLength(2);
    expect(telemetry.runs.map(({ run }) => run.carrier)).toEqual([{ n: "1" }, { n: "1" }, { n: "2" }, null]);
  });

  it("ignores an invalid stored trace", async () => {
    const telemetry = recorded();
    const { hf, store } = await scene({ jobs: [double], telemetry });
    for (const trace of ["not JSON", "[]", "7", `{"a":1}`]) {
      await hf.enqueue(double, { n: 1 });
      const [jobs] = store.calls("insert").at(-1) as [{ id: string }[]];
      await hf.remove(jobs[0]?.id ?? "");
      await store.store.insert([{ ...(jobs[0] as never as object), trace } as never]);
    }
    expect(await hf.drain()).toBe(4);
    expect(telemetry.runs.map(({ run }) => run.carrier)).toEqual([null, null, null, null]);
  });
});

it("a lease has the trace context", async () => {
  const { hf } = await scene({ jobs: [double], telemetry: recorded() });
  await hf.enqueue(double, { n: 1 });
  await hf.schedule("s", { job: double, input: { n: 2 }, every: "1h" });
  await hf.schedules.runNow("s");
  expect((await hf.claim({ limit: 2 })).map(({ carrier }) => carrier)).toEqual([{ n: "1" }, null]);
});

describe("telemetry of a run", () => {
  it("gets the outcome after the store has confirmed it", async () => {
    const thrown = new Error("once");
    const type = job({
      type: "t",
      retry: { maxAttempts: 2, backoff: { base: "3s", jitter: 0 } },
      run: () => Promise.reject(thrown),
    });
    const telemetry = recorded();
    const { hf, clock, store } = await scene({ jobs: [type], telemetry });
    await hf.enqueue(type, {}, { delay: "1s" });
    await clock.advance("5s");
    const letGo = store.hold("settle");
    hf.work();
    await clock.advance("1s");
    expect(telemetry.runs.map(({ end }) => end)).toEqual([null]);
    letGo();
    await clock.advance("10s");
    expect(telemetry.runs.map(({ run, end }) => [run.waitMs, end])).toEqual([
      [4_000, { outcome: "failed", error: thrown, durationMs: 0, retryInMs: 3_000 }],
      [0, { outcome: "dead", error: thrown, durationMs: 0, retryInMs: null }],
    ]);
  });

  it("gets completed, cancelled, released and lost", async () => {
    const telemetry = recorded();
    const waits = job({ type: "waits", input: z.object({ n: z.number() }), run: ({ signal }) => aborted(signal) });
    const { hf, clock, store } = await scene({ jobs: [double, waits], telemetry });
    const outcomes = (): unknown[] =>
      telemetry.runs.map(({ run, end }) => [run.job.type, end?.outcome, end?.durationMs]);
    await hf.enqueue(double, { n: 1 });
    await hf.drain();
    const worker = hf.work({ grace: 0 });
    const { id } = await hf.enqueue(waits, { n: 1 });
    await clock.advance("1s");
    await hf.cancel(id);
    await clock.settle();
    await hf.enqueue(waits, { n: 2 });
    await clock.advance("2s");
    const stopped = worker.stop();
    await clock.advance("1s");
    await stopped;
    const letGo = store.fail(new Error("away"), "extend", "settle");
    hf.work();
    await clock.advance("40s");
    letGo();
    // The lost job is started once more and still runs.
    expect(outcomes().slice(0, 4)).toEqual([
      ["double", "completed", 0],
      ["waits", "cancelled", 1_000],
      ["waits", "released", 2_000],
      ["waits", "lost", 30_000],
    ]);
  });

  it("covers invalid inputs and repeated runs of a lease", async () => {
    const telemetry = recorded();
    const before = job({ type: "double", run: () => {} });
    const { hf, another } = await scene({ jobs: [double], telemetry });
    await (await another()).enqueue(before, {});
    await hf.drain();
    expect(telemetry.runs).toMatchObject([
      { end: { outcome: "dead", error: { code: "INVALID_INPUT" } }, inside: undefined },
    ]);
  });

  it("reads the stored, redacted input on demand", async () => {
    const telemetry = recorded();
    const { hf } = await scene({ jobs: [double], telemetry, redact: ["input.n"] });
    await hf.enqueue(double, { n: 7 });
    await hf.drain();
    expect(telemetry.runs[0]?.run.input()).toEqual({ n: "[redacted]" });
  });
});

describe("failing telemetry", () => {
  for (const [where, telemetry] of Object.entries(BROKEN)) {
    it(`${where}: is logged, and jobs run once`, async () => {
      const { hf, lines, job: read } = await scene({ jobs: [double], telemetry });
      const { id } = await hf.enqueue(double, { n: 2 });
      await hf.enqueueMany(double, [{ n: 1 }]);
      expect(await hf.drain()).toBe(2);
      expect(await read(id)).toMatchObject({ state: "completed", attempt: 1, output: { n: 4 } });
      expect(lines.some(({ message }) => message === "telemetry threw")).toBe(true);
    });
  }

  it("does not run a throwing handler twice", async () => {
    let runs = 0;
    const bad = job({
      type: "bad",
      retry: { maxAttempts: 1 },
      run() {
        runs++;
        throw new Error("by the handler");
      },
    });
    const { hf } = await scene({ jobs: [bad], telemetry: recorded() });
    const { id } = await hf.enqueue(bad, {});
    await hf.drain();
    expect([runs, (await hf.get(id))?.error?.message]).toEqual([1, "by the handler"]);
  });
});

describe("telemetry that reads the store's stats", () => {
  it("is attached until the client closes", async () => {
    const asked = deferred<{ stats(): Promise<unknown> }>();
    let detached = 0;
    const telemetry: Telemetry = {
      ...recorded(),
      attach(client) {
        asked.resolve(client);
        return () => void detached++;
      },
    };
    const { hf } = await onFile({ jobs: [double], telemetry });
    const client = await asked.promise;
    await hf.enqueue(double, { n: 1 });
    expect(await client.stats()).toMatchObject({ states: { pending: 1 } });
    await hf.close();
    expect(detached).toBe(1);
  });
});

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop);
  });
}
