import assert from "node:assert/strict";
import { STALE_FINGERPRINT } from "../../job/fingerprint.js";
import { EXPIRED_ERROR, isWaiting, STALE_ERROR } from "../../job/state.js";
import type { Store } from "../../store.js";
import {
  add,
  addAll,
  assertNothingToClaim,
  claim,
  claimOne,
  failureOf,
  finish,
  jobIn,
  LEASE_MS,
  MINUTE,
  newJobs,
  recordOf,
  SECOND,
  settleOne,
  stateOf,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

export function maintenanceCases(test: DefineCase): void {
  test("A-03 A-13 A-32 E-04 expired leases become pending, due now", async ({ store, clock }) => {
    const ids = [await jobIn(store, "running"), await jobIn(store, "running")];
    await clock.advance(LEASE_MS);
    const reaped = await store.reapExpiredLeases(10);
    assert.deepEqual(reaped.map((job) => job.id).toSorted(), ids.toSorted());
    for (const { id, to, type, queue } of reaped) {
      const record = await recordOf(store, id);
      assert.ok(isWaiting(record.state), "it waits again");
      assert.deepEqual([to, type, queue], [record.state, record.type, record.queue]);
      assert.ok(record.dueAt !== null && record.dueAt <= clock.now(), "it is due now, without backoff");
      assert.deepEqual([record.attempt, record.losses], [1, 1]);
      assert.deepEqual(record.error, { ...STALE_ERROR, at: clock.now(), fingerprint: STALE_FINGERPRINT });
      assert.deepEqual(
        record.attempts.map((attempt) => [attempt.attempt, attempt.error?.message]),
        [[1, "Job timed out (stale claim)"]],
      );
      assert.equal((await claimOne(store, { queues: [queue] })).attempt, 2);
    }
    assert.deepEqual(await store.reapExpiredLeases(10), []);
  });

  test("A-32 an expired lease without attempts left is dead", async ({ store, clock }) => {
    const id = await jobIn(store, "running", { maxAttempts: 1 });
    await clock.advance(LEASE_MS);
    const [reaped] = await store.reapExpiredLeases(10);
    assert.deepEqual([reaped?.id, reaped?.to], [id, "dead"]);
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.attempt, record.dueAt, record.finishedAt], ["dead", 1, null, clock.now()]);
    assert.equal(record.error?.message, "Job timed out (stale claim)");
    assert.equal(record.error?.fingerprint, STALE_FINGERPRINT);
    await assertNothingToClaim(store);
  });

  test("reaping counts attempts like a claim", async (scene) => {
    const { store, clock } = scene;
    const id = await add(store, { maxAttempts: 1 });
    await claimOne(store);
    await clock.advance(LEASE_MS);
    assert.equal((await store.reapExpiredLeases(10)).length, 1);
    assert.equal((await recordOf(store, id)).attempt, 0);
    assert.deepEqual((await claimOne(store)).previous.attempt, 0);
    await clock.advance(LEASE_MS);
    assert.deepEqual(
      (await store.reapExpiredLeases(10)).map((job) => job.to),
      ["dead"],
    );
  });

  test("an expired lease with a requested cancellation is cancelled", async ({ store, clock }) => {
    const id = await jobIn(store, "running");
    await store.cancel([id]);
    await clock.advance(LEASE_MS);
    assert.deepEqual(
      (await store.reapExpiredLeases(10)).map((job) => job.to),
      ["cancelled"],
    );
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.dueAt, record.finishedAt], ["cancelled", null, clock.now()]);
    assert.equal(record.error?.fingerprint, STALE_FINGERPRINT);
  });

  test("does not reap held leases or overdue waiting jobs", async ({ store, clock }) => {
    await add(store, { queue: "waiting" });
    await clock.advance(10 * LEASE_MS);
    await jobIn(store, "claimed");
    await jobIn(store, "running");
    await clock.advance(LEASE_MS - 1);
    assert.deepEqual(await store.reapExpiredLeases(10), []);
  });

  test("reaps at most the limit per call", async ({ store, clock }) => {
    await addAll(store, newJobs(5));
    await claim(store);
    await clock.advance(LEASE_MS);
    const rounds = [
      await store.reapExpiredLeases(2),
      await store.reapExpiredLeases(2),
      await store.reapExpiredLeases(2),
    ];
    assert.deepEqual(
      rounds.map((round) => round.length),
      [2, 2, 1],
    );
    assert.equal(new Set(rounds.flat().map((job) => job.id)).size, 5);
  });

  test("reaps expired leases of a paused queue", async ({ store, clock }) => {
    await jobIn(store, "running", { queue: "paused" });
    await store.pause("paused");
    await clock.advance(LEASE_MS);
    assert.equal((await store.reapExpiredLeases(10)).length, 1);
    await assertNothingToClaim(store);
  });

  test("A-34 an expired waiting job is dead-lettered without running", async ({ store, clock }) => {
    const id = await add(store, { expiresAt: clock.now() + MINUTE, delayMs: 10 * MINUTE });
    await clock.advance(MINUTE - 1);
    assert.deepEqual(await store.expireOverdue(10), []);
    await clock.advance(1);
    assert.deepEqual(await store.expireOverdue(10), [{ id, type: "mail", queue: "default", attempt: 0, to: "dead" }]);
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.attempt, record.dueAt, record.finishedAt], ["dead", 0, null, clock.now()]);
    assert.deepEqual(record.error, { ...EXPIRED_ERROR, at: clock.now(), fingerprint: null });
    await clock.advance(10 * MINUTE);
    await assertNothingToClaim(store);
  });

  test("A-34 a failed job expires, a leased one does not", async ({ store, clock }) => {
    const expiresAt = clock.now() + SECOND;
    const failed = await add(store, { queue: "failed", expiresAt });
    await settleOne(store, failureOf(await claimOne(store, { queues: ["failed"] }), "first"));
    const leased = [await jobIn(store, "claimed", { expiresAt }), await jobIn(store, "running", { expiresAt })];
    const unlimited = await add(store);
    await clock.advance(2 * SECOND);
    assert.deepEqual(
      (await store.expireOverdue(10)).map((job) => job.id),
      [failed],
    );
    assert.equal((await recordOf(store, failed)).attempt, 1);
    assert.equal((await recordOf(store, failed)).error?.fingerprint, null, "the error of the failure is replaced");
    assert.equal(await stateOf(store, unlimited), "pending");
    for (const id of leased) assert.ok(["claimed", "running"].includes(await stateOf(store, id)));
  });

  test("expires at most the limit per call", async ({ store, clock }) => {
    await addAll(store, newJobs(5, { expiresAt: clock.now() + SECOND }));
    await clock.advance(SECOND);
    const counts = [await store.expireOverdue(3), await store.expireOverdue(3)].map((round) => round.length);
    assert.deepEqual(counts, [3, 2]);
  });

  test("B-16 purge by age deletes only older finished jobs", async ({ store, clock }) => {
    const old = await jobIn(store, "completed");
    const oldDead = await jobIn(store, "dead");
    await clock.advance(MINUTE);
    const young = await jobIn(store, "completed");
    assert.equal(await purge(store, { before: clock.now() }), 1);
    assert.equal(await store.get(old), null);
    assert.equal(await stateOf(store, young), "completed");
    assert.equal(await stateOf(store, oldDead), "dead");
    assert.equal(await purge(store, { before: clock.now() }), 0);
  });

  test("B-16 purge never deletes waiting or leased jobs", async ({ store, clock }) => {
    const live = await Promise.all(
      (["pending", "failed", "claimed", "running"] as const).map((state) => jobIn(store, state)),
    );
    await clock.advance(1_000 * MINUTE);
    for (const state of ["completed", "dead", "cancelled"] as const) {
      assert.equal(await store.purge({ state, before: clock.now(), keep: null, limit: 100 }), 0);
      assert.equal(await store.purge({ state, before: null, keep: 0, limit: 100 }), 0);
    }
    for (const id of live) assert.ok((await store.get(id)) !== null);
  });

  test("purge by number keeps the newest jobs", async ({ store, clock }) => {
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) {
      ids.push(await jobIn(store, "cancelled"));
      await clock.advance(SECOND);
    }
    assert.equal(await store.purge({ state: "cancelled", before: null, keep: 2, limit: 100 }), 3);
    assert.deepEqual(await present(store, ids), ids.slice(3));
    assert.equal(await store.purge({ state: "cancelled", before: null, keep: 2, limit: 100 }), 0);
  });

  test("purge deletes oldest first, up to its limit", async ({ store, clock }) => {
    const ids: string[] = [];
    for (let count = 0; count < 5; count++) {
      ids.push(await jobIn(store, "completed", { input: `"${"x".repeat(2_000)}"`, tags: ["t"] }));
      await clock.advance(SECOND);
    }
    assert.equal(await purge(store, { before: clock.now(), limit: 2 }), 2);
    assert.deepEqual(await present(store, ids), ids.slice(2));
    assert.equal(await store.purge({ state: "completed", before: null, keep: 1, limit: 1 }), 1);
    assert.deepEqual(await present(store, ids), ids.slice(3));
    assert.equal((await store.list({ tag: "t" }, { limit: 10, cursor: null })).jobs.length, 2);
  });

  test("one caller per interval acquires a duty", async ({ store, clock }) => {
    const asked = await Promise.all(Array.from({ length: 10 }, () => store.tryAcquireDuty("purge", MINUTE)));
    assert.equal(asked.filter(Boolean).length, 1);
    await clock.advance(MINUTE - 1);
    assert.equal(await store.tryAcquireDuty("purge", MINUTE), false);
    assert.equal(await store.tryAcquireDuty("expire", MINUTE), true, "duties of different names are independent");
    await clock.advance(1);
    assert.equal(await store.tryAcquireDuty("purge", MINUTE), true);
    assert.equal(await store.tryAcquireDuty("purge", MINUTE), false);
  });

  test.needing(["another handle"], "a duty is acquired once over all handles", async ({ store, again, clock }) => {
    const handles = [store, await again(), await again()];
    for (let round = 0; round < 3; round++) {
      const asked = await Promise.all(handles.map((handle) => handle.tryAcquireDuty("purge", MINUTE)));
      assert.equal(asked.filter(Boolean).length, 1);
      await clock.advance(MINUTE);
    }
  });

  test("maintenance is safe at any time", async ({ store }) => {
    await store.maintain();
    const id = await add(store, { queue: "q", priority: 3 });
    await store.maintain();
    const job = await claimOne(store);
    await store.maintain();
    await finish(store, job);
    await store.maintain();
    assert.equal(await stateOf(store, id), "completed");
    await add(store, { queue: "q", priority: 3 });
    assert.equal((await claim(store)).length, 1);
  });

  test("maintenance keeps retryable jobs and pauses", async ({ store }) => {
    const dead = await jobIn(store, "dead", { queue: "q", priority: 3 });
    await store.pause("paused");
    await store.maintain();
    await store.retry([dead]);
    assert.equal((await claimOne(store)).id, dead);
    await add(store, { queue: "paused", priority: 3 });
    await assertNothingToClaim(store);
  });
}

function purge(store: Store, request: { before: number; limit?: number }): Promise<number> {
  return store.purge({ state: "completed", keep: null, limit: 100, ...request });
}

async function present(store: Store, ids: readonly string[]): Promise<string[]> {
  const found = await Promise.all(ids.map((id) => store.get(id)));
  return ids.filter((_, index) => found[index] !== null);
}
