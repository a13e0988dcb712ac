import { holdfast, job, type Holdfast, type HoldfastOptions, type Job, type Store } from "holdfast";
import type { ClaimRequest, NewJob } from "holdfast/store";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { newJob } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { deferred, recordingLogger, watch, type LogLine, type WatchedStore } from "./scene.js";

/** An empty, migrated store with a fake clock. Closed after the test. */
export type OpenStore = (clock: FakeClock) => Promise<Store>;

interface Scene {
  hf: Holdfast;
  clock: FakeClock;
  /** Without hints: workers must poll. */
  store: WatchedStore;
  lines: LogLine[];
  read: (id: string) => Promise<Job>;
  reaches: (id: string, state: Job["state"]) => Promise<Job>;
  /** A claim has returned. */
  looked: () => Promise<unknown>;
}

async function sceneOn(open: OpenStore, options: HoldfastOptions): Promise<Scene> {
  const clock = fakeClock();
  let looks = 0;
  const store = watch(withoutHints(await open(clock), () => looks++));
  const { logger, lines } = recordingLogger();
  const hf = await holdfast({ ...options, store: store.store, clock, logger });
  onTestFinished(async () => {
    const closing = hf.close();
    await clock.advance("2m");
    await closing;
  });
  const read = async (id: string): Promise<Job> => {
    const found = await hf.get(id);
    if (found === null) throw new Error(`there is no job ${id}`);
    return found;
  };
  const reaches = async (id: string, state: Job["state"]): Promise<Job> => {
    await until(`the job to be ${state}`, async () => (await read(id)).state === state);
    return read(id);
  };
  const looked = (): Promise<unknown> => until("a look for work", () => looks > 0).then(() => clock.settle());
  return { hf, clock, store, lines, read, reaches, looked };
}

function withoutHints(store: Store, looked: () => void): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === "listen") return () => () => {};
      if (name === "claim") return (request: ClaimRequest) => target.claim(request).finally(looked);
      return Reflect.get(target, name) as unknown;
    },
  });
}

/** Runs the job until it is dead and returns the delay before each retry. */
async function delaysOf({ hf, clock, read }: Scene, id: string): Promise<number[]> {
  const delays: number[] = [];
  for (;;) {
    expect(await hf.runNext()).toBe(true);
    const { state, runAt } = await read(id);
    if (state === "dead") return delays;
    expect(state).toBe("failed");
    const delay = runAt.getTime() - clock.now();
    delays.push(delay);
    await clock.advance(delay - 1);
    expect(await hf.runNext()).toBe(false);
    await clock.advance(1);
  }
}

function raise(error: unknown): never {
  throw error;
}

/** Requirements on retries, to the millisecond. */
export function retryCases(name: string, open: OpenStore): void {
  describe(`${name}: retries`, () => {
    it("A-12 A-30 with jitter 0 wait exactly min(30 s × 2^n, 15 min)", async () => {
      const mail = job({
        type: "mail",
        retry: { maxAttempts: 8, backoff: { jitter: 0 } },
        run: () => raise(new Error("down")),
      });
      const scene = await sceneOn(open, { jobs: [mail] });
      const { id } = await scene.hf.enqueue(mail);
      await scene.hf.runNext();
      expect(await scene.read(id)).toMatchObject({
        state: "failed",
        attempt: 1,
        finishedAt: null,
        error: { message: "down" },
      });
      await scene.clock.advance("30s");
      expect(await delaysOf(scene, id)).toEqual([60_000, 120_000, 240_000, 480_000, 900_000, 900_000]);
      expect(await scene.read(id)).toMatchObject({
        state: "dead",
        attempt: 8,
        finishedAt: new Date(scene.clock.now()),
        dueAt: null,
      });
    });

    it("E-03 with jitter 0 wait exactly 30, 60 and 120 s", async () => {
      let works = false;
      const mail = job({ type: "mail", run: () => (works ? "sent" : raise(new Error("down"))) });
      const scene = await sceneOn(open, { jobs: [mail], retry: { backoff: { jitter: 0 } } });
      const { id } = await scene.hf.enqueue(mail);
      expect(await delaysOf(scene, id)).toEqual([30_000, 60_000, 120_000]);
      const errors = scene.lines.filter(({ level }) => level === "error");
      expect(errors.map(({ fields }) => [fields["job"], fields["error"]])).toEqual([[id, "down"]]);
      works = true;
      expect(await scene.hf.retry(id)).toBe("retried");
      await scene.hf.runNext();
      expect(await scene.read(id)).toMatchObject({ state: "completed", attempt: 1, output: "sent" });
    });

    it("C-06 wait 5 s × 2^(n−1) plus 0–1 s, at most 5 min", async () => {
      const backoff = { base: "5s", factor: 2, max: "5m", jitter: "1s" };
      const mail = job({ type: "mail", retry: { maxAttempts: 9, backoff }, run: () => raise(new Error("down")) });
      const run = async (): Promise<number[]> => {
        const chances = [0, 0.25, 0.5, 0.75, 0.999, 0.1, 0.2, 0.3];
        const scene = await sceneOn(open, { jobs: [mail], random: () => chances.shift() ?? 0 });
        const { id } = await scene.hf.enqueue(mail);
        return delaysOf(scene, id);
      };
      const first = await run();
      expect(first).toEqual([5_000, 10_250, 20_500, 40_750, 80_999, 160_100, 300_000, 300_000]);
      expect(await run()).toEqual(first);
    });
  });
}

