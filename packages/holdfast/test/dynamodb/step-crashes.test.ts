import type { ClaimedJob, StepWrite } from "holdfast/store";
import { describe, expect, it } from "vitest";
import { add, claimOne, failureOf, finish, outcomeOf, settleOne } from "#src/testing/exercise-store/builders.js";
import {
  childOf,
  eventOf,
  keepStep,
  newChild,
  onlyStep,
  parkOutcome,
  stepsOf,
  waitFor,
} from "#src/testing/exercise-store/step-builders.js";
import { dynamoServer } from "./server.js";
import {
  assertWoken,
  crashAfterEach,
  openCrashScene,
  parkedParent,
  waitersOf,
  type CrashScene,
} from "./step-crash-scene.js";

/** A process is killed after each of the requests of a call. What it left is found by maintenance, within a minute. */
const server = dynamoServer();

describe("a crash after each request", () => {
  it("of an emit leaves no waiter behind", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    const requests = await crashAfterEach(scene, async (event) => {
      const waiters = await waitersOf(store, event, 1);
      return {
        work: () => store.emit([eventOf(event)]),
        async check(what) {
          await scene.repair();
          if (!(await scene.isEmitted(event))) {
            expect((await onlyStep(survivor, waiters[0] ?? "")).state, `crash ${what}`).toBe("waiting");
            expect(await survivor.emit([eventOf(event)])).toEqual([{ first: true }]);
          }
          await assertWoken(survivor, event, waiters, what);
          expect(await scene.repair(), `crash ${what}`).toBe(0);
        },
      };
    });
    // The query, the event, its waiters, three writes for each of them, and the end of the note.
    expect(requests).toBe(3 + 3 + 1);
  });

  it("of the completion of a child wakes its parent", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    await crashAfterEach(scene, async (queue) => {
      const { parent, child } = await parkedParent(store, queue);
      return {
        work: () => settleOne(store, outcomeOf(child, "completed", { output: "7", keepMs: 60_000 })),
        async check(what) {
          await scene.repair();
          // The worker settles again, or another one runs the child.
          if ((await survivor.get(child.id))?.state !== "completed") await finish(survivor, child);
          await assertWoken(survivor, queue, [parent], what);
          expect((await survivor.get(child.id))?.state).toBe("completed");
        },
      };
    });
  });

  it("of a failed attempt that reopens a step runs the step again", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    await crashAfterEach(scene, async (queue) => {
      await add(store, { queue });
      const lease = await claimOne(store, { queues: [queue] });
      const failure = { message: "down", code: null };
      const { id, fence } = lease;
      await keepStep(store, { ...waitFor(lease, "none"), kind: "run", to: "failed", topic: null, failure });
      const outcome = failureOf(lease, "down", { reopen: ["wait for none"] });
      return {
        work: () => settleOne(store, outcome),
        async check(what) {
          expect(await settleOne(survivor, outcome), `crash ${what}`).toBe("applied");
          expect(await stepsOf(survivor, id), `crash ${what}`).toEqual([]);
          expect((await survivor.get(id))?.fence).toBe(fence);
        },
      };
    });
  });
});

describe("an emit at the same time", () => {
  it("as a wait: the emitter finds the job that began to wait", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    await add(survivor);
    const lease = await claimOne(survivor);
    const waited = scene.before(
      ({ operation }) => operation === "PutItem",
      () => keepStep(survivor, waitFor(lease, "paid")),
    );
    expect(await store.emit([eventOf("paid", "1")])).toEqual([{ first: true }]);
    await waited;
    expect((await onlyStep(survivor, lease.id)).value).toBe("1");
    expect(await settleOne(survivor, parkOutcome(lease))).toBe("awake");
  });

  it("as a wait: the wait finds the event", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    await add(store);
    const lease = await claimOne(store);
    const emitted = scene.before(
      ({ operation }) => operation === "TransactWriteItems",
      () => survivor.emit([eventOf("paid", "1")]),
    );
    expect(await keepStep(store, waitFor(lease, "paid"))).toMatchObject({ state: "done", value: "1" });
    await emitted;
  });

  it("as a park: the park is refused, or the job is made due", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    await add(store);
    const lease = await claimOne(store);
    await keepStep(store, waitFor(lease, "paid"));
    const emitted = scene.before(
      ({ operation }) => operation === "UpdateItem",
      () => survivor.emit([eventOf("paid")]),
    );
    expect(await settleOne(store, parkOutcome(lease))).toBe("awake");
    await emitted;
    await keepStep(store, waitFor(lease, "shipped"));
    // The first try of the wake finds the job leased. Then it is parked.
    const parked = scene.before(
      ({ text }) => text.includes("#wakes"),
      async () => expect(await settleOne(store, parkOutcome(lease, { wakes: 1 }))).toBe("applied"),
    );
    await store.emit([eventOf("shipped")]);
    await parked;
    expect((await claimOne(survivor)).id).toBe(lease.id);
  });

  it("as the next park: it is refused until its holder is notified", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    await add(store);
    const lease = await claimOne(store);
    await keepStep(store, waitFor(lease, "paid"));
    await survivor.emit([eventOf("paid")]);
    // The call fails after it has read that the job was woken, so its caller does not learn that.
    await add(store, { queue: "other" });
    const other = await claimOne(store, { queues: ["other"] });
    scene.crashAfter(2);
    await expect(store.settle([parkOutcome(lease), failureOf(other, "down")])).rejects.toThrow("killed");
    scene.crashAfter(Number.POSITIVE_INFINITY);
    expect(await settleOne(store, parkOutcome(lease))).toBe("awake");
    expect(await settleOne(store, parkOutcome(lease, { wakes: 1 }))).toBe("applied");
  });
});

