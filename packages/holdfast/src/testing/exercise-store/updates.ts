import assert from "node:assert/strict";
import { LIMITS } from "../../defaults.js";
import { isWaiting, STATE_NAMES } from "../../job/state.js";
import type { JobUpdate, Store, UpdateConflict } from "../../store.js";
import {
  add,
  assertNothingToClaim,
  claimIds,
  claimOne,
  failureOf,
  jobIn,
  MINUTE,
  newJob,
  recordOf,
  SECOND,
  settleOne,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

const UNKNOWN_ID = "00000000-0000-7000-8000-000000000000";
const UPDATED = { status: "updated" } as const;

async function update(store: Store, id: string, change: Omit<JobUpdate, "id">): Promise<void> {
  assert.deepEqual(await store.update([{ id, ...change }]), [UPDATED]);
}

export function updateCases(test: DefineCase): void {
  test("changes every field of a waiting job, and nothing else", async ({ store, clock }) => {
    const job = newJob({ user: "ada", tags: ["old"], delayMs: MINUTE, unique: key("k") });
    await store.insert([job]);
    const before = await recordOf(store, job.id);
    await clock.advance(SECOND);
    const runAt = clock.now() + 5 * MINUTE;
    const expiresAt = runAt + MINUTE;
    const change = { queue: "slow", priority: 7, input: '{"n":2}', tags: ["new"], maxAttempts: 9, expiresAt };
    await update(store, job.id, { ...change, due: { runAt, delayMs: SECOND } });
    const after = await recordOf(store, job.id);
    assert.deepEqual(
      { ...after, updatedAt: null },
      { ...before, ...change, runAt: runAt + SECOND, dueAt: runAt + SECOND, updatedAt: null },
    );
    assert.deepEqual(await store.update([]), []);
  });

  test("leaves out what is left out", async ({ store }) => {
    const id = await add(store, { tags: ["red"], priority: 3, delayMs: MINUTE, expiresAt: 4_000_000_000_000 });
    const { updatedAt: _, ...before } = await recordOf(store, id);
    await update(store, id, {});
    const { updatedAt: _other, ...after } = await recordOf(store, id);
    assert.deepEqual(after, before);
    await update(store, id, { expiresAt: null });
    assert.equal((await recordOf(store, id)).expiresAt, null);
  });

  test("makes a delayed job due now", async ({ store, clock }) => {
    const id = await add(store, { delayMs: MINUTE });
    await assertNothingToClaim(store);
    await update(store, id, { due: { runAt: null, delayMs: 0 } });
    assert.deepEqual((await recordOf(store, id)).dueAt, clock.now());
    assert.deepEqual(await claimIds(store), [id]);
  });

  test("keeps the state and history of a failed job", async ({ store, clock }) => {
    const id = await add(store);
    await settleOne(store, failureOf(await claimOne(store), "down", { delayMs: MINUTE }));
    const before = await recordOf(store, id);
    await update(store, id, { due: { runAt: null, delayMs: 2 * SECOND }, maxAttempts: 7 });
    const after = await recordOf(store, id);
    assert.deepEqual([after.state, after.attempt, after.maxAttempts], ["failed", 1, 7]);
    assert.deepEqual([after.attempts, after.error], [before.attempts, before.error]);
    await assertNothingToClaim(store);
    await clock.advance(2 * SECOND);
    assert.equal((await claimOne(store)).attempt, 2);
  });

  test("refuses jobs that do not wait, with their state", async ({ store }) => {
    for (const state of STATE_NAMES) {
      const id = await jobIn(store, state);
      const before = await recordOf(store, id);
      const [result] = await store.update([{ id, priority: 9, queue: "other", input: '"changed"', tags: ["changed"] }]);
      if (isWaiting(state)) assert.deepEqual(result, UPDATED);
      else {
        assert.deepEqual(result, { status: "not-waiting", state });
        assert.deepEqual(await recordOf(store, id), before);
      }
    }
  });

  test("a change that contradicts the job is a conflict", async ({ store, clock }) => {
    const now = clock.now();
    const id = await add(store, { queue: "a", delayMs: MINUTE, expiresAt: now + 2 * MINUTE });
    const tried = await add(store, { queue: "b" });
    await settleOne(store, failureOf(await claimOne(store, { queues: ["b"] }), "down", { delayMs: MINUTE }));
    const conflicts: [UpdateConflict, JobUpdate][] = [
      ["type", { id, input: '"changed"', inputType: "report" }],
      ["type", { id, input: JSON.stringify("x".repeat(2 * LIMITS.inlineInputBytes)), inputType: "report" }],
      ["type", { id, inputType: "report", expiresAt: now }],
      ["attempts", { id: tried, maxAttempts: 1 }],
      ["attempts", { id: tried, maxAttempts: 1, expiresAt: now }],
      ["expiry", { id, due: { runAt: null, delayMs: 2 * MINUTE } }],
      ["expiry", { id, due: { runAt: now + 3 * MINUTE, delayMs: 0 } }],
      ["expiry", { id, expiresAt: now + MINUTE }],
      ["expiry", { id, expiresAt: now + 4 * MINUTE, due: { runAt: now + 3 * MINUTE, delayMs: MINUTE } }],
    ];
    const before = [await recordOf(store, id), await recordOf(store, tried)];
    for (const [reason, change] of conflicts) {
      const unwanted = { ...change, tags: ["changed"], queue: "changed" };
      assert.deepEqual(await store.update([unwanted]), [{ status: "conflict", reason }], JSON.stringify(change));
    }
    assert.deepEqual([await recordOf(store, id), await recordOf(store, tried)], before);
    await update(store, id, { input: '"changed"', inputType: "mail", expiresAt: now + MINUTE + 1 });
    await update(store, id, { expiresAt: now + 6 * MINUTE, due: { runAt: now + 5 * MINUTE, delayMs: 0 } });
    await update(store, id, { expiresAt: null, due: { runAt: null, delayMs: 9 * MINUTE } });
    await update(store, tried, { maxAttempts: 2 });
  });

  test("a change that touches neither time ignores an expiry that has passed", async ({ store, clock }) => {
    const id = await add(store, { delayMs: MINUTE, expiresAt: clock.now() + SECOND });
    await update(store, id, { priority: 3, maxAttempts: 9 });
    assert.deepEqual(await store.update([{ id, due: { runAt: null, delayMs: SECOND } }]), [
      { status: "conflict", reason: "expiry" },
    ]);
  });

  test("treats jobs outside its scope as missing", async ({ store }) => {
    const id = await add(store, { user: "ada" });
    const change = [
      { id, priority: 9 },
      { id: UNKNOWN_ID, priority: 9 },
    ];
    const missing = [{ status: "missing" }, { status: "missing" }];
    assert.deepEqual(await store.update(change, { user: "bob" }), missing);
    assert.deepEqual(await store.update(change, { states: ["failed"] }), missing);
    assert.equal((await recordOf(store, id)).priority, 0);
    assert.deepEqual(await store.update(change, { user: "ada", states: ["pending"] }), [UPDATED, missing[1]]);
    assert.equal((await recordOf(store, id)).priority, 9);
  });

  test("moves a job to another queue, with its counts", async ({ store }) => {
    const id = await add(store, { queue: "a" });
    await update(store, id, { queue: "b" });
    await assertNothingToClaim(store, { queues: ["a"] });
    const { counts } = await store.stats();
    assert.deepEqual(counts, [{ queue: "b", type: "mail", state: "pending", count: 1 }]);
    assert.deepEqual((await store.list({ queues: ["a"] }, { limit: 5, cursor: null })).jobs, []);
    assert.deepEqual(await claimIds(store, { queues: ["b"] }), [id]);
    const { jobs } = await store.list({ queues: ["b"] }, { limit: 5, cursor: null });
    assert.deepEqual(
      jobs.map((job) => job.id),
      [id],
    );
  });

  test.needing(["strict order"], "moves a job ahead by its priority", async ({ store }) => {
    const [first, second] = [await add(store), await add(store)];
    await update(store, second, { priority: 5 });
    assert.deepEqual(await claimIds(store), [second, first]);
  });

  test("replaces small inputs by large ones and back", async ({ store }) => {
    const large = JSON.stringify("x".repeat(4 * LIMITS.inlineInputBytes));
    const id = await add(store, { input: '"small"' });
    for (const input of [large, '"small again"', large]) {
      await update(store, id, { input });
      assert.equal((await recordOf(store, id)).input, input);
    }
    assert.equal((await claimOne(store)).input, large);
  });

  test("replaces tags in lists", async ({ store }) => {
    const id = await add(store, { tags: ["red", "blue"] });
    await update(store, id, { tags: ["blue", "green"] });
    const tagged = async (tag: string): Promise<string[]> =>
      (await store.list({ tag }, { limit: 5, cursor: null })).jobs.map((job) => job.id);
    assert.deepEqual([await tagged("red"), await tagged("blue"), await tagged("green")], [[], [id], [id]]);
    await update(store, id, { tags: [] });
    assert.deepEqual([await tagged("blue"), (await recordOf(store, id)).tags], [[], []]);
  });

  test("moves an expiry, and the job expires by the new one", async ({ store, clock }) => {
    const id = await add(store, { delayMs: 30 * SECOND });
    await update(store, id, { expiresAt: clock.now() + MINUTE });
    await clock.advance(MINUTE);
    const expired = await store.expireOverdue(10);
    assert.deepEqual(
      expired.map((job) => [job.id, job.to]),
      [[id, "dead"]],
    );
  });

  test("updates many jobs in one call", async ({ store }) => {
    const ids = await Promise.all(Array.from({ length: 120 }, () => add(store)));
    const results = await store.update(
      ids.map((id, n) => ({ id, tags: [`t${n}`], queue: n % 2 === 0 ? "even" : "odd" })),
    );
    assert.ok(results.length === 120 && results.every(({ status }) => status === "updated"));
    assert.equal((await store.list({ tag: "t77" }, { limit: 5, cursor: null })).jobs[0]?.id, ids[77]);
    assert.equal((await claimIds(store, { queues: ["odd"], limit: 100 })).length, 60);
  });

  test.live([], "a claim and an update of the same job exclude each other", async ({ store }) => {
    for (let round = 0; round < 20; round++) {
      const id = await add(store, { queue: `r${round}` });
      const [claimed, [result]] = await Promise.all([
        claimIds(store, { queues: [`r${round}`] }),
        store.update([{ id, priority: 9, tags: ["changed"] }]),
      ]);
      const record = await recordOf(store, id);
      assert.equal(record.priority, result?.status === "updated" ? 9 : 0);
      if (claimed.length === 1 && result?.status !== "updated") {
        assert.deepEqual(result, { status: "not-waiting", state: "claimed" });
        assert.deepEqual(record.tags, []);
      }
    }
  });

  keyCases(test);
}

const key = (name: string): { key: string; scope: "live"; periodMs: number; onConflict: "keep" } => ({
  key: name,
  scope: "live",
  periodMs: 0,
  onConflict: "keep",
});

/** keyHolder and freeKey. */
function keyCases(test: DefineCase): void {
  test("keyHolder finds the job that holds a key", async ({ store, clock }) => {
    assert.equal(await store.keyHolder("k"), null);
    const id = await add(store, { unique: key("k") });
    assert.deepEqual(await store.keyHolder("k"), { job: id, exists: true });
    await store.cancel([id]);
    assert.equal(await store.keyHolder("k"), null, "a finished job does not hold a key of scope live");
    const waiting = await add(store, { unique: { ...key("w"), scope: "waiting" } });
    assert.deepEqual(await store.keyHolder("w"), { job: waiting, exists: true });
    await claimOne(store);
    assert.equal(await store.keyHolder("w"), null, "a claimed job does not hold a key of scope waiting");
    const periodic = await add(store, { unique: { ...key("p"), scope: "period", periodMs: MINUTE } });
    await store.cancel([periodic]);
    assert.deepEqual(await store.keyHolder("p"), { job: periodic, exists: true });
    await clock.advance(MINUTE);
    assert.equal(await store.keyHolder("p"), null);
  });

  test("freeKey frees a forever key of a deleted job only", async ({ store, clock }) => {
    assert.equal(await store.freeKey("k"), "missing");
    const unique = { ...key("k"), scope: "forever" } as const;
    const id = await add(store, { unique });
    assert.equal(await store.freeKey("k"), "held");
    await store.cancel([id]);
    assert.equal(await store.freeKey("k"), "held");
    await clock.advance(SECOND);
    await store.purge({ state: "cancelled", before: clock.now(), keep: null, limit: 10 });
    assert.deepEqual(await store.keyHolder("k"), { job: id, exists: false });
    const again = newJob({ unique });
    assert.deepEqual(await store.insert([again]), [{ status: "duplicate", of: id, replaced: false }]);
    assert.equal(await store.freeKey("k"), "freed");
    assert.equal(await store.freeKey("k"), "missing");
    assert.deepEqual(await store.insert([again]), [{ status: "inserted" }]);
    assert.deepEqual(await store.keyHolder("k"), { job: again.id, exists: true });
  });
}
