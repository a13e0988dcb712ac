import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import {
  add,
  assertNothingToClaim,
  claimOne,
  failureOf,
  finish,
  key,
  LEASE_MS,
  insertOne,
  newJob,
  outcomeOf,
  recordOf,
  SECOND,
  settleOne,
  stateOf,
} from "./builders.js";
import type { DefineCase } from "./scene.js";
import { keepStep, onlyStep, park, parkedFor, saveStep, stepOf, stepsOf, waitFor } from "./step-builders.js";

export function stepCases(test: DefineCase): void {
  test("steps are stored and returned in their order", async ({ store, clock }) => {
    const id = await add(store);
    const lease = await claimOne(store);
    assert.deepEqual(await stepsOf(store, id), []);
    const results = await store.saveSteps([
      stepOf(lease, "second", { order: 1, value: null }),
      stepOf(lease, "first", { order: 0, value: '{"n":12345678901234567890}' }),
    ]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ["kept", "kept"],
    );
    const steps = await stepsOf(store, id);
    assert.deepEqual(
      steps.map(({ name, value }) => [name, value]),
      [
        ["first", '{"n":12345678901234567890}'],
        ["second", null],
      ],
    );
    assert.deepEqual(steps[0], {
      name: "first",
      member: 0,
      order: 0,
      kind: "run",
      state: "done",
      fence: 1,
      tries: 0,
      topic: null,
      value: '{"n":12345678901234567890}',
      failure: null,
      startedAt: clock.now(),
      endedAt: clock.now(),
      until: null,
    });
  });

  test("a job that does not exist has no steps", async ({ store }) => {
    assert.deepEqual(await stepsOf(store, "018f4d2e-7b3a-7c11-8a55-00000000000a"), []);
  });

  test("a step that has ended is not changed, and is returned", async ({ store, clock }) => {
    await add(store);
    const lease = await claimOne(store);
    const first = await keepStep(store, stepOf(lease, "pay", { value: '"first"' }));
    await clock.advance(SECOND);
    assert.deepEqual(await keepStep(store, stepOf(lease, "pay", { value: '"second"' })), first);
    const failed = { to: "failed", value: null, failure: { message: "late", code: null } } as const;
    assert.deepEqual(await keepStep(store, stepOf(lease, "pay", failed)), first);
    assert.deepEqual(await onlyStep(store, lease.id), first);
  });

  test("a failed step keeps its failure", async ({ store }) => {
    await add(store);
    const lease = await claimOne(store);
    const failure = { message: "card\u0000 declined 🧵", code: "E_CARD" };
    await keepStep(store, stepOf(lease, "pay", { to: "failed", value: null, failure, tries: 3 }));
    const { state, failure: stored, tries, value } = await onlyStep(store, lease.id);
    assert.deepEqual([state, stored, tries, value], ["failed", failure, 3, null]);
  });

  test("a step of a lost lease is refused, and nothing is written", async ({ store, clock }) => {
    const id = await add(store);
    const old = await claimOne(store);
    await clock.advance(LEASE_MS);
    const lease = await claimOne(store);
    assert.deepEqual(await saveStep(store, stepOf(old, "pay")), { status: "lost" });
    assert.deepEqual(await stepsOf(store, id), []);
    await keepStep(store, stepOf(lease, "pay", { value: '"new"' }));
    assert.deepEqual(await saveStep(store, stepOf(old, "pay", { value: '"old"' })), { status: "lost" });
    await finish(store, lease);
    assert.deepEqual(await saveStep(store, stepOf(lease, "later")), { status: "lost" });
    assert.equal((await onlyStep(store, id)).value, '"new"');
  });

  test("a lease that has expired still stores steps until it is claimed again", async ({ store, clock }) => {
    await add(store);
    const lease = await claimOne(store);
    await clock.advance(2 * LEASE_MS);
    await keepStep(store, stepOf(lease, "late"));
  });

  test("each step of a batch has its own result", async ({ store }) => {
    await add(store);
    await add(store);
    const [first, second] = [await claimOne(store), await claimOne(store)];
    const results = await store.saveSteps([
      stepOf(first, "a"),
      stepOf({ id: second.id, fence: 99 }, "a"),
      stepOf(second, "b"),
    ]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ["kept", "lost", "kept"],
    );
  });

  test("values and names of the largest size are kept", async ({ store }) => {
    await add(store);
    const lease = await claimOne(store);
    const value = `"${"x".repeat(LIMITS.payloadBytes - 2)}"`;
    const name = "é".repeat(LIMITS.stepNameLength);
    await keepStep(store, stepOf(lease, name, { value }));
    const step = await onlyStep(store, lease.id);
    assert.ok(step.name === name && step.value === value);
  });

  test("a thousand steps of a job are returned in order", async ({ store }) => {
    const id = await add(store);
    const lease = await claimOne(store);
    for (let from = 0; from < LIMITS.steps; from += 250) {
      const writes = Array.from({ length: 250 }, (_, at) =>
        stepOf(lease, `step ${from + at}`, { order: from + at, value: `${from + at}` }),
      );
      for (const { status } of await store.saveSteps(writes)) assert.equal(status, "kept");
    }
    const steps = await stepsOf(store, id);
    assert.deepEqual(
      steps.map(({ value }) => Number(value)),
      Array.from({ length: LIMITS.steps }, (_, at) => at),
    );
  });

  test("a requested cancellation is reported with the stored step", async ({ store }) => {
    const id = await add(store);
    const lease = await claimOne(store);
    assert.deepEqual(await store.cancel([id]), ["requested"]);
    assert.equal((await saveStep(store, stepOf(lease, "pay"))).status, "cancel");
    assert.equal((await onlyStep(store, id)).state, "done");
  });

  test("steps stay through retries, lost leases and releases", async ({ store, clock }) => {
    const id = await add(store);
    let lease = await claimOne(store);
    await keepStep(store, stepOf(lease, "one"));
    assert.equal(await settleOne(store, failureOf(lease, "down")), "applied");
    lease = await claimOne(store);
    await finish(store, lease, "pending");
    lease = await claimOne(store);
    await clock.advance(LEASE_MS);
    lease = await claimOne(store);
    await finish(store, lease, "dead", { error: { message: "gave up", code: null } });
    assert.deepEqual(await store.retry([id]), ["retried"]);
    lease = await claimOne(store);
    assert.equal((await onlyStep(store, id)).state, "done");
    await finish(store, lease);
    assert.equal((await onlyStep(store, id)).value, '"done"');
  });

  test("a failed attempt reopens the steps that it names", async ({ store }) => {
    const id = await add(store);
    const lease = await claimOne(store);
    const failure = { message: "down", code: null };
    await keepStep(store, stepOf(lease, "kept", { order: 0, to: "failed", value: null, failure }));
    await keepStep(store, stepOf(lease, "reopened", { order: 1, to: "failed", value: null, failure }));
    await keepStep(store, stepOf(lease, "done", { order: 2 }));
    assert.equal(await settleOne(store, failureOf(lease, "down", { reopen: ["reopened", "done", "none"] })), "applied");
    assert.deepEqual(
      (await stepsOf(store, id)).map(({ name, state }) => [name, state]),
      [
        ["kept", "failed"],
        ["done", "done"],
      ],
    );
  });

  test("purge, remove and settling without keeping delete the steps", async ({ store, clock }) => {
    for (const [how, drop] of [
      [
        "purged",
        async () => void (await store.purge({ state: "completed", before: clock.now() + 1, keep: null, limit: 10 })),
      ],
      ["removed", async (id: string) => void (await store.remove([id]))],
    ] as const) {
      const id = await add(store);
      const lease = await claimOne(store);
      await keepStep(store, stepOf(lease, how));
      await keepStep(store, waitFor(lease, how));
      await finish(store, lease);
      await clock.advance(SECOND);
      await drop(id);
      assert.equal(await store.get(id), null);
      assert.deepEqual(await stepsOf(store, id), [], how);
    }
    const id = await add(store);
    const lease = await claimOne(store);
    await keepStep(store, stepOf(lease, "dropped"));
    assert.equal(await settleOne(store, outcomeOf(lease, "completed", { keep: false, keepMs: 0 })), "applied");
    assert.deepEqual(await stepsOf(store, id), []);
    // A job that uses the id again begins without steps.
    await add(store, { id });
    assert.deepEqual(await stepsOf(store, id), []);
  });

  test("a job with steps is not replaced by another of its key", async ({ store }) => {
    const holder = await parkedFor(store, "paid", { unique: key("k"), queue: "q" });
    const other = newJob({ unique: key("k", { onConflict: "replace" }), input: '"new"' });
    assert.deepEqual(await insertOne(store, other), { status: "duplicate", of: holder, replaced: false });
    assert.equal((await recordOf(store, holder)).input, "{}");
  });

  test("an update and a promotion of a parked job make it due", async ({ store, clock }) => {
    const id = await parkedFor(store, "paid", { queue: "q" });
    await assertNothingToClaim(store);
    assert.deepEqual(await store.update([{ id, due: { runAt: null, delayMs: 0 } }]), [{ status: "updated" }]);
    const lease = await claimOne(store);
    assert.equal(lease.id, id);
    assert.equal((await onlyStep(store, id)).state, "waiting");
    await park(store, lease, clock.now() + SECOND);
    assert.equal((await recordOf(store, id)).dueAt, clock.now() + SECOND);
  });

  test.needing(["transactions"], "a step in a transaction is stored when it commits", async (scene) => {
    const { store } = scene;
    const id = await add(store);
    const lease = await claimOne(store);
    const rolledBack = await scene.begin();
    assert.equal((await store.saveStepIn(rolledBack.tx, stepOf(lease, "book"))).status, "kept");
    await rolledBack.rollback();
    assert.deepEqual(await stepsOf(store, id), []);
    const committed = await scene.begin();
    const saved = store.saveStepIn(committed.tx, stepOf(lease, "book", { value: "7" }));
    assert.equal(saved instanceof Promise, !store.capabilities.synchronous);
    assert.equal((await saved).status, "kept");
    await committed.commit();
    assert.equal((await onlyStep(store, id)).value, "7");
    await finish(store, lease);
    assert.equal((await onlyStep(store, id)).value, "7");
  });

  test.needing(["transactions"], "a step in a transaction is refused after the lease is lost", async (scene) => {
    const { store, clock } = scene;
    const id = await add(store);
    const old = await claimOne(store);
    await clock.advance(LEASE_MS);
    await claimOne(store);
    const transaction = await scene.begin();
    assert.deepEqual(await store.saveStepIn(transaction.tx, stepOf(old, "book")), { status: "lost" });
    await transaction.commit();
    assert.deepEqual(await stepsOf(store, id), []);
    assert.equal(await stateOf(store, id), "claimed");
  });
}
