import {
  ChildFailedError,
  holdfast,
  job,
  type Holdfast,
  type HoldfastOptions,
  type Job,
  type JobType,
  type NoInput,
  type RunContext,
} from "holdfast";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import type { OpenStore } from "./store-cases.js";
import { deferred, recordingLogger, watch, type WatchedStore } from "./scene.js";

type Context = RunContext<Record<string, never>>;

interface Scene {
  hf: Holdfast;
  clock: FakeClock;
  store: WatchedStore;
  read: (id: string) => Promise<Job>;
  /** Runs what is due, and what becomes due by that. */
  runAll: () => Promise<void>;
}

async function sceneOn(open: OpenStore, options: HoldfastOptions): Promise<Scene> {
  const clock = fakeClock();
  const store = watch(await open(clock));
  const hf = await holdfast({ ...options, store: store.store, clock, logger: recordingLogger().logger });
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
  const runAll = async (): Promise<void> => {
    while ((await hf.drain()) > 0);
  };
  return { hf, clock, store, read, runAll };
}

const ONCE = { maxAttempts: 1 };
const double = job({
  type: "double",
  input: z.object({ n: z.number() }),
  retry: ONCE,
  run: ({ input: { n } }) => {
    if (n < 0) throw Object.assign(new Error("negative"), { code: "E_SIGN" });
    return n * 2;
  },
});

function parentOf<Output>(run: (context: Context) => Output | Promise<Output>): JobType<NoInput, Output> {
  return job({ type: "parent", retry: { maxAttempts: 3, backoff: { base: 0, jitter: 0 } }, run });
}

