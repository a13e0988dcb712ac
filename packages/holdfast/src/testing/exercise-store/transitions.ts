import assert from "node:assert/strict";
import { InvalidOptionError } from "../../errors.js";
import type { State } from "../../job/state.js";
import type { ClaimedJob, Outcome, Store, TransitionRecord } from "../../store.js";
import {
  add,
  addAll,
  claim,
  claimOne,
  failureOf,
  finish,
  insertOne,
  key,
  LEASE_MS,
  MINUTE,
  newJob,
  newJobs,
  outcomeOf,
  SECOND,
  settleAll,
  settleOne,
} from "./builders.js";
import { Follower, recordFor } from "./follower.js";
import { addSchedule, fireAll, firingFor, jobOf } from "./schedule-builders.js";
import { handlesOf, type DefineCase, type LiveScene } from "./scene.js";
import { pollInterval, randomFrom } from "./until.js";

const HOUR = 60 * MINUTE;
const CLAIMERS = 8;

export function transitionCases(test: DefineCase): void {
  kindCases(test);
  cursorCases(test);
  transactionCases(test);
  test.live([], "concurrent transitions are each returned once", manyWriters);
}

/** Every kind of transition. */
function kindCases(test: DefineCase): void {
  test("returns every transition once, in order per job", async (scene) => {
    const { store, clock } = scene;
    await add(store, { queue: "earlier" });
    const follower = await Follower.start(scene, 10 * HOUR);
    const expected: TransitionRecord[] = [];
    /** The next transition of a job. Each happens at a time of its own. */
    const becomes = async (id: string, to: State, queue: string, type = "mail"): Promise<void> => {
      expected.push({ id, type, queue, to, at: clock.now() });
      await clock.advance(1);
    };
    const created = async (queue: string, overrides: Parameters<typeof add>[1] = {}): Promise<string> => {
      const id = await add(store, { queue, ...overrides });
      await becomes(id, "pending", queue, overrides.type);
      return id;
    };
    const claimed = async (queue: string, leaseMs = 10 * HOUR): Promise<ClaimedJob> => {
      const job = await claimOne(store, { queues: [queue], leaseMs });
      await becomes(job.id, "claimed", queue, job.type);
      return job;
    };
    const started = async (queue: string, leaseMs = 10 * HOUR): Promise<ClaimedJob> => {
      const job = await claimed(queue, leaseMs);
      await store.start([{ ...job, startedAt: clock.now() }]);
      await becomes(job.id, "running", queue, job.type);
      return job;
    };
    const settled = async (queue: string, outcome: Outcome, to: State = outcome.to): Promise<void> => {
      await settleOne(store, outcome);
      await becomes(outcome.id, to, queue);
    };

    // Completes, with everything that is no transition.
    await created("completes");
    const completing = await started("completes");
    await store.start([{ ...completing, startedAt: clock.now() }]);
    await store.extend([completing], 10 * HOUR);
    await store.note([{ ...completing, progress: null, log: [{ at: 1, line: "x" }] }]);
    await settled("completes", outcomeOf(completing, "completed"));
    await settleOne(store, outcomeOf(completing, "completed"));
    await insertOne(store, newJob({ id: completing.id }));
    await store.cancel([completing.id]);
    // Deleted when it completes.
    await created("not kept");
    await settled("not kept", outcomeOf(await claimed("not kept"), "completed", { keep: false }));
    // Fails, is dead, is retried, is released.
    const retried = await created("retried");
    await settled("retried", failureOf(await started("retried"), "no", { delayMs: MINUTE }));
    await store.retry([retried]);
    await settled("retried", failureOf(await started("retried"), "no", { to: "dead" }));
    await store.retry([retried]);
    await becomes(retried, "pending", "retried");
    await settled("retried", outcomeOf(await claimed("retried"), "pending", { delayMs: MINUTE }));
    // Cancelled while it waits, and retried.
    const cancelled = await created("cancelled", { delayMs: MINUTE, type: "report" });
    await store.cancel([cancelled]);
    await becomes(cancelled, "cancelled", "cancelled", "report");
    await store.retry([cancelled]);
    await becomes(cancelled, "pending", "cancelled", "report");
    // Cancelled while it is leased.
    await created("cancelled later");
    const leased = await claimed("cancelled later");
    await store.cancel([leased.id]);
    await settled("cancelled later", failureOf(leased, "stopped"), "cancelled");
    await created("cancelled by its worker");
    await settled("cancelled by its worker", outcomeOf(await started("cancelled by its worker"), "cancelled"));
    // Replaced by another job, after a failure.
    const replaced = await created("replaced", { unique: key("k") });
    await settled("replaced", failureOf(await claimed("replaced"), "no", { delayMs: MINUTE }));
    await insertOne(store, newJob({ queue: "new", type: "report", unique: key("k", { onConflict: "replace" }) }));
    await becomes(replaced, "pending", "new", "report");
    // Moved to another queue.
    const moved = await created("moved from");
    await store.update([{ id: moved, queue: "moved to", priority: 5 }]);
    await claimed("moved to");
    // Created by a schedule.
    const schedule = await addSchedule(store, { nextRunAt: clock.now() });
    const firing = firingFor(schedule, [clock.now()], { queue: "scheduled" });
    await fireAll(store, firing);
    await becomes(jobOf(firing), "pending", "scheduled");
    // Removed: not a state.
    await store.remove([await created("removed")]);
    // Expires while it waits.
    const expiring = await created("expires", { expiresAt: clock.now() + MINUTE, delayMs: HOUR });
    // Expired leases.
    await created("reaped");
    const reaped = await started("reaped", LEASE_MS);
    await created("reaped for good", { maxAttempts: 1 });
    const dead = await started("reaped for good", LEASE_MS);
    await created("reaped as cancelled");
    const stopped = await started("reaped as cancelled", LEASE_MS);
    await store.cancel([stopped.id]);
    await clock.advance(2 * MINUTE);
    assert.equal((await store.expireOverdue(10)).length, 1);
    await becomes(expiring, "dead", "expires");
    assert.equal((await store.reapExpiredLeases(10)).length, 3);
    const at = clock.now();
    expected.push({ id: reaped.id, type: "mail", queue: "reaped", to: "pending", at });
    expected.push({ id: dead.id, type: "mail", queue: "reaped for good", to: "dead", at });
    expected.push({ id: stopped.id, type: "mail", queue: "reaped as cancelled", to: "cancelled", at });
    // Claimed again after its lease expired.
    await created("claimed again");
    await claimed("claimed again", LEASE_MS);
    await clock.advance(MINUTE);
    await settled("claimed again", outcomeOf(await claimed("claimed again"), "completed"));
    await store.purge({ state: "completed", before: null, keep: 0, limit: 100 });

    await follower.assertSeen(expected);
    // Reading again from the first cursor returns the same, whatever the pages.
    for (const limit of [1, 7, 1_000]) {
      const again = new Follower(scene, follower.first, limit);
      await again.assertSeen(expected);
    }
  });

  test("returns a batch of transitions", async (scene) => {
    const { store } = scene;
    const follower = await Follower.start(scene, HOUR);
    const ids = await addAll(store, newJobs(120));
    const jobs = await claim(store, { leaseMs: HOUR });
    await settleAll(
      store,
      jobs.map((job) => outcomeOf(job, "completed")),
    );
    const claimedIds = new Set(jobs.map(({ id }) => id));
    await follower.assertStates(
      new Map(ids.map((id) => [id, claimedIds.has(id) ? ["pending", "claimed", "completed"] : ["pending"]])),
    );
  });
}

