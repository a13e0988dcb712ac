import { holdfast, job, type Events, type Holdfast, type Lease, type RunContext, type Store } from "holdfast";
import { describe, expect, it, onTestFinished } from "vitest";
import { deferred, eventsOf } from "./scene.js";

type Context = RunContext<Record<string, never>>;

/** A database with jobs and a table of the application. */
export interface Desk {
  store: string | Store;
  /** In one transaction: records an effect, completes the job, then commits or rolls back. */
  effect(context: Pick<Context, "completeIn">, output: unknown, end: "commit" | "roll back"): Promise<void>;
  effects(): Promise<number>;
  /** Another store on the same database. */
  again(): Promise<Store>;
}

/** Cases of `completeIn` for every store that supports the caller's transactions. */
export function completingCases(name: string, open: () => Promise<Desk>): void {
  async function scene(
    run: (context: Context, desk: Desk) => unknown,
    options: Parameters<typeof holdfast>[0] = {},
  ): Promise<{ hf: Holdfast; desk: Desk; enqueue: () => Promise<string>; completed: Events["completed"][] }> {
    const desk = await open();
    const type = job({
      type: "effect",
      retry: { maxAttempts: 2, backoff: { base: 0, jitter: 0 } },
      run: (context) => run(context, desk),
    });
    const hf = await holdfast({ store: desk.store, jobs: [type], logger: false, ...options });
    onTestFinished(() => hf.close());
    hf.work();
    const completed = eventsOf(hf, "completed");
    return { hf, desk, completed, enqueue: async () => (await hf.enqueue(type)).id };
  }

  describe(`${name}: a handler that completes its job in its own transaction`, () => {
    it("has its effect once, with output, log and progress", async () => {
      const { hf, desk, enqueue, completed } = await scene(async (context, at) => {
        context.log("about to");
        context.progress(0.9);
        await at.effect(context, { done: 1 }, "commit");
        return { ignored: true };
      });
      const id = await enqueue();
      expect(await hf.result(id, { timeout: "10s" })).toEqual({ done: 1 });
      expect(await hf.get(id)).toMatchObject({ state: "completed", attempt: 1, progress: { fraction: 0.9 } });
      expect((await hf.get(id))?.log.map(({ line }) => line)).toEqual(["about to"]);
      expect(await desk.effects()).toBe(1);
      await hf.close();
      expect(completed).toMatchObject([{ id, output: { done: 1 } }]);
    });

    it("stays completed if it throws after the commit", async () => {
      const { hf, desk, enqueue } = await scene(async (context, at) => {
        await at.effect(context, "kept", "commit");
        throw new Error("too late");
      });
      const id = await enqueue();
      expect(await hf.result(id, { timeout: "10s" })).toBe("kept");
      expect(await desk.effects()).toBe(1);
      expect((await hf.get(id))?.error).toBeNull();
    });

    it("is retried without effect after a rollback", async () => {
      let attempts = 0;
      const { hf, desk, enqueue } = await scene(async (context, at) => {
        attempts++;
        if (attempts === 2) return at.effect(context, attempts, "commit");
        await at.effect(context, attempts, "roll back");
        throw new Error("rolled back");
      });
      const id = await enqueue();
      expect(await hf.result(id, { timeout: "10s" })).toBe(2);
      expect(await desk.effects()).toBe(1);
      expect((await hf.get(id))?.attempts.map(({ error }) => error?.message)).toEqual(["rolled back", undefined]);
    });

    it("fails if it returns without a commit", async () => {
      const { hf, desk, enqueue } = await scene((context, at) => at.effect(context, 1, "roll back"));
      const id = await enqueue();
      await expect(hf.result(id, { timeout: "10s" })).rejects.toMatchObject({ code: "JOB_NOT_COMPLETED" });
      expect((await hf.get(id))?.error).toMatchObject({ code: "NOT_COMMITTED" });
      expect(await desk.effects()).toBe(0);
    });

    it("throws if its lease is lost, so that it does not commit", async () => {
      const thrown = deferred<unknown>();
      const { desk, enqueue } = await scene(async (context, at) => {
        // Reaped by another process meanwhile, like an expired lease.
        await reapElsewhere(await at.again(), context.job.id);
        await at.effect(context, 1, "commit").catch((error: unknown) => thrown.resolve(error));
      });
      await enqueue();
      expect(await thrown.promise).toMatchObject({ code: "LEASE_LOST" });
      expect(await desk.effects()).toBe(0);
    });

    it("is deleted at the commit without retention", async () => {
      const retention = { completed: 0 };
      const { hf, desk, enqueue } = await scene((context, at) => at.effect(context, 1, "commit"), { retention });
      const done = new Promise((resolve) => hf.on("completed", resolve));
      const id = await enqueue();
      await done;
      expect(await hf.get(id)).toBeNull();
      expect(await desk.effects()).toBe(1);
      expect((await hf.stats()).states).toMatchObject({ completed: 0, running: 0, claimed: 0 });
    });
  });

  it(`${name}: a lease can be completed in the caller's transaction too`, async () => {
    const desk = await open();
    const type = job({ type: "leased", run() {} });
    const hf = await holdfast({ store: desk.store, jobs: [type], logger: false });
    onTestFinished(() => hf.close());
    const { id } = await hf.enqueue(type);
    const [lease] = await hf.claim();
    await desk.effect(lease as Lease, { by: "hand" }, "commit");
    expect(await hf.get(id)).toMatchObject({ state: "completed", output: { by: "hand" } });
    await expect(desk.effect(lease as Lease, 2, "commit")).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(await desk.effects()).toBe(1);
  });
}

async function reapElsewhere(store: Store, id: string): Promise<void> {
  const fence = (await store.get(id))?.fence ?? 0;
  const nothing = {
    output: null,
    delayMs: 0,
    attempt: 1,
    releases: 0,
    error: null,
    startedAt: null,
    attemptRecord: null,
  };
  await store.settle([{ id, fence, to: "dead", keep: true, keepMs: null, purgeMs: null, ...nothing }]);
}
