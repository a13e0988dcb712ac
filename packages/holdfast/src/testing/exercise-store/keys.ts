import assert from "node:assert/strict";
import {
  add,
  addAll,
  claim,
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
  recordOf,
  SECOND,
  settleOne,
} from "./builders.js";
import type { NewJob, Store, UniqueKey } from "../../store.js";
import type { DefineCase } from "./scene.js";

const INSERTED = { status: "inserted" } as const;

export function keyCases(test: DefineCase): void {
  test("B-11 C-04 returns the waiting job instead of a duplicate", async ({ store }) => {
    const first = await add(store, { unique: key("thread:1") });
    const second = newJob({ unique: key("thread:1") });
    assert.deepEqual(await insertOne(store, second), duplicateOf(first));
    assert.equal(await store.get(second.id), null);
    assert.equal((await claim(store)).length, 1);
  });

  test("C-04 reject refuses a duplicate and names the holder", async ({ store }) => {
    const first = await add(store, { unique: key("k") });
    assert.deepEqual(await offer(store, { onConflict: "reject" }), {
      status: "refused",
      reason: "key-held",
      of: first,
    });
    assert.equal((await claim(store)).length, 1);
  });

  test("C-04 the same key twice in a batch is one job", async ({ store }) => {
    const [first, second] = [newJob({ unique: key("k") }), newJob({ unique: key("k") })];
    assert.deepEqual(await store.insert([first, second]), [INSERTED, duplicateOf(first.id)]);
    assert.equal((await claim(store)).length, 1);
  });

  test("different keys and no keys do not conflict", async ({ store }) => {
    await addAll(store, [newJob({ unique: key("a") }), newJob({ unique: key("b") }), newJob(), newJob()]);
    assert.equal((await claim(store)).length, 4);
  });

  test("C-04 scope live: held while waiting, running and failed", async ({ store }) => {
    const id = await add(store, { unique: key("k") });
    assert.deepEqual(await offer(store), duplicateOf(id));
    const job = await claimOne(store);
    assert.deepEqual(await offer(store), duplicateOf(id));
    await store.start([{ ...job, startedAt: 0 }]);
    assert.deepEqual(await offer(store), duplicateOf(id));
    await finish(store, job, "failed");
    assert.deepEqual(await offer(store), duplicateOf(id));
  });

  for (const state of ["completed", "dead", "cancelled"] as const) {
    test(`scope live: free when the job is ${state}`, async ({ store }) => {
      await jobIn(store, state, { unique: key("k") });
      const next = newJob({ unique: key("k") });
      assert.deepEqual(await insertOne(store, next), INSERTED);
      assert.deepEqual(await offer(store), duplicateOf(next.id));
    });
  }

  test("scope live: free when a waiting holder is cancelled", async ({ store }) => {
    const id = await add(store, { unique: key("k") });
    await store.cancel([id]);
    assert.deepEqual(await offer(store), INSERTED);
  });

  test("scope waiting: free at the first claim", async ({ store }) => {
    const id = await add(store, { unique: key("k", { scope: "waiting" }) });
    assert.deepEqual(await offer(store), duplicateOf(id));
    await claimOne(store);
    assert.deepEqual(await offer(store), INSERTED);
  });

  test("scope waiting: release, retry or expiry never reacquire it", async ({ store, clock }) => {
    const released = await add(store, { unique: key("released", { scope: "waiting" }) });
    await finish(store, await claimOne(store), "pending");
    const retried = await jobIn(store, "dead", { unique: key("retried", { scope: "waiting" }) });
    assert.deepEqual(await store.retry([retried]), ["retried"]);
    const lost = await jobIn(store, "claimed", { unique: key("lost", { scope: "waiting" }) });
    await clock.advance(LEASE_MS);
    await store.reapExpiredLeases(10);
    for (const [id, name] of Object.entries({ [released]: "released", [retried]: "retried", [lost]: "lost" })) {
      assert.ok(["pending", "failed"].includes((await recordOf(store, id)).state), `${name} waits again`);
      assert.deepEqual(await insertOne(store, newJob({ unique: key(name) })), INSERTED);
    }
  });

  test("scope period: held for its period, whatever the outcome", async ({ store, clock }) => {
    const id = await jobIn(store, "completed", { unique: key("k", { scope: "period", periodMs: MINUTE }) });
    await clock.advance(MINUTE - 1);
    assert.deepEqual(await offer(store), duplicateOf(id));
    await clock.advance(1);
    assert.deepEqual(await offer(store), INSERTED);
  });

  test("D-02 scope period: free when the job is deleted", async ({ store, clock }) => {
    const period = { scope: "period", periodMs: 10 * MINUTE } as const;
    await jobIn(store, "completed", { unique: key("k", period) });
    await clock.advance(MINUTE);
    assert.equal(await store.purge({ state: "completed", before: clock.now(), keep: null, limit: 10 }), 1);
    for (const onConflict of ["keep", "reject", "replace"] as const) {
      const next = newJob({ unique: key("k", { ...period, onConflict }) });
      assert.deepEqual(await insertOne(store, next), INSERTED);
      assert.deepEqual(await offer(store), duplicateOf(next.id));
      await finish(store, await claimOne(store), "completed", { keep: false });
      assert.equal(await store.get(next.id), null);
    }
    const successor = newJob({ unique: key("k") });
    assert.deepEqual(await insertOne(store, successor), INSERTED);
    await clock.advance(20 * MINUTE);
    // The new job holds the key, with its own scope.
    assert.deepEqual(await offer(store), duplicateOf(successor.id));
  });

  test("D-02 scope period: one of many acquires a deleted holder's key", async ({ store, clock }) => {
    const unique = key("k", { scope: "period", periodMs: 10 * MINUTE });
    for (let round = 0; round < 3; round++) {
      const enqueued = Array.from({ length: 12 }, () => newJob({ unique }));
      const results = await Promise.all(enqueued.map((job) => insertOne(store, job)));
      const first = enqueued[results.findIndex(({ status }) => status === "inserted")];
      assert.deepEqual(
        results,
        enqueued.map((job) => (job === first ? INSERTED : duplicateOf(first?.id ?? ""))),
      );
      await finish(store, await claimOne(store));
      await clock.advance(1);
      assert.equal(await store.purge({ state: "completed", before: clock.now(), keep: null, limit: 10 }), 1);
    }
  });

  test("D-02 a retry acquires a live key of a deleted job", async ({ store, clock }) => {
    const dead = await jobIn(store, "dead", { unique: key("k") });
    await clock.advance(MINUTE);
    await jobIn(store, "completed", { unique: key("k", { scope: "period", periodMs: 10 * MINUTE }) });
    assert.deepEqual(await store.retry([dead]), ["key-held"]);
    await clock.advance(MINUTE);
    assert.equal(await store.purge({ state: "completed", before: clock.now(), keep: null, limit: 10 }), 1);
    assert.deepEqual(await store.retry([dead]), ["retried"]);
    assert.deepEqual(await offer(store), duplicateOf(dead));
  });

  test("scope period: ends even while the job waits", async ({ store, clock }) => {
    await add(store, { delayMs: 10 * MINUTE, unique: key("k", { scope: "period", periodMs: MINUTE }) });
    await clock.advance(MINUTE);
    assert.deepEqual(await offer(store), INSERTED);
  });

  test("scope forever: held even after the job's retention", async ({ store, clock }) => {
    const id = await jobIn(store, "completed", { unique: key("k", { scope: "forever" }) });
    assert.deepEqual(await offer(store), duplicateOf(id));
    await clock.advance(MINUTE);
    assert.equal(await store.purge({ state: "completed", before: clock.now(), keep: null, limit: 10 }), 1);
    assert.equal(await store.get(id), null);
    assert.deepEqual(await offer(store), duplicateOf(id));
    assert.deepEqual(await offer(store, { onConflict: "replace" }), duplicateOf(id));
  });

  test("removing a job frees its key in every scope", async ({ store }) => {
    for (const scope of ["waiting", "live", "period", "forever"] as const) {
      const id = await add(store, { unique: key(scope, { scope, periodMs: MINUTE }) });
      assert.deepEqual(await store.remove([id]), ["removed"]);
      assert.deepEqual(await insertOne(store, newJob({ unique: key(scope) })), INSERTED);
    }
  });

  test("the holder's scope applies, not the new job's", async ({ store }) => {
    const live = await add(store, { unique: key("live"), queue: "a" });
    await claimOne(store, { queues: ["a"] });
    const waiting = key("live", { scope: "waiting" });
    assert.deepEqual(await insertOne(store, newJob({ unique: waiting })), duplicateOf(live));
    await add(store, { unique: key("waiting", { scope: "waiting" }), queue: "b" });
    await claimOne(store, { queues: ["b"] });
    assert.deepEqual(await insertOne(store, newJob({ unique: key("waiting", { scope: "forever" }) })), INSERTED);
  });

  test("a former holder does not free its successor's key", async ({ store }) => {
    await add(store, { unique: key("k", { scope: "waiting" }) });
    const first = await claimOne(store);
    const successor = await add(store, { unique: key("k"), delayMs: MINUTE });
    await finish(store, first);
    assert.deepEqual(await offer(store), duplicateOf(successor));
    assert.deepEqual(await store.remove([first.id]), ["removed"]);
    assert.deepEqual(await offer(store), duplicateOf(successor));
  });

  test("replace overwrites a waiting holder, which keeps its id", async ({ store, clock }) => {
    const old = { input: `"old"`, tags: ["old"], schedule: { name: "old", slot: 1 } };
    const id = await add(store, { unique: key("k"), delayMs: MINUTE, ...old });
    const newcomer = newJob({
      unique: key("k", { onConflict: "replace" }),
      type: "report",
      queue: "reports",
      input: `"${"new".repeat(400)}"`,
      priority: 5,
      tags: ["new"],
      maxAttempts: 2,
      delayMs: 2 * SECOND,
      expiresAt: clock.now() + MINUTE,
      user: "u",
      schedule: { name: "digest", slot: clock.now() },
    });
    assert.deepEqual(await insertOne(store, newcomer), { status: "duplicate", of: id, replaced: true });
    assert.equal(await store.get(newcomer.id), null);
    const { type, queue, input, priority, tags, maxAttempts, expiresAt, user, schedule } = newcomer;
    const expected = {
      type,
      queue,
      input,
      priority,
      tags,
      maxAttempts,
      expiresAt,
      user,
      schedule,
      dueAt: clock.now() + 2 * SECOND,
    };
    const record = await recordOf(store, id);
    assert.deepEqual({ ...record, ...expected }, record);
    for (const filter of [{ tag: "old" }, { schedule: "old" }]) {
      assert.deepEqual((await store.list(filter, { limit: 10, cursor: null })).jobs, []);
    }
    await clock.advance(2 * SECOND);
    assert.equal((await claimOne(store, { queues: ["reports"], types: ["report"] })).input, input);
  });

  test("replace shrinks a large input and resets a failed holder", async ({ store }) => {
    const id = await jobIn(store, "failed", { unique: key("k"), input: `"${"old".repeat(400)}"`, queue: "q" });
    assert.deepEqual(await offer(store, { onConflict: "replace" }, { input: `"new"`, queue: "q" }), {
      ...duplicateOf(id),
      replaced: true,
    });
    const job = await claimOne(store, { queues: ["q"] });
    assert.deepEqual([job.input, job.attempt, job.fence], [`"new"`, 1, 2]);
  });

  test("replace removes the error and its fingerprint", async ({ store }) => {
    const id = await add(store, { unique: key("k") });
    await settleOne(store, failureOf(await claimOne(store), "no", { delayMs: MINUTE }));
    assert.deepEqual(await offer(store, { onConflict: "replace" }), { ...duplicateOf(id), replaced: true });
    assert.equal((await recordOf(store, id)).error, null);
    assert.deepEqual((await store.list({ fingerprint: FINGERPRINT }, { limit: 10, cursor: null })).jobs, []);
  });

  test("replace applies the new job's scope", async ({ store, clock }) => {
    const waiting = await jobIn(store, "failed", { unique: key("k"), queue: "q" });
    const fresh = { ...duplicateOf(waiting), replaced: true };
    assert.deepEqual(await offer(store, { onConflict: "replace", scope: "waiting" }, { queue: "q" }), fresh);
    assert.deepEqual(await offer(store), duplicateOf(waiting));
    await claimOne(store, { queues: ["q"] });
    const period = newJob({ unique: key("k") });
    assert.deepEqual(await insertOne(store, period), INSERTED);
    await clock.advance(MINUTE);
    assert.deepEqual(await offer(store, { onConflict: "replace", scope: "period", periodMs: MINUTE }), {
      ...duplicateOf(period.id),
      replaced: true,
    });
    await clock.advance(MINUTE - 1);
    assert.deepEqual(await offer(store), duplicateOf(period.id));
    await clock.advance(1);
    assert.deepEqual(await offer(store), INSERTED);
  });

  test("replace does not change a leased or finished holder", async ({ store }) => {
    for (const state of ["claimed", "running", "completed"] as const) {
      const id = await jobIn(store, state, { unique: key(state, { scope: "forever" }), input: `"old"` });
      const before = await recordOf(store, id);
      const newcomer = newJob({ unique: key(state, { onConflict: "replace" }), input: `"new"` });
      assert.deepEqual(await insertOne(store, newcomer), duplicateOf(id));
      assert.deepEqual(await recordOf(store, id), before);
    }
  });

  test("a retry acquires its live key, unless it is held", async ({ store }) => {
    const first = await jobIn(store, "dead", { unique: key("k") });
    const second = await add(store, { unique: key("k") });
    assert.deepEqual(await store.retry([first]), ["key-held"]);
    assert.equal((await recordOf(store, first)).state, "dead");
    await store.cancel([second]);
    assert.deepEqual(await store.retry([first]), ["retried"]);
    assert.deepEqual(await offer(store), duplicateOf(first));
    assert.deepEqual(await store.retry([second]), ["key-held"]);
  });
}

function duplicateOf(id: string): { status: "duplicate"; of: string; replaced: false } {
  return { status: "duplicate", of: id, replaced: false };
}

/** Inserts a new job with the key `k`. */
function offer(store: Store, unique: Partial<UniqueKey> = {}, job: Partial<NewJob> = {}): ReturnType<typeof insertOne> {
  return insertOne(store, newJob({ ...job, unique: key("k", unique) }));
}