/** Cursors, their end, and what is deleted. */
function cursorCases(test: DefineCase): void {
  test("a second follower begins at its own cursor", async (scene) => {
    const { store, clock } = scene;
    const first = await Follower.start(scene, HOUR);
    const early = await add(store);
    await first.assertStates(new Map([[early, ["pending"]]]));
    await clock.advance(MINUTE);
    // Shorter: the first one's recording does not end earlier.
    const second = await Follower.start(scene, SECOND);
    await clock.advance(MINUTE);
    const late = await add(store);
    await store.cancel([early]);
    await second.assertStates(
      new Map<string, State[]>([
        [late, ["pending"]],
        [early, ["cancelled"]],
      ]),
    );
    await first.assertStates(
      new Map<string, State[]>([
        [late, ["pending"]],
        [early, ["pending", "cancelled"]],
      ]),
    );
  });

  test("recording continues if it is renewed", async (scene) => {
    const { store, clock } = scene;
    const follower = await Follower.start(scene, 10 * MINUTE);
    const states = new Map<string, State[]>();
    for (let round = 0; round < 5; round++) {
      states.set(await add(store), ["pending"]);
      await clock.advance(6 * MINUTE);
      await recordFor(scene, 10 * MINUTE);
    }
    await follower.assertStates(states);
  });

  test("a cursor expires when recording has ended", async (scene) => {
    const { store, clock } = scene;
    const lapsed = await Follower.start(scene, 10 * MINUTE);
    await add(store);
    // Long enough for a store that records longer than it was asked to.
    await clock.advance(24 * HOUR);
    await add(store);
    await lapsed.assertExpired();
    const next = await Follower.start(scene, HOUR);
    await lapsed.assertExpired();
    const found = await add(store);
    await next.assertStates(new Map([[found, ["pending"]]]));
    await lapsed.assertExpired();
  });

  test("a cursor expires when transitions after it are deleted", async (scene) => {
    const { store, clock } = scene;
    const old = await Follower.start(scene, HOUR);
    const early = await addAll(store, newJobs(5));
    const reader = new Follower(scene, old.first);
    const states = new Map<string, State[]>(early.map((id) => [id, ["pending"]]));
    await reader.assertStates(states);
    assert.equal(await store.purgeTransitions({ before: clock.now() - HOUR, limit: 100 }), 0);
    await new Follower(scene, old.first).assertStates(states);
    await clock.advance(MINUTE);
    const before = clock.now();
    await clock.advance(MINUTE);
    // A follower that polls keeps its cursor. One that does not may be asked to begin again.
    await reader.poll();
    const late = await add(store);
    for (let rounds = 0; ; rounds++) {
      const deleted = await store.purgeTransitions({ before, limit: 2 });
      assert.ok(deleted <= 2, "at most the limit");
      if (deleted === 0) break;
      assert.ok(rounds < 10, "deleting must end");
    }
    await old.assertExpired();
    await reader.assertStates(new Map([...states, [late, ["pending"]]]));
  });

  test("refuses a cursor of another store", async (scene) => {
    const cursor = await recordFor(scene, HOUR);
    assert.match(cursor, /^[ -~]{1,1000}$/, "printable ASCII");
    for (const foreign of ["", "none", "'; DROP TABLE jobs; --", "\0", "-1", `${cursor}!`, "漢字", "9".repeat(2_000)]) {
      await assert.rejects(
        scene.store.transitions(foreign, 10),
        (error) => error instanceof InvalidOptionError && error.field === "cursor",
        foreign,
      );
    }
  });

  test.needing(["another handle"], "another handle continues from a cursor", async (scene) => {
    const { store } = scene;
    const other = await scene.again();
    const follower = await Follower.start(scene, HOUR);
    const ids = [await add(store), await add(other), await add(store)];
    const states = new Map<string, State[]>(ids.map((id) => [id, ["pending"]]));
    await new Follower({ ...scene, store: other }, follower.first, 2).assertStates(states);
    await follower.assertStates(states);
    const job = await claimOne(other);
    await finish(other, job);
    await follower.assertStates(states.set(job.id, ["pending", "claimed", "completed"]));
  });
}