/** Steps, waits and children, on any store. */
export function stepStoreCases(name: string, open: OpenStore): void {
  describe(`${name}: steps`, () => {
    it("are kept through sleeps, events, failures and children", async () => {
      const calls: string[] = [];
      const parent = parentOf(async ({ step, sleep, waitFor, spawn, job: { attempt } }) => {
        const a = await step("a", () => calls.push("a"));
        await sleep("night", "12h");
        const paid = await waitFor<{ amount: number }>("paid", { event: "paid", timeout: "7d" });
        const b = await step("b", () => {
          calls.push("b");
          if (attempt === 1) throw new Error("down");
          return attempt;
        });
        const doubled = await spawn("double", double, { n: 21 });
        return { a, paid, b, doubled };
      });
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      await on.clock.advance("12h");
      await on.runAll();
      await on.hf.emit("paid", { amount: 7 });
      await on.runAll();
      expect(await on.read(id)).toMatchObject({
        state: "completed",
        output: { a: 1, paid: { amount: 7 }, b: 2, doubled: 42 },
      });
      expect(calls).toEqual(["a", "b", "b"]);
      expect((await on.hf.steps(id)).map(({ name: step, kind, state }) => [step, kind, state])).toEqual([
        ["a", "run", "done"],
        ["night", "sleep", "done"],
        ["paid", "event", "done"],
        ["b", "run", "done"],
        ["double", "job", "done"],
      ]);
    });

    it("of a lost lease are refused, and the next run goes on", async () => {
      const gate = deferred<void>();
      const calls: string[] = [];
      const late = deferred<unknown>();
      const parent = parentOf(async ({ step, job: { fence } }) => {
        await step("first", () => calls.push("first"));
        await step("second", async () => {
          calls.push(`second ${fence}`);
          if (fence === 1) await gate.promise;
          return fence;
        }).catch((error: unknown) => {
          late.resolve(error);
          throw error;
        });
        return step("third", () => calls.push(`third ${fence}`));
      });
      const on = await sceneOn(open, { jobs: [parent] });
      const { id } = await on.hf.enqueue(parent);
      const [lease] = await on.hf.claim({ lease: "1s" });
      expect(lease?.id).toBe(id);
      await lease?.release();
      const slow = on.hf.runNext();
      await on.clock.settle();
      await on.clock.settle();
      gate.resolve();
      await slow;
      expect(await on.read(id)).toMatchObject({ state: "completed" });
      expect(calls.filter((call) => call === "first")).toHaveLength(1);
    });
  });

  describe(`${name}: children`, () => {
    it("have the parent's id and user, and return their output", async () => {
      const parent = parentOf(({ spawn }) => spawn("child", double, { n: 4 }, { tags: ["small"], priority: 3 }));
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent, {}, { user: "ada" });
      await on.hf.runNext();
      expect(await on.read(id)).toMatchObject({ state: "pending", dueAt: null });
      const { jobs } = await on.hf.list({ parent: id });
      expect(jobs).toMatchObject([{ type: "double", user: "ada", tags: ["small"], priority: 3, input: { n: 4 } }]);
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "completed", output: 8, attempt: 1 });
      expect((await on.hf.list({ parent: id })).jobs).toHaveLength(1);
    });

    it("that fail make their parent dead, and a retry goes on with both", async () => {
      let healthy = false;
      const child = job({
        type: "child",
        retry: ONCE,
        run: () => {
          if (!healthy) throw new Error("no stock");
          return "packed";
        },
      });
      let first = 0;
      const parent = parentOf(async ({ step, spawn }) => {
        await step("first", () => first++);
        return spawn("pack", child);
      });
      const on = await sceneOn(open, { jobs: [parent, child] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      const dead = await on.read(id);
      expect(dead).toMatchObject({ state: "dead", attempt: 1, error: { code: "CHILD_FAILED" } });
      expect(dead.error?.message).toMatch(/^step "pack": job \S+ ended dead: no stock$/);
      healthy = true;
      expect(await on.hf.retry(id)).toBe("retried");
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "completed", output: "packed" });
      expect([first, (await on.hf.list({ parent: id })).jobs.length]).toEqual([1, 1]);
    });

    it("that fail can be caught", async () => {
      const parent = parentOf(async ({ spawn }) => {
        try {
          return await spawn("bad", double, { n: -1 });
        } catch (error) {
          if (!(error instanceof ChildFailedError)) throw error;
          return { step: error.step, state: error.state };
        }
      });
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "completed", output: { step: "bad", state: "dead" } });
    });

    it("of spawnAll return their outputs in order", async () => {
      const parent = parentOf(({ spawnAll }) => spawnAll("all", double, [{ n: 3 }, { n: 1 }, { n: 2 }]));
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "completed", output: [6, 2, 4] });
      expect((await on.hf.steps(id)).map(({ name: step, member }) => [step, member])).toEqual([
        ["all", 0],
        ["all", 1],
        ["all", 2],
      ]);
    });

    it("of spawnAll are all waited for before the first failure is thrown", async () => {
      const parent = parentOf(({ spawnAll }) => spawnAll("all", double, [{ n: 1 }, { n: -2 }, { n: 3 }]));
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "dead", error: { code: "CHILD_FAILED" } });
      const states = (await on.hf.list({ parent: id })).jobs.map(({ state }) => state);
      expect(states.toSorted()).toEqual(["completed", "completed", "dead"]);
    });

    it("of spawnAll are cancelled at the first failure, if asked", async () => {
      const waiting = job({
        type: "waiting",
        input: z.object({ n: z.number() }),
        retry: ONCE,
        run: async ({ input, sleep }) => {
          if (input.n < 0) throw new Error("negative");
          await sleep("long", "1d");
        },
      });
      const parent = parentOf(({ spawnAll }) =>
        spawnAll("all", waiting, [{ n: 1 }, { n: -2 }, { n: 3 }], { ifFailed: "stop" }),
      );
      const on = await sceneOn(open, { jobs: [parent, waiting] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "dead" });
      const states = (await on.hf.list({ parent: id })).jobs.map(({ state }) => state);
      expect(states.toSorted()).toEqual(["cancelled", "cancelled", "dead"]);
    });

    it("of spawnAll can all be kept, whatever their end", async () => {
      const parent = parentOf(({ spawnAll }) => spawnAll("all", double, [{ n: 1 }, { n: -2 }], { ifFailed: "keep" }));
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      expect((await on.read(id)).output).toMatchObject([
        { state: "completed", output: 2, error: null },
        { state: "dead", output: null, error: { message: "negative", code: "E_SIGN" } },
      ]);
    });

    it("of an empty spawnAll are none", async () => {
      const parent = parentOf(({ spawnAll }) => spawnAll("all", double, []));
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "completed", output: [] });
    });

    it("are cancelled with their parent, and theirs too", async () => {
      const leaf = job({ type: "leaf", run: ({ sleep }) => sleep("long", "1d") });
      const middle = job({ type: "middle", run: ({ spawn }) => spawn("leaf", leaf) });
      const parent = parentOf(({ spawn }) => spawn("middle", middle));
      const on = await sceneOn(open, { jobs: [parent, middle, leaf] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      expect(await on.hf.cancel(id)).toBe("cancelled");
      const [child] = (await on.hf.list({ parent: id })).jobs;
      const [grandchild] = (await on.hf.list({ parent: child?.id ?? "" })).jobs;
      expect([child?.state, grandchild?.state]).toEqual(["cancelled", "cancelled"]);
      await on.clock.advance("1d");
      expect(await on.hf.drain()).toBe(0);
    });

    it("with an invalid input fail the attempt, and nothing is stored", async () => {
      const parent = parentOf(({ spawn }) => spawn("bad", double, { n: "one" } as never));
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent);
      await on.hf.runNext();
      expect(await on.read(id)).toMatchObject({ state: "failed", error: { code: "INVALID_INPUT" } });
      expect(await on.hf.steps(id)).toEqual([]);
    });

    it("that were deleted fail the wait of their parent", async () => {
      const parent = parentOf(({ spawn }) => spawn("child", double, { n: 1 }, { delay: "1h" }));
      const on = await sceneOn(open, { jobs: [parent, double] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      const [child] = (await on.hf.list({ parent: id })).jobs;
      expect(await on.hf.remove(child?.id ?? "")).toBe("removed");
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "dead", error: { code: "CHILD_FAILED" } });
      expect((await on.read(id)).error?.message).toContain("ended missing");
    });

    it("that are not kept hand over their output", async () => {
      const secret = job({ type: "secret", retention: { completed: 0 }, run: () => "value" });
      const parent = parentOf(({ spawn }) => spawn("secret", secret));
      const on = await sceneOn(open, { jobs: [parent, secret] });
      const { id } = await on.hf.enqueue(parent);
      await on.runAll();
      expect(await on.read(id)).toMatchObject({ state: "completed", output: "value" });
      expect((await on.hf.list({ parent: id })).jobs).toEqual([]);
    });
  });
}
