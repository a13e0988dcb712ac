import assert from "node:assert/strict";
import { PARKED_AT } from "../../job/stored-step.js";
import type { ClaimedJob, NewJob, Store } from "../../store.js";
import {
  add,
  assertNothingToClaim,
  claim,
  claimIds,
  claimOne,
  claimRequest,
  failureOf,
  finish,
  LEASE_MS,
  MINUTE,
  newJobs,
  outcomeOf,
  recordOf,
  SECOND,
  settleOne,
  stateOf,
} from "./builders.js";
import { handlesOf, type DefineCase } from "./scene.js";
import {
  childOf,
  DAY,
  eventOf,
  keepStep,
  newChild,
  onlyStep,
  park,
  parkedFor,
  parkOutcome,
  stepOf,
  stepsOf,
  waitFor,
} from "./step-builders.js";
import { until } from "./until.js";

/** A leased job whose child is inserted and claimed. */
async function parentAndChild(
  store: Store,
  overrides: Partial<NewJob> = {},
): Promise<{ parent: ClaimedJob; child: ClaimedJob }> {
  await add(store, { queue: "parents" });
  const parent = await claimOne(store, { queues: ["parents"] });
  const child = newChild({ parent: parent.id, ...overrides });
  await keepStep(store, childOf(parent, child));
  const claimed = await claimOne(store, { queues: ["children"] });
  assert.equal(claimed.id, child.id);
  return { parent, child: claimed };
}