/** Transitions in a caller's transaction. */
function transactionCases(test: DefineCase): void {
  test.needing(["transactions"], "finds transitions of a transaction after its commit", async (scene) => {
    const { store } = scene;
    const [follower, id] = [await Follower.start(scene, HOUR), await add(store)];
    const job = await claimOne(store, { leaseMs: HOUR });
    await follower.assertStates(new Map([[id, ["pending", "claimed"]]]));
    const inserted = newJob();
    const transaction = await scene.begin();
    await store.insertIn(transaction.tx, [inserted]);
    assert.equal(await store.settleIn(transaction.tx, outcomeOf(job, "completed"), null), "applied");
    await follower.poll();
    await follower.assertStates(new Map([[id, ["pending", "claimed"]]]));
    await transaction.commit();
    await follower.assertStates(
      new Map<string, State[]>([
        [id, ["pending", "claimed", "completed"]],
        [inserted.id, ["pending"]],
      ]),
    );
  });

  test.needing(["transactions"], "finds no transitions of a rolled-back transaction", async (scene) => {
    const { store } = scene;
    const [follower, id] = [await Follower.start(scene, HOUR), await add(store)];
    const job = await claimOne(store, { leaseMs: HOUR });
    const transaction = await scene.begin();
    await store.insertIn(transaction.tx, [newJob()]);
    await store.settleIn(transaction.tx, outcomeOf(job, "completed"), null);
    await transaction.rollback();
    const later = await add(store);
    await follower.assertStates(
      new Map<string, State[]>([
        [id, ["pending", "claimed"]],
        [later, ["pending"]],
      ]),
    );
  });

  test.needing(["transactions"], "finds a transition that commits late", async (scene) => {
    const { store } = scene;
    const follower = await Follower.start(scene, HOUR);
    const states = new Map<string, State[]>();
    const open = await scene.begin();
    const slow = newJob();
    await store.insertIn(open.tx, [slow]);
    // A synchronous store has one writer at a time.
    if (!store.capabilities.synchronous) {
      for (let round = 0; round < 3; round++) {
        states.set(await add(store, { queue: `other ${round}` }), ["pending"]);
        await follower.poll();
      }
    }
    await open.commit();
    states.set(slow.id, ["pending"]);
    await follower.assertStates(states);
  });
}