describe("a wait for a job that exists, at the same time", () => {
  /** A job that waits or is leased, and another one that begins to wait for it. */
  async function openPair(scene: CrashScene): Promise<{ child: ClaimedJob; wait: StepWrite; parent: string }> {
    const { store, survivor } = scene;
    await add(store, { queue: "children" });
    const child = await claimOne(store, { queues: ["children"] });
    const parent = await add(survivor, { queue: "parents" });
    const lease = await claimOne(survivor, { queues: ["parents"] });
    const wait = { ...childOf(lease, newChild({ id: child.id })), child: null };
    return { child, wait, parent };
  }

  it("as its completion", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    const { child, wait, parent } = await openPair(scene);
    const waited = scene.before(
      ({ operation }) => operation === "UpdateItem",
      async () => expect(await keepStep(survivor, wait)).toMatchObject({ state: "waiting" }),
    );
    await finish(store, child, "completed", { output: "7" });
    await waited;
    expect((await onlyStep(survivor, parent)).value).toBe("7");
  });

  it("as its cancellation", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    const { child, wait, parent } = await openPair(scene);
    await finish(store, child, "pending");
    const waited = scene.before(
      ({ operation }) => operation === "TransactWriteItems",
      () => keepStep(survivor, wait),
    );
    expect(await store.cancel([child.id])).toEqual(["cancelled"]);
    await waited;
    expect((await onlyStep(survivor, parent)).failure?.state).toBe("cancelled");
  });

  it("as its end, which the wait finds", async () => {
    const scene = await openCrashScene(server);
    const { store, survivor } = scene;
    const { child, wait } = await openPair(scene);
    const ended = scene.before(
      ({ operation }) => operation === "TransactWriteItems",
      () => finish(survivor, child, "completed", { output: "7" }),
    );
    expect(await keepStep(store, wait)).toMatchObject({ state: "done", value: "7" });
    await ended;
    const gone = { ...wait, name: "gone", topic: "job:018f4d2e-7b3a-7c11-8a55-00000000000a" };
    expect(await keepStep(store, gone)).toMatchObject({ state: "failed", failure: { state: "missing" } });
  });
});

it("a child that is stored in a call that fails is inserted once", async () => {
  const scene = await openCrashScene(server);
  const { store, survivor } = scene;
  await crashAfterEach(scene, async (queue) => {
    await add(store, { queue });
    const parent = await claimOne(store, { queues: [queue] });
    const input = JSON.stringify("x".repeat(2_000));
    const child = newChild({ queue: `${queue} child`, input });
    const write = childOf(parent, child);
    return {
      work: () => store.saveSteps([write]),
      async check(what) {
        const [stored] = await stepsOf(survivor, parent.id);
        expect((await survivor.get(child.id)) !== null, `crash ${what}`).toBe(stored !== undefined);
        await keepStep(survivor, write);
        const claimed = await claimOne(survivor, { queues: [`${queue} child`] });
        expect(claimed, `crash ${what}`).toMatchObject({ id: child.id, fence: 1, input });
        await finish(survivor, claimed);
        expect((await onlyStep(survivor, parent.id)).state, `crash ${what}`).toBe("done");
      },
    };
  });
});