export function waitCases(test: DefineCase): void {
  test("a parked job waits without a lease, and its attempt is given back", async ({ store, clock }) => {
    const id = await add(store, { expiresAt: clock.now() + MINUTE });
    const lease = await claimOne(store);
    await store.start([{ ...lease, startedAt: clock.now() }]);
    await keepStep(store, waitFor(lease, "paid"));
    await clock.advance(SECOND);
    await park(store, lease);
    const { state, dueAt, runAt, attempt, expiresAt, worker } = await recordOf(store, id);
    assert.deepEqual(
      [state, dueAt, runAt, attempt, expiresAt, worker],
      ["pending", PARKED_AT, clock.now(), 0, null, null],
    );
    await clock.advance(10 * DAY);
    await assertNothingToClaim(store);
    assert.deepEqual(await store.expireOverdue(10), []);
    assert.deepEqual(await store.reapExpiredLeases(10), []);
  });

  test("a parked job is due at the time that it waits until", async ({ store, clock }) => {
    await add(store);
    const lease = await claimOne(store);
    const { until: end } = await keepStep(
      store,
      stepOf(lease, "nap", { kind: "sleep", to: "waiting", value: null, forMs: MINUTE }),
    );
    assert.equal(end, clock.now() + MINUTE);
    await park(store, lease, end);
    await clock.advance(MINUTE - 1);
    const early = await store.claim(claimRequest());
    assert.deepEqual(early.jobs, []);
    if (early.nextDueAt !== null) assert.equal(early.nextDueAt, end);
    await clock.advance(1);
    const again = await claimOne(store);
    assert.deepEqual([again.id, again.attempt, again.fence, again.previous.state], [lease.id, 1, 2, "pending"]);
    assert.equal((await onlyStep(store, lease.id)).state, "waiting");
  });

  test("parked jobs are no due time for claims and statistics", async ({ store }) => {
    await parkedFor(store, "never", { queue: "q" });
    const { jobs, nextDueAt } = await store.claim(claimRequest());
    assert.deepEqual([jobs, nextDueAt], [[], null]);
    const { oldestDueMs, counts } = await store.stats();
    assert.equal(oldestDueMs, null);
    assert.deepEqual(counts, [{ queue: "q", type: "mail", state: "pending", count: 1 }]);
  });

  test("a wait that is stored again keeps its time", async ({ store, clock }) => {
    await add(store);
    const lease = await claimOne(store);
    const wait = waitFor(lease, "paid", { forMs: MINUTE });
    const { until: end } = await keepStep(store, wait);
    await clock.advance(SECOND);
    assert.equal((await keepStep(store, wait)).until, end);
    const retry = stepOf(lease, "pay", { to: "waiting", value: null, tries: 1, forMs: SECOND });
    await keepStep(store, retry);
    await clock.advance(SECOND);
    assert.equal((await keepStep(store, { ...retry, tries: 2 })).until, clock.now() + SECOND);
  });

  test("an event ends the wait, and the job is due", async ({ store, clock }) => {
    const id = await parkedFor(store, "paid", { queue: "q", priority: 5 });
    await clock.advance(SECOND);
    assert.deepEqual(await store.emit([eventOf("paid", '{"amount":3}')]), [{ first: true }]);
    const { state, value, endedAt, failure } = await onlyStep(store, id);
    assert.deepEqual([state, value, endedAt, failure], ["done", '{"amount":3}', clock.now(), null]);
    assert.equal((await recordOf(store, id)).dueAt, clock.now());
    const lease = await claimOne(store);
    assert.deepEqual([lease.id, lease.fence, lease.priority], [id, 2, 5]);
  });

  test("an event may come before the wait", async ({ store }) => {
    await store.emit([eventOf("paid", "1")]);
    await add(store);
    const lease = await claimOne(store);
    const { state, value } = await keepStep(store, waitFor(lease, "paid"));
    assert.deepEqual([state, value], ["done", "1"]);
  });

  test("the first event of a name wins until its time is over", async ({ store, clock }) => {
    assert.deepEqual(await store.emit([eventOf("paid", "1", MINUTE), eventOf("other", "2", MINUTE)]), [
      { first: true },
      { first: true },
    ]);
    assert.deepEqual(await store.emit([eventOf("paid", "3", DAY)]), [{ first: false }]);
    await add(store);
    const lease = await claimOne(store);
    assert.equal((await keepStep(store, waitFor(lease, "paid"))).value, "1");
    await clock.advance(MINUTE);
    assert.equal((await keepStep(store, waitFor(lease, "paid", { name: "again" }))).state, "waiting");
    assert.deepEqual(await store.emit([eventOf("paid", "4")]), [{ first: true }]);
    assert.deepEqual(
      (await stepsOf(store, lease.id)).map(({ value }) => Number(value)).toSorted((a, b) => a - b),
      [1, 4],
    );
  });

  test("an event reaches all jobs that wait for it, and no others", async ({ store }) => {
    const waiting = [];
    for (let at = 0; at < 12; at++) waiting.push(await parkedFor(store, "paid", { queue: "q" }));
    await parkedFor(store, "paid:other", { queue: "q" });
    await store.emit([eventOf("paid")]);
    assert.deepEqual((await claimIds(store)).toSorted(), waiting.toSorted());
  });

  test("a repeated event changes nothing that has ended", async ({ store, clock }) => {
    const id = await parkedFor(store, "paid", { queue: "q" });
    await store.emit([eventOf("paid", "1")]);
    const lease = await claimOne(store);
    await clock.advance(SECOND);
    await store.emit([eventOf("paid", "2")]);
    assert.equal((await onlyStep(store, id)).value, "1");
    await finish(store, lease);
  });

  test("an event while the job is leased keeps it from parking", async ({ store }) => {
    const id = await add(store);
    const lease = await claimOne(store);
    await keepStep(store, waitFor(lease, "paid"));
    await store.emit([eventOf("paid")]);
    // A repeated park is refused too: the response to the first may have been lost.
    for (let round = 0; round < 2; round++) assert.equal(await settleOne(store, parkOutcome(lease)), "awake");
    assert.deepEqual([await stateOf(store, id), await store.extend([lease], LEASE_MS)], ["claimed", ["kept"]]);
    const { steps, wakes } = await store.steps(id);
    assert.deepEqual([steps[0]?.state, wakes], ["done", 1]);
    assert.equal(await settleOne(store, parkOutcome(lease, { wakes })), "applied");
  });

  test("a job that was woken completes, fails and is released as others", async ({ store }) => {
    for (const to of ["completed", "failed", "dead", "pending"] as const) {
      const id = await add(store, { queue: to });
      const lease = await claimOne(store, { queues: [to] });
      await keepStep(store, waitFor(lease, to));
      await store.emit([eventOf(to)]);
      await finish(store, lease, to);
      assert.equal(await stateOf(store, id), to);
      assert.equal(await settleOne(store, outcomeOf(lease, to)), "applied");
    }
  });

  test("a park settled again is applied; a park of a lost lease is lost", async ({ store, clock }) => {
    await add(store);
    const lease = await claimOne(store);
    await keepStep(store, waitFor(lease, "paid"));
    await park(store, lease);
    assert.equal(await settleOne(store, parkOutcome(lease)), "applied");
    await store.emit([eventOf("paid")]);
    const next = await claimOne(store);
    assert.equal(await settleOne(store, parkOutcome(lease)), "lost");
    await clock.advance(LEASE_MS);
    await claimOne(store);
    assert.equal(await settleOne(store, parkOutcome(next)), "lost");
  });

  test("a requested cancellation beats a park", async ({ store }) => {
    const id = await add(store);
    const lease = await claimOne(store);
    await keepStep(store, waitFor(lease, "paid"));
    await store.cancel([id]);
    assert.equal(await settleOne(store, parkOutcome(lease)), "cancelled");
    assert.equal(await stateOf(store, id), "cancelled");
    await store.emit([eventOf("paid")]);
    await assertNothingToClaim(store);
  });

  test("a parked job can be cancelled, removed and retried", async ({ store }) => {
    const cancelled = await parkedFor(store, "a", { queue: "q" });
    assert.deepEqual(await store.cancel([cancelled]), ["cancelled"]);
    await store.emit([eventOf("a")]);
    await assertNothingToClaim(store);
    assert.deepEqual(await store.retry([cancelled]), ["retried"]);
    assert.equal((await claimOne(store)).id, cancelled);
    assert.equal((await onlyStep(store, cancelled)).state, "done");
    const removed = await parkedFor(store, "b", { queue: "q" });
    assert.deepEqual(await store.remove([removed]), ["removed"]);
    await store.emit([eventOf("b")]);
    await assertNothingToClaim(store);
  });

  test("a wait times out in its job's next run; an event then is too late", async ({ store, clock }) => {
    const id = await add(store);
    const lease = await claimOne(store);
    const { until: end } = await keepStep(store, waitFor(lease, "paid", { forMs: SECOND }));
    await park(store, lease, end);
    await clock.advance(SECOND);
    const next = await claimOne(store);
    await keepStep(store, waitFor(next, "paid", { to: "done", topic: null }));
    await store.emit([eventOf("paid", "1")]);
    assert.deepEqual([(await onlyStep(store, id)).state, (await onlyStep(store, id)).value], ["done", null]);
  });

  test("an event that comes before the time-out is stored wins", async ({ store, clock }) => {
    const id = await add(store);
    const lease = await claimOne(store);
    const { until: end } = await keepStep(store, waitFor(lease, "paid", { forMs: SECOND }));
    await park(store, lease, end);
    await clock.advance(SECOND);
    const next = await claimOne(store);
    await store.emit([eventOf("paid", "1")]);
    assert.equal((await keepStep(store, waitFor(next, "paid", { to: "done", topic: null }))).value, "1");
    assert.equal((await onlyStep(store, id)).value, "1");
  });

  test("events are deleted when their time is over", async ({ store, clock }) => {
    await store.emit([eventOf("a", "1", SECOND), eventOf("b", "1", SECOND), eventOf("c", "1", DAY)]);
    assert.equal(await store.purgeEvents(10), 0);
    await clock.advance(MINUTE);
    const purged = (await store.purgeEvents(1)) + (await store.purgeEvents(10));
    // Or the database deletes them itself.
    assert.ok(purged === 2 || purged === 0, `purged ${purged}`);
    assert.deepEqual(await store.emit([eventOf("c")]), [{ first: false }]);
    assert.deepEqual(await store.emit([eventOf("a")]), [{ first: true }]);
  });

  test.needing(["transactions"], "an event in a transaction is emitted when it commits", async (scene) => {
    const { store } = scene;
    const id = await parkedFor(store, "paid", { queue: "q" });
    const rolledBack = await scene.begin();
    assert.deepEqual(await store.emitIn(rolledBack.tx, eventOf("paid", "1")), { first: true });
    await rolledBack.rollback();
    assert.equal((await onlyStep(store, id)).state, "waiting");
    const committed = await scene.begin();
    const emitted = store.emitIn(committed.tx, eventOf("paid", "2"));
    assert.equal(emitted instanceof Promise, !store.capabilities.synchronous);
    assert.deepEqual(await emitted, { first: true });
    await committed.commit();
    await store.repairWaits(100);
    assert.equal((await onlyStep(store, id)).value, "2");
    assert.equal((await claimOne(store)).id, id);
  });

  test("a child is inserted with its step, and its end wakes its parent", async ({ store, clock }) => {
    const { parent, child } = await parentAndChild(store, { user: "u1", input: '{"n":1}' });
    assert.deepEqual([child.parent, child.user, child.input], [parent.id, "u1", '{"n":1}']);
    assert.deepEqual(await store.openChildren([parent.id], 10), [child.id]);
    await park(store, parent);
    await clock.advance(SECOND);
    await finish(store, child, "completed", { output: '{"ok":1}' });
    const { state, value, endedAt } = await onlyStep(store, parent.id);
    assert.deepEqual([state, value, endedAt], ["done", '{"ok":1}', clock.now()]);
    assert.deepEqual(await store.openChildren([parent.id], 10), []);
    assert.equal((await claimOne(store)).id, parent.id);
  });

  test("a child of a lost lease is not inserted", async ({ store, clock }) => {
    await add(store);
    const old = await claimOne(store);
    await clock.advance(LEASE_MS);
    await claimOne(store);
    const child = newChild();
    const [result] = await store.saveSteps([childOf(old, child)]);
    assert.deepEqual(result, { status: "lost" });
    assert.equal(await store.get(child.id), null);
  });

  test("a child that is stored again is inserted once", async ({ store }) => {
    await add(store, { queue: "parents" });
    const parent = await claimOne(store, { queues: ["parents"] });
    const child = newChild();
    const first = await keepStep(store, childOf(parent, child));
    assert.deepEqual(await keepStep(store, childOf(parent, child)), first);
    assert.deepEqual(await claimIds(store, { queues: ["children"] }), [child.id]);
  });

  test("a child that the store refuses stores no step", async ({ store }) => {
    await add(store);
    const parent = await claimOne(store);
    const results = await store.saveSteps([childOf(parent, newChild({ maxAttempts: 0 })), stepOf(parent, "other")]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ["refused", "kept"],
    );
    assert.equal((await onlyStep(store, parent.id)).name, "other");
  });

  test("children that end badly fail the step of their parent", async ({ store, clock }) => {
    const ends: Record<string, (child: ClaimedJob) => Promise<unknown>> = {
      dead: (child) =>
        settleOne(store, failureOf(child, "no money", { to: "dead", error: { message: "no money", code: "E_PAY" } })),
      cancelled: (child) => settleOne(store, outcomeOf(child, "cancelled")),
      "cancelled on request": async (child) => {
        await store.cancel([child.id]);
        return settleOne(store, failureOf(child, "late"));
      },
      "dead by its last lease": async () => {
        await clock.advance(LEASE_MS);
        return store.reapExpiredLeases(10);
      },
    };
    for (const [how, end] of Object.entries(ends)) {
      const { parent, child } = await parentAndChild(store, how.includes("lease") ? { maxAttempts: 1 } : {});
      await store.start([{ ...child, startedAt: clock.now() }]);
      await store.extend([parent], 10 * LEASE_MS);
      await park(store, parent);
      await end(child);
      const { state, failure, value } = await onlyStep(store, parent.id);
      const ended = how.startsWith("dead") ? "dead" : "cancelled";
      assert.deepEqual([state, failure?.state, value], ["failed", ended, null], how);
      if (how === "dead") assert.deepEqual(failure, { message: "no money", code: "E_PAY", state: "dead" });
      const woken = await claimOne(store, { queues: ["parents"] });
      assert.equal(woken.id, parent.id, how);
      await finish(store, woken);
    }
  });

  test("waiting children that are cancelled, expired or removed fail the step", async ({ store, clock }) => {
    const ends: Record<string, (child: string) => Promise<unknown>> = {
      cancelled: (child) => store.cancel([child]),
      missing: (child) => store.remove([child]),
      dead: async () => {
        await clock.advance(MINUTE);
        return store.expireOverdue(10);
      },
    };
    for (const [state, end] of Object.entries(ends)) {
      await add(store, { queue: "parents" });
      const parent = await claimOne(store, { queues: ["parents"], leaseMs: DAY });
      const child = newChild({ expiresAt: state === "dead" ? clock.now() + SECOND : null });
      await keepStep(store, childOf(parent, child));
      await park(store, parent);
      await end(child.id);
      const step = await onlyStep(store, parent.id);
      assert.deepEqual([step.state, step.failure?.state], ["failed", state]);
      await finish(store, await claimOne(store, { queues: ["parents"] }));
    }
  });

  test("a child that is not kept hands over its output", async ({ store }) => {
    const { parent, child } = await parentAndChild(store);
    await park(store, parent);
    await settleOne(store, outcomeOf(child, "completed", { output: "7", keep: false, keepMs: 0 }));
    assert.equal(await store.get(child.id), null);
    assert.equal((await onlyStep(store, parent.id)).value, "7");
    assert.equal((await claimOne(store, { queues: ["parents"] })).id, parent.id);
  });

  test("a child that fails and is retried wakes its parent at its end only", async ({ store }) => {
    const { parent, child } = await parentAndChild(store);
    await park(store, parent);
    assert.equal(await settleOne(store, failureOf(child, "down")), "applied");
    assert.equal((await onlyStep(store, parent.id)).state, "waiting");
    const again = await claimOne(store);
    assert.equal(again.id, child.id);
    await finish(store, again);
    assert.equal((await claimOne(store)).id, parent.id);
  });

  test("a child that ends before its parent parks keeps it awake", async ({ store }) => {
    const { parent, child } = await parentAndChild(store);
    await finish(store, child, "completed", { output: "1" });
    assert.equal((await onlyStep(store, parent.id)).value, "1");
    assert.equal(await settleOne(store, parkOutcome(parent)), "awake");
    await finish(store, parent);
  });

  test("a failed step of a child waits again when it is reopened", async ({ store }) => {
    const { parent, child } = await parentAndChild(store);
    await finish(store, child, "dead", { error: { message: "down", code: null } });
    await finish(store, parent, "dead", { reopen: ["child"] });
    const step = await onlyStep(store, parent.id);
    assert.deepEqual([step.state, step.failure], ["waiting", null]);
    assert.ok(step.endedAt !== null, "it keeps the time when it failed");
    assert.equal(await store.repairWaits(100), 0);
    assert.deepEqual(await onlyStep(store, parent.id), step, "repairs leave it to the retry");
    assert.deepEqual(await store.retry([child.id]), ["retried"]);
    assert.deepEqual(await store.retry([parent.id]), ["retried"]);
    const resumed = await claimOne(store, { queues: ["parents"] });
    const again = await keepStep(store, childOf(resumed, newChild({ id: child.id })));
    assert.deepEqual([again.state, again.endedAt], ["waiting", null]);
    await park(store, resumed);
    await finish(store, await claimOne(store, { queues: ["children"] }), "completed", { output: "2" });
    assert.equal((await onlyStep(store, parent.id)).value, "2");
    assert.equal((await claimOne(store, { queues: ["parents"] })).id, parent.id);
  });

  for (const wake of ["last", "failure"] as const) {
    test(`a set of children wakes its parent at the ${wake === "last" ? "last end" : "first failure"}`, async ({
      store,
    }) => {
      await add(store, { queue: "parents" });
      const parent = await claimOne(store, { queues: ["parents"] });
      const children = Array.from({ length: 3 }, () => newChild());
      for (const [member, child] of children.entries())
        await keepStep(store, childOf(parent, child, { name: "all", member, wake }));
      await park(store, parent);
      const [first, second, third] = await claim(store, { queues: ["children"] });
      await finish(store, first as ClaimedJob);
      await assertNothingToClaim(store);
      await finish(store, second as ClaimedJob, "dead", { error: { message: "down", code: null } });
      assert.equal((await claimIds(store)).length, wake === "failure" ? 1 : 0);
      await finish(store, third as ClaimedJob);
      if (wake === "last") assert.deepEqual(await claimIds(store), [parent.id]);
      const states = (await stepsOf(store, parent.id)).map(({ state }) => state);
      assert.deepEqual(states.toSorted(), ["done", "done", "failed"]);
    });
  }

  test.live([], "no event is lost between a wait and its park", async (scene) => {
    const { store } = scene;
    const handles = await handlesOf(scene, 4);
    const rounds = Math.min(60, Math.ceil(scene.many / 100));
    for (let round = 0; round < rounds; round++) {
      const id = await add(store, { queue: "race" });
      const lease = await claimOne(store, { queues: ["race"], leaseMs: MINUTE });
      const event = `race ${round}`;
      const worker = (async () => {
        const step = await keepStep(store, waitFor(lease, event));
        if (step.state !== "waiting") return finish(store, lease);
        if ((await settleOne(store, parkOutcome(lease))) === "applied") return undefined;
        assert.equal((await onlyStep(store, id)).state, "done", "awake because the event came");
        return finish(store, lease);
      })();
      const other = handles[round % handles.length] ?? store;
      await Promise.all([worker, other.emit([eventOf(event)])]);
      await store.repairWaits(10);
      assert.equal((await onlyStep(store, id)).state, "done", event);
      if ((await stateOf(store, id)) === "completed") continue;
      const woken = await claimOne(store, { queues: ["race"] });
      assert.equal(woken.id, id);
      await finish(store, woken);
    }
  });

  test.live([], "the last of many children that end together wakes their parent once", async (scene) => {
    const { store } = scene;
    const handles = await handlesOf(scene, 4);
    await add(store, { queue: "parents" });
    const parent = await claimOne(store, { queues: ["parents"], leaseMs: DAY });
    const count = Math.min(200, scene.many / 20);
    const children = newJobs(count, { queue: "children", awaited: true });
    const results = await store.saveSteps(
      children.map((child, member) => childOf(parent, child, { name: "all", member })),
    );
    for (const { status } of results) assert.equal(status, "kept");
    await park(store, parent);
    await Promise.all(
      handles.map(async (handle) => {
        for (;;) {
          const jobs = await claim(handle, { queues: ["children"], limit: 7, leaseMs: DAY });
          if (jobs.length === 0) return;
          await Promise.all(jobs.map((job) => finish(handle, job)));
        }
      }),
    );
    const steps = await stepsOf(store, parent.id);
    assert.deepEqual([steps.length, steps.filter(({ state }) => state === "done").length], [count, count]);
    const woken = await until("the parent to be due", async () => (await claim(store, { queues: ["parents"] }))[0]);
    assert.equal(woken.id, parent.id);
    await finish(store, woken);
  });
}
