import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import { isState, TRANSITIONS, type State } from "../../job/state.js";
import type { ClaimedJob, Outcome, Store } from "../../store.js";
import {
  add,
  addAll,
  assertNothingToClaim,
  attemptRecord,
  claim,
  claimIds,
  claimOne,
  failureOf,
  FINGERPRINT,
  finish,
  insertOne,
  jobIn,
  key,
  LEASE_MS,
  MINUTE,
  newJob,
  newJobs,
  outcomeOf,
  recordOf,
  SECOND,
  settleAll,
  settleOne,
  stateOf,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

export function settleCases(test: DefineCase): void {
  test("A-11 C-02 completed stores the output, ends the lease", async ({ store, clock }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await store.start([{ ...job, startedAt: clock.now() }]);
    await clock.advance(SECOND);
    await finish(store, job, "completed", { output: `{"sent":true}` });
    const record = await recordOf(store, id);
    assert.deepEqual(
      [record.state, record.output, record.finishedAt, record.startedAt, record.dueAt, record.error, record.attempt],
      ["completed", `{"sent":true}`, clock.now(), clock.now() - SECOND, null, null, 1],
    );
    assert.equal(record.updatedAt, clock.now());
  });

  for (const state of ["completed", "dead", "cancelled"] as const) {
    test(`a ${state} job keeps the worker of its last lease`, async ({ store, clock }) => {
      const id = await add(store);
      const job = await claimOne(store, { worker: "w7" });
      await clock.advance(SECOND);
      await finish(store, job, state, { startedAt: clock.now() });
      const { worker, claimedAt, startedAt } = await recordOf(store, id);
      assert.deepEqual([worker, claimedAt, startedAt], ["w7", clock.now() - SECOND, clock.now()]);
    });
  }

  test("A-11 returns large and unusual outputs byte for byte", async ({ store }) => {
    for (const output of ["null", `"\\u0000 it's 🧵"`, `"${"x".repeat(LIMITS.payloadBytes - 2)}"`]) {
      const id = await add(store);
      await finish(store, await claimOne(store), "completed", { output });
      assert.ok((await recordOf(store, id)).output === output, `an output of ${output.length} characters`);
    }
  });

  test("A-12 A-30 a failed job is claimable after its delay", async ({ store, clock }) => {
    const id = await add(store);
    const job = await claimOne(store);
    assert.equal(await settleOne(store, failureOf(job, "timeout", { delayMs: MINUTE })), "applied");
    const record = await recordOf(store, id);
    assert.deepEqual(
      [record.state, record.attempt, record.dueAt, record.runAt, record.finishedAt],
      ["failed", 1, clock.now() + MINUTE, clock.now() + MINUTE, null],
    );
    assert.deepEqual(record.error, { message: "timeout", code: "E_TEST", at: clock.now(), fingerprint: FINGERPRINT });
    await clock.advance(MINUTE - 1);
    await assertNothingToClaim(store);
    await clock.advance(1);
    assert.equal((await claimOne(store)).attempt, 2);
  });

  test("A-12 A-31 a dead job keeps its error, is never claimed", async ({ store, clock }) => {
    const id = await add(store, { maxAttempts: 1 });
    const job = await claimOne(store);
    await finish(store, job, "dead", { error: { message: "gave up", code: null } });
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.finishedAt, record.dueAt], ["dead", clock.now(), null]);
    assert.deepEqual(record.error, { message: "gave up", code: null, at: clock.now(), fingerprint: null });
    await clock.advance(10 * LEASE_MS);
    await assertNothingToClaim(store);
  });

  test("a job cancelled by its worker is final", async ({ store, clock }) => {
    const id = await add(store);
    await finish(store, await claimOne(store), "cancelled");
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.finishedAt, record.dueAt], ["cancelled", clock.now(), null]);
    await assertNothingToClaim(store);
  });

  test("pending releases the job with given counts and delay", async ({ store, clock }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await finish(store, job, "pending", { attempt: 0, releases: 1, delayMs: SECOND });
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.attempt, record.releases], ["pending", 0, 1]);
    assert.equal(record.dueAt, clock.now() + SECOND);
    await clock.advance(SECOND);
    const again = await claimOne(store);
    assert.deepEqual([again.attempt, again.releases, again.previous.state], [1, 1, "pending"]);
  });

  test("every outcome sets the job's counts", async ({ store }) => {
    for (const to of ["completed", "failed", "dead", "cancelled", "pending"] as const) {
      const id = await add(store, { queue: to });
      await finish(store, await claimOne(store, { queues: [to] }), to, { attempt: 0, releases: 2 });
      const record = await recordOf(store, id);
      assert.deepEqual([record.attempt, record.releases], [0, 2], to);
    }
  });

  test("A-28 a job fails twice, is released, completes", async ({ store }) => {
    const id = await add(store, { maxAttempts: 3 });
    const seen: State[] = [await stateOf(store, id)];
    for (const to of ["failed", "pending", "failed", "completed"] as const) {
      const job = await claimOne(store);
      seen.push(await stateOf(store, id));
      await store.start([{ ...job, startedAt: 0 }]);
      seen.push(await stateOf(store, id));
      await finish(store, job, to);
      seen.push(await stateOf(store, id));
    }
    for (const [index, state] of seen.entries()) {
      const next = seen[index + 1];
      if (next !== undefined) assert.ok(TRANSITIONS[state].includes(next), `${state} → ${next}`);
    }
    const record = await recordOf(store, id);
    assert.deepEqual([record.state, record.attempt, record.fence], ["completed", 3, 4]);
  });

  test("C-01 no outcome sets an unknown state", async ({ store }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await store.settle([outcomeOf(job, "sleeping" as Outcome["to"])]).catch(() => undefined);
    assert.ok(isState(await stateOf(store, id)));
  });

  test("a finished job is never claimed, reaped or expired", async ({ store, clock }) => {
    for (const state of ["completed", "dead", "cancelled"] as const) await jobIn(store, state);
    await clock.advance(100 * LEASE_MS);
    assert.deepEqual(await store.reapExpiredLeases(10), []);
    assert.deepEqual(await store.expireOverdue(10), []);
    await assertNothingToClaim(store);
  });

  for (const to of ["completed", "dead", "cancelled", "failed", "pending"] as const) {
    test(`repeating a settle to ${to} returns applied, changes nothing`, async ({ store, clock }) => {
      const id = await add(store, { delayMs: 0 });
      const outcome = outcomeOf(await claimOne(store), to, { delayMs: SECOND });
      assert.equal(await settleOne(store, outcome), "applied");
      const before = await recordOf(store, id);
      await clock.advance(SECOND / 2);
      assert.equal(await settleOne(store, outcome), "applied");
      assert.deepEqual(await recordOf(store, id), before);
    });
  }

  for (const to of ["completed", "dead", "cancelled"] as const) {
    test(`keep: false deletes a job settled to ${to}`, async ({ store }) => {
      const large = `"${"x".repeat(2_000)}"`;
      const unique = key("free again");
      const id = await add(store, { unique, input: large, tags: ["t"] });
      const job = await claimOne(store);
      await store.note([
        { id, fence: job.fence, progress: { fraction: 0.5, note: null, data: null }, log: [{ at: 1, line: "l" }] },
      ]);
      const outcome = outcomeOf(job, to, { keep: false });
      assert.equal(await settleOne(store, outcome), "applied");
      assert.equal(await store.get(id), null);
      const stats = await store.stats();
      assert.deepEqual(stats.counts, []);
      assert.equal(stats.lastMinute[to], 1, "it is still counted as ended");
      assert.deepEqual((await store.list({ tag: "t" }, { limit: 10, cursor: null })).jobs, []);
      assert.equal(await settleOne(store, outcome), "lost");
      // The same id is now a new job, and its key is free.
      assert.deepEqual(await insertOne(store, newJob({ id, unique })), { status: "inserted" });
      assert.deepEqual((await recordOf(store, id)).log, []);
    });
  }

  test("an outcome twice in a batch is applied once", async ({ store }) => {
    await addAll(store, newJobs(2));
    const [first, second] = (await claim(store)) as [ClaimedJob, ClaimedJob];
    const outcome = outcomeOf(first, "completed");
    const results = await settleAll(store, [outcome, outcomeOf(second, "completed"), outcome]);
    assert.deepEqual(results, ["applied", "applied", "applied"]);
    assert.equal((await store.stats()).lastMinute.completed, 2);
  });

  test("a forever key outlives a job with keep: false", async ({ store }) => {
    const id = await add(store, { unique: key("once", { scope: "forever" }) });
    await finish(store, await claimOne(store), "completed", { keep: false });
    const again = await insertOne(store, newJob({ unique: key("once", { scope: "forever" }) }));
    assert.deepEqual(again, { status: "duplicate", of: id, replaced: false });
  });

  test("a batch may mix keep, waiting jobs always stay", async ({ store }) => {
    const ids = await addAll(store, newJobs(4));
    const [first, second, third, fourth] = (await claim(store)) as [ClaimedJob, ClaimedJob, ClaimedJob, ClaimedJob];
    await store.cancel([fourth.id]);
    const results = await settleAll(store, [
      outcomeOf(first, "completed"),
      outcomeOf(second, "completed", { keep: false }),
      outcomeOf(third, "failed", { keep: false, delayMs: MINUTE }),
      // A requested cancellation changes its state, so keep: false does not apply.
      outcomeOf(fourth, "dead", { keep: false }),
    ]);
    assert.deepEqual(results, ["applied", "applied", "applied", "cancelled"]);
    const states = await Promise.all(ids.map(async (id) => (await store.get(id))?.state ?? null));
    assert.deepEqual(states, ["completed", null, "failed", "cancelled"]);
  });

  test("a second, different outcome changes nothing", async ({ store }) => {
    for (const first of ["completed", "dead", "cancelled"] as const) {
      await add(store);
      const job = await claimOne(store);
      await finish(store, job, first);
      const before = await recordOf(store, job.id);
      for (const second of (["completed", "dead", "cancelled", "failed", "pending"] as const).filter(
        (to) => to !== first,
      )) {
        const result = await settleOne(store, outcomeOf(job, second, { output: `"other"` }));
        assert.notEqual(result, "applied", `${second} after ${first}`);
      }
      assert.deepEqual(await recordOf(store, job.id), before);
    }
  });

  test("repeating a settle after a retry changes nothing", async ({ store }) => {
    const id = await add(store);
    const outcome = outcomeOf(await claimOne(store), "dead");
    await settleOne(store, outcome);
    assert.deepEqual(await store.retry([id]), ["retried"]);
    const before = await recordOf(store, id);
    await settleOne(store, outcome);
    assert.deepEqual(await recordOf(store, id), before);
    assert.deepEqual(await claimIds(store), [id]);
  });

  test("returns one result per outcome, in order", async ({ store }) => {
    await addAll(store, newJobs(5));
    const [completed, dead, failed, lost, cancelled] = await claim(store, { leaseMs: 2 * LEASE_MS });
    assert.ok(completed && dead && failed && lost && cancelled);
    await store.cancel([cancelled.id]);
    const results = await store.settle([
      outcomeOf(lost, "completed", { fence: lost.fence + 1 }),
      outcomeOf(completed, "completed"),
      outcomeOf(completed, "completed", { id: "00000000-0000-7000-8000-000000000000" }),
      outcomeOf(cancelled, "failed"),
      outcomeOf(dead, "dead"),
      outcomeOf(failed, "failed", { delayMs: SECOND }),
    ]);
    assert.deepEqual(results, ["lost", "applied", "lost", "cancelled", "applied", "applied"]);
    assert.deepEqual(await statesOf(store, [lost.id, completed.id, cancelled.id, dead.id, failed.id]), [
      "claimed",
      "completed",
      "cancelled",
      "dead",
      "failed",
    ]);
    assert.deepEqual(await store.settle([]), []);
  });

  test("settles batches larger than any statement limit", async ({ store, many }) => {
    const count = Math.min(1_200, many);
    await addAll(store, newJobs(count));
    const jobs = await claim(store, { limit: count });
    const results = await store.settle(jobs.map((job) => outcomeOf(job, "completed", { output: `"${job.id}"` })));
    assert.ok(results.length === count && results.every((result) => result === "applied"));
    for (const job of [jobs[0], jobs[Math.floor(count / 2)], jobs[count - 1]]) {
      assert.equal((await recordOf(store, job?.id ?? "")).output, `"${job?.id}"`);
    }
  });

  test("an outcome sets a start time that was missing", async ({ store, clock }) => {
    const unmarked = await add(store);
    await finish(store, await claimOne(store), "completed", { startedAt: clock.now() - 5 });
    assert.equal((await recordOf(store, unmarked)).startedAt, clock.now() - 5);
    const marked = await add(store);
    const job = await claimOne(store);
    await store.start([{ ...job, startedAt: clock.now() - 9 }]);
    await finish(store, job, "completed", { startedAt: clock.now() - 1 });
    assert.equal((await recordOf(store, marked)).startedAt, clock.now() - 9, "an existing start time does not change");
    const unrun = await add(store);
    await finish(store, await claimOne(store), "dead", { startedAt: null });
    assert.equal((await recordOf(store, unrun)).startedAt, null);
  });

  test("an outcome without an error keeps the existing one", async ({ store, clock }) => {
    const id = await add(store);
    await settleOne(store, failureOf(await claimOne(store), "first"));
    const failedAt = clock.now();
    await clock.advance(SECOND);
    await finish(store, await claimOne(store), "pending");
    const first = { message: "first", code: "E_TEST", at: failedAt, fingerprint: FINGERPRINT };
    assert.deepEqual((await recordOf(store, id)).error, first);
    await settleOne(store, failureOf(await claimOne(store), "second"));
    assert.deepEqual((await recordOf(store, id)).error, { ...first, message: "second", at: clock.now() });
  });

  for (const to of ["failed", "pending"] as const) {
    test(`settling to ${to} replaces the fingerprint`, async ({ store }) => {
      const id = await add(store, { maxAttempts: 10 });
      for (const given of [FINGERPRINT, "ffffffffffffffff", null, FINGERPRINT, undefined]) {
        const error = { message: "no", code: null, ...(given !== undefined && { fingerprint: given }) };
        await finish(store, await claimOne(store), to, { error });
        assert.equal((await recordOf(store, id)).error?.fingerprint, given ?? null);
      }
    });
  }

  for (const to of ["dead", "cancelled"] as const) {
    test(`settling to ${to} stores the fingerprint`, async ({ store }) => {
      const id = await add(store);
      await finish(store, await claimOne(store), to, {
        error: { message: "no", code: null, fingerprint: FINGERPRINT },
      });
      assert.equal((await recordOf(store, id)).error?.fingerprint, FINGERPRINT);
    });
  }

  test("a cancelled outcome keeps its fingerprint", async ({ store }) => {
    const id = await add(store);
    const job = await claimOne(store);
    await store.cancel([id]);
    assert.equal(await settleOne(store, failureOf(job, "no")), "cancelled");
    const { state, error } = await recordOf(store, id);
    assert.deepEqual([state, error?.fingerprint], ["cancelled", FINGERPRINT]);
  });

  test("completing keeps the fingerprint of the last error", async ({ store }) => {
    const id = await add(store);
    await settleOne(store, failureOf(await claimOne(store), "no"));
    await finish(store, await claimOne(store));
    const { state, error } = await recordOf(store, id);
    assert.deepEqual([state, error?.fingerprint], ["completed", FINGERPRINT]);
  });

  test("the history has failed attempts, oldest first", async ({ store }) => {
    const id = await add(store, { maxAttempts: 3 });
    const messages = ['first: it\'s "odd"', "second: ünï", "third"];
    for (const message of messages) {
      const job = await claimOne(store);
      await settleOne(store, failureOf(job, message, { to: job.attempt < 3 ? "failed" : "dead" }));
    }
    assert.deepEqual(
      (await recordOf(store, id)).attempts,
      messages.map((message, index) => attemptRecord(index + 1, message)),
    );
  });

  test("the history keeps only the newest attempts", async ({ store }) => {
    const id = await add(store, { maxAttempts: 1_000 });
    const rounds = LIMITS.attempts + 5;
    for (let round = 1; round <= rounds; round++)
      await settleOne(store, failureOf(await claimOne(store), `no ${round}`));
    const { attempts } = await recordOf(store, id);
    assert.equal(attempts.length, LIMITS.attempts);
    assert.deepEqual([attempts[0]?.attempt, attempts.at(-1)?.attempt], [6, rounds]);
  });
}

function statesOf(store: Store, ids: readonly string[]): Promise<State[]> {
  return Promise.all(ids.map((id) => stateOf(store, id)));
}