/** Eight claimers write while two followers read. What the claimers did is what the followers must have seen. */
async function manyWriters(scene: LiveScene): Promise<void> {
  const { store } = scene;
  const count = Math.min(400, scene.many / 4);
  const seed = Date.now() % 1_000_000;
  const handles = await handlesOf(scene, CLAIMERS);
  const first = await store.recordTransitions(10 * HOUR);
  const followers = [new Follower(scene, first, 50), new Follower({ ...scene, store: handles[0] ?? store }, first, 7)];
  const done = new Map<string, Map<number, State[]>>();
  let left = count;
  const note = (id: string, fence: number, to: State): void => {
    const byFence = done.get(id) ?? new Map<number, State[]>();
    done.set(id, byFence.set(fence, [...(byFence.get(fence) ?? []), to]));
    if (to === "completed" || to === "dead" || to === "cancelled") left--;
  };
  // If the store loses a job, the claimers must still end.
  const deadline = performance.now() + 60_000;
  const isOver = (): boolean => left === 0 || performance.now() > deadline;

  async function enqueue(): Promise<void> {
    for (let at = 0; at < count; at += 20) {
      for (const id of await addAll(store, newJobs(Math.min(20, count - at), { maxAttempts: 1_000 }))) {
        note(id, 0, "pending");
      }
      const cancelled = [...done.keys()].slice(-2);
      const results = await store.cancel(cancelled);
      for (const [nth, id] of cancelled.entries()) {
        // After every lease that the job had before.
        if (results[nth] === "cancelled") note(id, Number.MAX_SAFE_INTEGER, "cancelled");
      }
    }
  }
  async function work(handle: Store, random: (below: number) => number): Promise<void> {
    while (!isOver()) {
      const jobs = await claim(handle, { limit: 1 + random(10), leaseMs: 10 * MINUTE });
      if (jobs.length === 0) await pollInterval();
      for (const { id, fence } of jobs) note(id, fence, "claimed");
      if (random(2) === 0) {
        const marks = await handle.start(jobs.map((job) => ({ ...job, startedAt: 1 })));
        // A busy row stays `claimed`.
        for (const [nth, { id, fence }] of jobs.entries()) if (marks[nth] !== "busy") note(id, fence, "running");
      }
      const outcomes = jobs.map((job) => outcomeOf(job, FATES[random(FATES.length)] ?? "completed"));
      const results = await settleAll(handle, outcomes);
      for (const [nth, { id, fence, to }] of outcomes.entries()) {
        assert.notEqual(results[nth], "lost", "no lease expires");
        note(id, fence, results[nth] === "cancelled" ? "cancelled" : to);
      }
    }
  }
  async function follow(follower: Follower): Promise<void> {
    while (!isOver()) if ((await follower.poll()) === 0) await pollInterval();
  }
  await Promise.all([
    enqueue(),
    ...handles.map((handle, nth) => work(handle, randomFrom(seed + nth))),
    ...followers.map((follower) => follow(follower)),
  ]);
  assert.equal(left, 0, `seed ${seed}: every job ends`);
  const expected = new Map(
    [...done].map(([id, byFence]) => [id, [...byFence].toSorted(([a], [b]) => a - b).flatMap(([, states]) => states)]),
  );
  for (const follower of followers) await follower.assertStates(expected);
}

const FATES: readonly Outcome["to"][] = ["completed", "completed", "completed", "failed", "pending", "dead"];