/** Requirements on the worker loop. */
export function runnerCases(name: string, open: OpenStore): void {
  describe(`${name}: the runner`, () => {
    it("A-15 polls every 5 s and settles the jobs it finds", async () => {
      const gate = deferred();
      const types = [
        job({ type: "slow", run: () => gate.promise.then(() => ({ done: true })) }),
        job({ type: "bad", run: () => raise(new Error("no")) }),
      ];
      const { hf, clock, store, reaches, looked } = await sceneOn(open, { jobs: types });
      hf.work({ poll: "5s", unknownType: "dead" });
      await looked();
      const [slow, bad, ghost] = ["slow", "bad", "ghost"].map((type) => newJob({ type })) as [NewJob, NewJob, NewJob];
      await store.store.insert([slow, bad, ghost]);
      store.forget();
      await clock.advance(4_999);
      expect(store.count("claim")).toBe(0);
      await clock.advance(1);
      expect(await reaches(bad.id, "failed")).toMatchObject({ error: { message: "no" }, attempt: 1 });
      expect(await reaches(ghost.id, "dead")).toMatchObject({
        error: { message: "No handler registered for job_type: ghost" },
        attempt: 0,
      });
      await clock.advance("1s");
      expect((await reaches(slow.id, "running")).startedAt).not.toBeNull();
      gate.resolve();
      expect(await reaches(slow.id, "completed")).toMatchObject({ output: { done: true } });
    });

    it("A-16 reaps expired leases every 5 minutes", async () => {
      const type = job({ type: "mail", run: () => {} });
      // The middle of the range: maintenance runs exactly at its interval.
      const { hf, clock, store, read, reaches } = await sceneOn(open, { jobs: [type], random: () => 0.5 });
      const { id } = await hf.enqueue(type, undefined, { queue: "elsewhere" });
      const [lease] = await hf.claim({ lease: "30s" });
      await lease?.start();
      hf.work({ queues: ["default"], poll: "1m", lease: "1m" });
      await clock.advance(299_999);
      await clock.settle();
      expect(store.count("reapExpiredLeases")).toBe(0);
      expect((await read(id)).state).toBe("running");
      await clock.advance(1);
      expect(await reaches(id, "pending")).toMatchObject({
        error: { message: "Job timed out (stale claim)" },
        attempt: 1,
      });
    });

    it("A-17 continues after any handler error and stores its message", async () => {
      const thrown: [value: unknown, message: string][] = [
        [new TypeError("not a function"), "not a function"],
        ["plain", "plain"],
        [undefined, "undefined"],
        [null, "null"],
        [{ status: 503 }, '{"status":503}'],
        [new Error("a\0b"), "a\u{fffd}b"],
        [new Error("x".repeat(10_000)), `${"x".repeat(3_999)}…`],
      ];
      const bad = job({
        type: "bad",
        input: z.object({ at: z.number(), later: z.boolean() }),
        retry: { backoff: { base: "1d", max: "1d" } },
        run: ({ input: { at, later } }) => {
          const [value] = thrown[at] ?? [];
          return later ? Promise.reject(value) : raise(value);
        },
      });
      const good = job({ type: "good", run: () => "fine" });
      const { hf, clock, reaches } = await sceneOn(open, { jobs: [bad, good] });
      hf.work({ concurrency: 1, poll: "1s" });
      const ids: [string, string][] = [];
      for (const [at, [, message]] of thrown.entries()) {
        for (const later of [false, true]) ids.push([(await hf.enqueue(bad, { at, later })).id, message]);
      }
      for (const what of ["what came after them", "what comes later"]) {
        const { id } = await hf.enqueue(good);
        await until(`${what} to be done`, async () => {
          await clock.advance("1s");
          return (await hf.get(id))?.state === "completed";
        });
      }
      for (const [id, message] of ids) expect((await reaches(id, "failed")).error?.message).toBe(message);
    });

    it("A-33 completes with {} if a handler returns nothing", async () => {
      const types = [job({ type: "nothing", run: () => {} }), job({ type: "later", run: async () => {} })];
      const { hf, read } = await sceneOn(open, { jobs: types });
      for (const type of types) {
        const { id } = await hf.enqueue(type);
        await hf.runNext();
        expect(await read(id)).toMatchObject({ state: "completed", output: {} });
        expect(await hf.result(type, id)).toEqual({});
      }
    });
  });
}

/** Requirements on payloads. */
export function payloadCases(name: string, open: OpenStore): void {
  it(`D-07 ${name}: an invalid payload never reaches the handler`, async () => {
    let ran = 0;
    const input = z.object({ to: z.string(), copies: z.array(z.object({ at: z.email() })) });
    const greet = job({ type: "greet", input, run: () => void ran++ });
    const { hf, store, reaches } = await sceneOn(open, { jobs: [greet] });
    const wrong = { to: 5, copies: [{ at: "ada@example.com" }, { at: "nowhere" }] };
    await expect(hf.enqueue(greet, wrong as never)).rejects.toMatchObject({
      code: "INVALID_INPUT",
      issues: [{ path: "to" }, { path: "copies.1.at" }],
    });
    // By another version, or by another program.
    const stored = [JSON.stringify(wrong), "[]", "5"].map((text) => newJob({ type: "greet", input: text }));
    await store.store.insert(stored);
    await hf.drain();
    const errors = await Promise.all(stored.map(async ({ id }) => (await reaches(id, "dead")).error));
    expect(errors.map((error) => error?.code)).toEqual(["INVALID_INPUT", "INVALID_INPUT", "INVALID_INPUT"]);
    expect(errors[0]?.message).toMatch(/^input of greet: to: .*string.*; copies\.1\.at: .*email/);
    expect(errors[1]?.message).toMatch(/^input of greet: .*object/);
    expect(ran).toBe(0);
  });
}
