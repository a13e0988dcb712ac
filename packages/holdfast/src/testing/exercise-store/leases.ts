import assert from "node:assert/strict";
import { STALE_FINGERPRINT } from "../../job/fingerprint.js";
import { STALE_ERROR } from "../../job/state.js";
import {
  add,
  addAll,
  assertNothingToClaim,
  claim,
  claimOne,
  failureOf,
  finish,
  jobIn,
  leaseOf,
  LEASE_MS,
  newJobs,
  outcomeOf,
  recordOf,
  SECOND,
  settleOne,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

export function leaseCases(test: DefineCase): void {
  test("A-10 start sets a leased job to running", async ({ store, clock }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await clock.advance(SECOND);
    assert.deepEqual(await store.start([{ id, fence: job.fence, startedAt: clock.now() - 200 }]), ["kept"]);
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.startedAt], ["running", clock.now() - 200]);
    assert.equal(record.dueAt, clock.now() - SECOND + LEASE_MS, "start does not change the end of the lease");
  });

  test("repeating start keeps the first start time", async ({ store }) => {
    const id = await add(store);
    const mark = { id, fence: (await claimOne(store)).fence, startedAt: 5 };
    assert.deepEqual(await store.start([mark]), ["kept"]);
    assert.deepEqual(await store.start([{ ...mark, startedAt: 9 }]), ["kept"]);
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.startedAt], ["running", 5]);
  });

  test("C-02 extend delays the next claim of the job", async ({ store, clock }) => {
    const id = await add(store);
    const job = await claimOne(store);
    for (let round = 0; round < 3; round++) {
      await clock.advance(LEASE_MS - SECOND);
      assert.deepEqual(await store.extend([job], LEASE_MS), ["kept"]);
      assert.equal((await recordOf(store, id)).dueAt, clock.now() + LEASE_MS);
    }
    await assertNothingToClaim(store);
    assert.equal((await recordOf(store, id)).attempt, 1);
    await clock.advance(LEASE_MS);
    assert.equal((await claim(store)).length, 1);
  });

  test("start and extend return lost for unknown jobs", async ({ store }) => {
    const [first, second] = (await addAll(store, newJobs(2)).then(() => claim(store))).map((job) => ({
      id: job.id,
      fence: job.fence,
      startedAt: 0,
    }));
    assert.ok(first !== undefined && second !== undefined);
    const unknown = { ...first, id: "00000000-0000-7000-8000-000000000000" };
    const old = { ...second, fence: second.fence - 1 };
    const ahead = { ...second, fence: second.fence + 1 };
    assert.deepEqual(await store.start([unknown, first, old, ahead]), ["lost", "kept", "lost", "lost"]);
    assert.deepEqual(await store.extend([old, unknown, second, ahead], LEASE_MS), ["lost", "lost", "kept", "lost"]);
    assert.deepEqual(await store.start([]), []);
    assert.deepEqual(await store.extend([], LEASE_MS), []);
    assert.equal((await recordOf(store, second.id)).state, "claimed");
  });

  test("C-02 an expired lease is claimable with a higher fence", async ({ store, clock }) => {
    const id = await add(store);
    const first = await claimOne(store, { worker: "w1" });
    await clock.advance(LEASE_MS - 1);
    await assertNothingToClaim(store);
    await clock.advance(1);
    const second = await claimOne(store, { worker: "w2" });
    assert.equal(second.id, id);
    assert.ok(second.fence > first.fence, "fences increase");
    assert.equal((await recordOf(store, id)).worker, "w2");
  });

  test("every claim increases the fence", async ({ store, clock }) => {
    const id = await add(store, { maxAttempts: 10 });
    const fences: number[] = [];
    const claimAgain = async (): ReturnType<typeof claimOne> => {
      const job = await claimOne(store);
      fences.push(job.fence);
      return job;
    };
    await claimAgain();
    await clock.advance(LEASE_MS);
    await finish(store, await claimAgain(), "failed");
    await finish(store, await claimAgain(), "pending");
    await finish(store, await claimAgain(), "dead");
    await store.retry([id]);
    await claimAgain();
    await clock.advance(LEASE_MS);
    await store.reapExpiredLeases(10);
    await claimAgain();
    assert.ok(
      fences.every((fence, index) => index === 0 || fence > (fences[index - 1] ?? fence)),
      `${fences.join(", ")} should grow`,
    );
  });

  test("calls with an old fence return lost, change nothing", async ({ store, clock }) => {
    const id = await add(store);
    const old = await claimOne(store, { worker: "slow" });
    await clock.advance(LEASE_MS);
    const held = await claimOne(store, { worker: "next" });
    const before = await recordOf(store, id);
    await clock.advance(SECOND);
    assert.deepEqual(await store.start([{ ...old, startedAt: 1 }]), ["lost"]);
    assert.deepEqual(await store.extend([old], 10 * LEASE_MS), ["lost"]);
    for (const to of ["completed", "failed", "dead", "cancelled", "pending"] as const) {
      const outcome = outcomeOf(old, to, { output: `"late"`, error: { message: "late", code: null } });
      assert.equal(await settleOne(store, outcome), "lost", to);
    }
    assert.deepEqual(await recordOf(store, id), before);
    await finish(store, held);
  });

  test("an old fence stays lost in every later state", async ({ store, clock }) => {
    for (const state of ["failed", "pending", "completed", "dead", "cancelled", "reaped"] as const) {
      await add(store, { queue: state });
      const old = await claimOne(store, { queues: [state] });
      await clock.advance(LEASE_MS);
      if (state === "reaped") await store.reapExpiredLeases(10);
      else await finish(store, await claimOne(store, { queues: [state] }), state);
      const before = await recordOf(store, old.id);
      assert.deepEqual(await store.start([{ ...old, startedAt: 1 }]), ["lost"], `start, ${state}`);
      assert.deepEqual(await store.extend([old], LEASE_MS), ["lost"], `extend, ${state}`);
      assert.equal(await settleOne(store, outcomeOf(old, "completed")), "lost", `settle, ${state}`);
      assert.deepEqual(await recordOf(store, old.id), before);
    }
  });

  test("accepts a late outcome until the next claim", async ({ store, clock }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await clock.advance(2 * LEASE_MS);
    await finish(store, job, "completed", { output: `"late but first"` });
    assert.equal((await recordOf(store, id)).output, `"late but first"`);
    await assertNothingToClaim(store);
  });

  test("an expired lease is extendable until the next claim", async ({ store, clock }) => {
    await add(store);
    const job = await claimOne(store);
    await clock.advance(2 * LEASE_MS);
    assert.deepEqual(await store.extend([job], LEASE_MS), ["kept"]);
    await assertNothingToClaim(store);
    await clock.advance(LEASE_MS);
    assert.equal((await claim(store)).length, 1);
  });

  test("A-35 a lease expired while running uses its attempt", async ({ store, clock }) => {
    const id = await jobIn(store, "running", { queue: "q" });
    const claimedAt = clock.now();
    await clock.advance(LEASE_MS);
    const job = await claimOne(store, { queues: ["q"], worker: "w2" });
    assert.deepEqual([job.attempt, job.losses], [2, 1]);
    assert.deepEqual(job.previous, { state: "running", attempt: 1, exhausted: false });
    const record = await recordOf(store, id);
    assert.deepEqual(record.error, { ...STALE_ERROR, at: clock.now(), fingerprint: STALE_FINGERPRINT });
    assert.equal(record.attempts.length, 1);
    const [lost] = record.attempts;
    assert.deepEqual(
      [lost?.attempt, lost?.worker, lost?.claimedAt, lost?.startedAt, lost?.error?.message, lost?.error?.code],
      [1, "w1", claimedAt, 0, STALE_ERROR.message, STALE_ERROR.code],
    );
    assert.equal(record.startedAt, null, "the new attempt has not started");
  });

  test("does not count the first lease expired while claimed", async ({ store, clock }) => {
    const id = await add(store, { maxAttempts: 2 });
    assert.equal((await claimOne(store)).attempt, 1);
    await clock.advance(LEASE_MS);
    const second = await claimOne(store);
    assert.deepEqual([second.attempt, second.losses, second.previous.attempt], [1, 1, 0]);
    await clock.advance(LEASE_MS);
    const third = await claimOne(store);
    assert.deepEqual([third.attempt, third.losses, third.previous.attempt], [2, 2, 1]);
    assert.equal((await recordOf(store, id)).attempts.length, 2);
  });

  test("claims a job without attempts left as exhausted", async (scene) => {
    const { store, clock } = scene;
    const id = await jobIn(store, "running", { queue: "q", maxAttempts: 1 });
    await clock.advance(LEASE_MS);
    const job = await claimOne(store, { queues: ["q"] });
    assert.deepEqual([job.attempt, job.maxAttempts], [1, 1]);
    assert.deepEqual(job.previous, { state: "running", attempt: 1, exhausted: true });
    await finish(store, job, "dead", { attempt: job.previous.attempt, error: STALE_ERROR });
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.attempt, record.error?.message], ["dead", 1, STALE_ERROR.message]);
  });

  test("a claim returns the previous state, attempts and error", async ({ store, clock }) => {
    await add(store);
    const first = await claimOne(store);
    await settleOne(store, failureOf(first, "no route"));
    const failedAt = clock.now();
    await clock.advance(SECOND);
    const second = await claimOne(store);
    assert.deepEqual(second.previous, { state: "failed", attempt: 1, exhausted: false });
    assert.deepEqual(second.error, { message: "no route", code: "E_TEST", at: failedAt });
    assert.deepEqual([second.attempt, second.losses], [2, 0]);
  });

  test("removing a reaped job makes its old lease lost", async ({ store, clock }) => {
    const id = await add(store);
    const old = await claimOne(store);
    await clock.advance(LEASE_MS);
    await store.reapExpiredLeases(10);
    assert.deepEqual(await store.remove([id]), ["removed"]);
    assert.deepEqual(await store.extend([old], LEASE_MS), ["lost"]);
    assert.deepEqual(await store.start([{ ...old, startedAt: 0 }]), ["lost"]);
    assert.equal(await settleOne(store, outcomeOf(old, "completed")), "lost");
    assert.equal(await store.get(id), null);
  });

  test("C-07 start and extend report a requested cancellation", async ({ store }) => {
    const id = await jobIn(store, "claimed");
    assert.deepEqual(await store.cancel([id]), ["requested"]);
    const lease = await leaseOf(store, id);
    assert.deepEqual(await store.extend([lease], LEASE_MS), ["cancel"]);
    assert.deepEqual(await store.start([{ ...lease, startedAt: 0 }]), ["cancel"]);
    assert.deepEqual(await store.extend([{ ...lease, fence: lease.fence - 1 }], LEASE_MS), ["lost"]);
  });
}
