import type { ClaimedJob, Store } from "holdfast/store";
import { describe, expect, it } from "vitest";
import {
  add,
  claim,
  claimOne,
  failureOf,
  finish,
  LEASE_MS,
  MINUTE,
  outcomeOf,
  settleOne,
} from "#src/testing/exercise-store/builders.js";
import { childOf, eventOf, newChild, onlyStep, park, stepsOf } from "#src/testing/exercise-store/step-builders.js";
import type { NewJob } from "#src/store.js";
import { dynamoServer } from "./server.js";
import {
  assertWoken,
  crashAfterEach,
  openCrashScene,
  parkedParent,
  waitersOf,
  type CrashScene,
} from "./step-crash-scene.js";

/** More of step-crashes.test.ts: every way in which a job ends, and sets of children. */
const server = dynamoServer();
const LONG = { timeout: 180_000 };

interface End {
  child?: Partial<NewJob>;
  /** The child is waiting again, and not leased. */
  waits?: boolean;
  before?: (scene: CrashScene) => Promise<unknown>;
  end: (store: Store, child: ClaimedJob) => Promise<unknown>;
  /** How the step of the parent ends. */
  as: "completed" | "dead" | "cancelled" | "missing";
}

const ENDS: Record<string, End> = {
  "not kept": {
    end: (store, child) => settleOne(store, outcomeOf(child, "completed", { output: "7", keep: false, keepMs: 0 })),
    as: "completed",
  },
  "completed with a time to live": {
    end: (store, child) => settleOne(store, outcomeOf(child, "completed", { keepMs: 10 * 3_600_000 })),
    as: "completed",
  },
  dead: { end: (store, child) => settleOne(store, failureOf(child, "no", { to: "dead" })), as: "dead" },
  "cancelled by its handler": {
    end: (store, child) => settleOne(store, outcomeOf(child, "cancelled")),
    as: "cancelled",
  },
  "cancelled while it waits": { waits: true, end: (store, { id }) => store.cancel([id]), as: "cancelled" },
  removed: { waits: true, end: (store, { id }) => store.remove([id]), as: "missing" },
  expired: {
    waits: true,
    child: { expiresAt: 1 },
    end: (store) => store.expireOverdue(10),
    as: "dead",
  },
  reaped: {
    child: { maxAttempts: 1 },
    before: ({ clock }) => clock.advance(LEASE_MS),
    end: (store) => store.reapExpiredLeases(10),
    as: "dead",
  },
};

describe.each(Object.entries(ENDS))("a crash after each request of the end of a child: %s", (_how, given) => {
  it("leaves no parent behind", LONG, async () => {
    const scene = await openCrashScene(server);
    const { store, survivor, clock } = scene;
    await crashAfterEach(scene, async (queue) => {
      const { parent, child } = await parkedParent(store, queue, given.child);
      if (given.waits === true) await finish(store, child, "pending");
      else if (given.before !== undefined) await store.start([{ ...child, startedAt: clock.now() }]);
      await given.before?.(scene);
      return {
        work: () => given.end(store, child),
        async check(what) {
          await scene.repair();
          const step = await onlyStep(survivor, parent);
          const record = await survivor.get(child.id);
          const hasEnded = record === null || record.finishedAt !== null;
          expect(step.state === "waiting", `crash ${what}`).toBe(!hasEnded);
          // Another process does it again.
          if (!hasEnded) await given.end(survivor, child);
          const { state, failure } = await onlyStep(survivor, parent);
          expect(failure?.state ?? "completed", `crash ${what}`).toBe(given.as);
          expect(state, `crash ${what}`).toBe(given.as === "completed" ? "done" : "failed");
          await assertWoken(survivor, queue, [parent], what);
          expect(await scene.repair(), `crash ${what}`).toBe(0);
        },
      };
    });
  });
});

it("a crash after each request of an emit leaves none of many waiters behind", LONG, async () => {
  const scene = await openCrashScene(server);
  const { store, survivor } = scene;
  await crashAfterEach(scene, async (event) => {
    const waiters = await waitersOf(store, event, 4);
    return {
      work: () => store.emit([eventOf(event)]),
      async check(what) {
        await scene.repair();
        if (!(await scene.isEmitted(event))) await survivor.emit([eventOf(event)]);
        await assertWoken(survivor, event, waiters, what);
      },
    };
  });
});

it("a crash after each request of a set in several transactions inserts each child once", LONG, async () => {
  const scene = await openCrashScene(server);
  const { store, survivor } = scene;
  const count = 70;
  const requests = await crashAfterEach(scene, async (queue) => {
    await add(store, { queue });
    const parent = await claimOne(store, { queues: [queue], leaseMs: 100 * MINUTE });
    const children = Array.from({ length: count }, () => newChild({ queue: `${queue} child` }));
    const writes = children.map((child, member) => childOf(parent, child, { name: "all", member }));
    return {
      work: () => store.saveSteps(writes),
      async check(what) {
        const stored = new Set((await stepsOf(survivor, parent.id)).map(({ member }) => member));
        for (const [member, { id }] of children.entries())
          expect((await survivor.get(id)) !== null, `crash ${what}`).toBe(stored.has(member));
        // Some of them end before the next run stores all of them again.
        const early = await claim(survivor, { queues: [`${queue} child`], limit: 20, leaseMs: MINUTE });
        for (const job of early) await finish(survivor, job, "completed", { keep: false });
        for (const { status } of await survivor.saveSteps(writes)) expect(status, `crash ${what}`).toBe("kept");
        await park(survivor, parent);
        const late = await claim(survivor, { queues: [`${queue} child`], limit: count, leaseMs: MINUTE });
        expect(late.length, `crash ${what}`).toBe(count - early.length);
        await Promise.all(late.map((job) => finish(survivor, job)));
        const states = (await stepsOf(survivor, parent.id)).map(({ state }) => state);
        expect(states, `crash ${what}`).toEqual(Array.from({ length: count }, () => "done"));
        const woken = await claimOne(survivor, { queues: [queue] });
        expect(woken.id, `crash ${what}`).toBe(parent.id);
        await finish(survivor, woken);
      },
    };
  });
  // At least three transactions.
  expect(requests).toBeGreaterThanOrEqual(3);
});
