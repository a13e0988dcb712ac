import assert from "node:assert/strict";
import { isFinished, isLeased, isWaiting, STATE_NAMES } from "../../job/state.js";
import {
  add,
  assertNothingToClaim,
  claim,
  claimOne,
  failureOf,
  FINGERPRINT,
  finish,
  jobIn,
  LEASE_MS,
  MINUTE,
  outcomeOf,
  recordOf,
  SECOND,
  settleOne,
  stateOf,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

const UNKNOWN_ID = "00000000-0000-7000-8000-000000000000";

export function changeCases(test: DefineCase): void {
  test("C-07 cancel ends waiting jobs and signals leased ones", async ({ store, clock }) => {
    const ids = await Promise.all(STATE_NAMES.map((state) => jobIn(store, state)));
    await clock.advance(SECOND);
    const results = await store.cancel([...ids, UNKNOWN_ID]);
    for (const [index, state] of STATE_NAMES.entries()) {
      const expected = isWaiting(state) ? "cancelled" : isLeased(state) ? "requested" : "finished";
      assert.equal(results[index], expected, state);
      const record = await recordOf(store, ids[index] ?? "");
      assert.equal(record.state, isWaiting(state) ? "cancelled" : state);
      if (isFinished(state)) assert.equal(record.cancelRequestedAt, null);
      if (isLeased(state)) assert.equal(record.cancelRequestedAt, clock.now());
      if (isWaiting(state)) assert.deepEqual([record.finishedAt, record.dueAt], [clock.now(), null]);
    }
    assert.equal(results.at(-1), "missing");
    assert.deepEqual(await store.cancel([]), []);
  });

  test("C-07 a cancelled waiting job is never claimed", async ({ store, clock }) => {
    const id = await add(store, { delayMs: SECOND });
    assert.deepEqual(await store.cancel([id]), ["cancelled"]);
    assert.deepEqual(await store.cancel([id]), ["finished"]);
    await clock.advance(MINUTE);
    await assertNothingToClaim(store);
  });

  for (const to of ["failed", "pending", "dead"] as const) {
    test(`a requested cancellation overrides ${to}`, async ({ store, clock }) => {
      const id = await add(store);
      const job = await claimOne(store);
      await store.cancel([id]);
      const outcome = outcomeOf(job, to, { error: { message: "stopped", code: null } });
      assert.equal(await settleOne(store, outcome), "cancelled");
      assert.equal(await settleOne(store, outcome), "cancelled", "repeated");
      const record = await recordOf(store, id);
      assert.deepEqual([record.state, record.finishedAt, record.dueAt], ["cancelled", clock.now(), null]);
      await assertNothingToClaim(store);
    });
  }

  test("C-07 completed overrides a requested cancellation", async ({ store }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await store.cancel([id]);
    await finish(store, job, "completed", { output: `"done"` });
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.output], ["completed", `"done"`]);
  });

  test("the next claim reports a requested cancellation", async ({ store, clock }) => {
    const id = await add(store);
    await claimOne(store);
    await store.cancel([id]);
    await clock.advance(LEASE_MS);
    const job = await claimOne(store);
    assert.equal(job.cancelRequested, true);
    await finish(store, job, "cancelled");
    assert.equal(await stateOf(store, id), "cancelled");
  });

  test("completing a job reaped as cancelled returns lost", async (scene) => {
    const { store, clock } = scene;
    const id = await add(store);
    const job = await claimOne(store);
    await store.cancel([id]);
    await clock.advance(LEASE_MS);
    await store.reapExpiredLeases(10);
    assert.equal(await settleOne(store, outcomeOf(job, "completed")), "lost");
    assert.equal(await stateOf(store, id), "cancelled");
  });

  test("C-08 E-03 retry resets dead and cancelled jobs", async ({ store, clock }) => {
    for (const state of ["dead", "cancelled"] as const) {
      const id = await jobIn(store, state, { queue: state, maxAttempts: 1 });
      const before = await recordOf(store, id);
      await clock.advance(SECOND);
      assert.deepEqual(await store.retry([id]), ["retried"]);
      const record = await recordOf(store, id);
      assert.deepEqual(
        [record.state, record.attempt, record.losses, record.releases, record.finishedAt, record.dueAt, record.fence],
        ["pending", 0, 0, 0, null, clock.now(), before.fence],
      );
      assert.deepEqual([record.worker, record.claimedAt, record.startedAt], [null, null, null]);
      const job = await claimOne(store, { queues: [state] });
      assert.deepEqual([job.id, job.attempt, job.previous.exhausted], [id, 1, false]);
      assert.ok(job.fence > before.fence, "the fence continues");
    }
  });

  test("a retry removes the fingerprint of a dead job", async ({ store }) => {
    const [dead, failed] = [await add(store), await add(store)];
    const jobs = await claim(store);
    for (const job of jobs) {
      const to = job.id === dead ? "dead" : "failed";
      await settleOne(store, failureOf(job, "no", { to, delayMs: MINUTE }));
    }
    assert.deepEqual(await store.retry([dead, failed]), ["retried", "retried"]);
    assert.equal((await recordOf(store, dead)).error, null);
    assert.equal((await recordOf(store, failed)).error?.fingerprint, FINGERPRINT);
    const listed = await store.list({ fingerprint: FINGERPRINT }, { limit: 10, cursor: null });
    assert.deepEqual(
      listed.jobs.map(({ id }) => id),
      [failed],
    );
  });

  test("a retry clears the old cancellation request", async ({ store }) => {
    const id = await add(store);
    const first = await claimOne(store);
    await store.cancel([id]);
    await settleOne(store, outcomeOf(first, "cancelled"));
    assert.deepEqual(await store.retry([id]), ["retried"]);
    const second = await claimOne(store);
    assert.equal(second.cancelRequested, false);
    await finish(store, second, "failed");
    assert.equal(await stateOf(store, id), "failed");
  });

  test("C-08 retry makes a failed job due, keeps attempts", async ({ store, clock }) => {
    const id = await add(store);
    await settleOne(store, failureOf(await claimOne(store), "no", { delayMs: MINUTE }));
    await assertNothingToClaim(store);
    assert.deepEqual(await store.retry([id]), ["retried"]);
    const record = await recordOf(store, id);
    assert.deepEqual([isWaiting(record.state), record.dueAt, record.attempt], [true, clock.now(), 1]);
    assert.equal((await claimOne(store)).attempt, 2);
  });

  test("a retry clears the expiry of an expired job", async ({ store, clock }) => {
    const id = await add(store, { expiresAt: clock.now() + SECOND });
    await clock.advance(SECOND);
    await store.expireOverdue(10);
    assert.deepEqual(await store.retry([id]), ["retried"]);
    assert.deepEqual(await store.expireOverdue(10), []);
    const job = await claimOne(store);
    assert.ok(job.expiresAt === null || job.expiresAt > clock.now());
  });

  test("retry refuses waiting, running and completed jobs", async ({ store }) => {
    for (const state of ["pending", "claimed", "running", "completed"] as const) {
      const id = await jobIn(store, state);
      const before = await recordOf(store, id);
      assert.deepEqual(await store.retry([id]), ["not-retryable"], state);
      assert.deepEqual(await recordOf(store, id), before);
    }
    assert.deepEqual(await store.retry([UNKNOWN_ID]), ["missing"]);
    assert.deepEqual(await store.retry([]), []);
  });

  test("remove deletes jobs that are not leased, completely", async ({ store }) => {
    const ids = await Promise.all(
      STATE_NAMES.map((state) => jobIn(store, state, { tags: ["t"], user: "u", input: `"${"x".repeat(2_000)}"` })),
    );
    const results = await store.remove([...ids, UNKNOWN_ID]);
    for (const [index, state] of STATE_NAMES.entries()) {
      assert.equal(results[index], isLeased(state) ? "leased" : "removed", state);
      assert.equal((await store.get(ids[index] ?? "")) === null, !isLeased(state), state);
    }
    assert.equal(results.at(-1), "missing");
    const left = STATE_NAMES.filter(isLeased).length;
    assert.equal((await store.list({ tag: "t" }, { limit: 50, cursor: null })).jobs.length, left);
    assert.equal((await store.list({ user: "u" }, { limit: 50, cursor: null })).jobs.length, left);
    assert.deepEqual(await store.remove([]), []);
  });

  test("a reused id has no data of the removed job", async ({ store }) => {
    const id = await add(store, { input: `"${"x".repeat(2_000)}"`, tags: ["old"] });
    const job = await claimOne(store);
    await store.note([
      { ...job, progress: { fraction: 0.5, note: "half", data: null }, log: [{ at: 1, line: "old" }] },
    ]);
    await settleOne(store, failureOf(job, "old", { to: "dead" }));
    await store.remove([id]);
    await add(store, { id });
    const record = await recordOf(store, id);
    assert.deepEqual(
      [record.input, record.tags, record.progress, record.log, record.attempts, record.error, record.fence],
      ["{}", [], null, [], [], null, 0],
    );
  });

  for (const change of ["cancel", "retry", "remove"] as const) {
    test(`${change} with states skips jobs in other states`, async ({ store }) => {
      for (const state of STATE_NAMES) {
        const id = await jobIn(store, state);
        const others = STATE_NAMES.filter((other) => other !== state);
        assert.deepEqual(await store[change]([id], { states: others }), ["missing"], state);
        assert.deepEqual(await store[change]([id], { states: [] }), ["missing"], state);
        const record = await recordOf(store, id);
        assert.deepEqual([record.state, record.cancelRequestedAt], [state, null]);
        assert.notEqual((await store[change]([id], { states: [state] }))[0], "missing", state);
      }
    });
  }

  test("A-06 another user's job is not found", async ({ store }) => {
    const mine = { user: "me" };
    for (const state of ["pending", "failed", "dead"] as const) {
      const theirs = await jobIn(store, state, { user: "them" });
      const nobodys = await jobIn(store, state);
      for (const id of [theirs, nobodys]) {
        const before = await recordOf(store, id);
        assert.equal(await store.get(id, mine), null);
        assert.deepEqual(await store.cancel([id], mine), ["missing"]);
        assert.deepEqual(await store.retry([id], mine), ["missing"]);
        assert.deepEqual(await store.remove([id], mine), ["missing"]);
        assert.deepEqual(await recordOf(store, id), before);
      }
    }
  });

  test("A-06 a user can read and change their own jobs", async ({ store }) => {
    const mine = { user: "me" };
    const id = await add(store, { user: "me" });
    const theirs = await add(store, { user: "them" });
    assert.equal((await store.get(id, mine))?.id, id);
    assert.deepEqual(await store.cancel([theirs, id], mine), ["missing", "cancelled"]);
    assert.deepEqual(await store.retry([id, theirs], mine), ["retried", "missing"]);
    const job = (await claim(store)).find((claimed) => claimed.id === id);
    assert.ok(job !== undefined, "the retried job is due");
    assert.deepEqual(await store.cancel([id], mine), ["requested"]);
    assert.deepEqual(await store.remove([id], mine), ["leased"]);
    await finish(store, job);
    assert.deepEqual(await store.remove([theirs, id], mine), ["missing", "removed"]);
    assert.equal(await store.get(id), null);
  });
}
