import assert from "node:assert/strict";
import { ALL_QUEUES } from "../../defaults.js";
import type { FinishedState } from "../../job/state.js";
import type { JobFilter, JobSettings, Store } from "../../store.js";
import {
  add,
  addAll,
  assertNothingToClaim,
  claim,
  claimIds,
  claimOne,
  finish,
  LEASE_MS,
  MINUTE,
  newJob,
  newJobs,
  outcomeOf,
  recordOf,
  SECOND,
  settleOne,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

const PARENT = "018f4d2e-7b3a-7c11-8a55-00000000000a";
const OTHER = "018f4d2e-7b3a-7c11-8a55-00000000000b";

/** What a job sets for itself, whose parent it has, and pauses of all queues. */
export function ownSettingsCases(test: DefineCase): void {
  test("parent and settings are stored, claimed and kept", async ({ store }) => {
    const settings: JobSettings = { timeoutMs: 0, keepMs: { completed: 5, dead: MINUTE } };
    const id = await add(store, { parent: PARENT, settings });
    const claimed = await claimOne(store);
    assert.deepEqual([claimed.parent, claimed.settings], [PARENT, settings]);
    await finish(store, claimed, "dead");
    await store.retry([id]);
    const record = await recordOf(store, id);
    assert.deepEqual([record.parent, record.settings], [PARENT, settings]);
    const plain = await recordOf(store, await add(store));
    assert.deepEqual([plain.parent, plain.settings], [null, null]);
  });

  test("a replaced job has the parent and settings of the new one", async ({ store }) => {
    const unique = { key: "k", scope: "live", periodMs: 0, onConflict: "replace" } as const;
    const id = await add(store, { unique, parent: PARENT, settings: { timeoutMs: 5 } });
    await store.insert([newJob({ unique, parent: OTHER, settings: { keepMs: { dead: 7 } } })]);
    const record = await recordOf(store, id);
    assert.deepEqual([record.parent, record.settings], [OTHER, { keepMs: { dead: 7 } }]);
  });

  test("progress has data besides its note", async ({ store }) => {
    const id = await add(store);
    const { fence } = await claimOne(store);
    const progress = { fraction: 0.5, note: null, data: '{"page":12,"odd":"naïve"}' };
    await store.note([{ id, fence, progress, log: [] }]);
    assert.deepEqual((await recordOf(store, id)).progress, progress);
    const [listed] = (await store.list({}, { limit: 1, cursor: null })).jobs;
    assert.deepEqual(listed?.progress, progress);
  });

  purgeTimeCases(test);
  pauseCases(test);
  listCases(test);
}

function purgeTimeCases(test: DefineCase): void {
  const keepMs = { completed: MINUTE, dead: 2 * MINUTE, cancelled: 3 * MINUTE };
  const ids = async (store: Store): Promise<string[]> =>
    (await store.list({}, { limit: 100, cursor: null })).jobs.map((job) => job.id);

  for (const state of ["completed", "dead", "cancelled"] as const satisfies readonly FinishedState[]) {
    test(`a ${state} job is purged at its own time`, async ({ store, clock }) => {
      const own = await add(store, { settings: { keepMs } });
      await finish(store, await claimOne(store), state);
      const other = await add(store);
      await finish(store, await claimOne(store), state);
      await clock.advance(keepMs[state] - 1);
      assert.equal(await store.purge({ state, before: clock.now(), keep: null, limit: 10 }), 1);
      assert.deepEqual(await ids(store), [own], `${other} has no time of its own`);
      assert.equal(await store.purge({ state, before: null, keep: 0, limit: 10 }), 0);
      assert.equal(await store.purgeDue(10), 0);
      await clock.advance(1);
      assert.equal(await store.purgeDue(10), 1);
      assert.deepEqual(await ids(store), []);
      assert.deepEqual((await store.stats()).counts, []);
    });
  }

  test("a state without its own time is purged as usual", async ({ store, clock }) => {
    await add(store, { settings: { keepMs: { dead: 0 } } });
    await finish(store, await claimOne(store), "completed");
    await clock.advance(SECOND);
    assert.equal(await store.purgeDue(10), 0);
    assert.equal(await store.purge({ state: "completed", before: clock.now(), keep: null, limit: 10 }), 1);
  });

  test("an outcome sets the purge time, whatever the settings", async ({ store, clock }) => {
    await addAll(store, [newJob({ settings: { keepMs } }), newJob()]);
    for (const job of await claim(store)) await settleOne(store, outcomeOf(job, "completed", { purgeMs: SECOND }));
    assert.equal(await store.purgeDue(10), 0);
    await clock.advance(SECOND);
    assert.equal(await store.purge({ state: "completed", before: clock.now(), keep: null, limit: 10 }), 0);
    assert.equal(await store.purgeDue(1), 1);
    assert.equal(await store.purgeDue(10), 1);
  });

  test("cancelled, expired and reaped jobs have their purge times", async ({ store, clock }) => {
    const settings = { keepMs };
    const cancelled = await add(store, { settings, queue: "a" });
    await store.cancel([cancelled]);
    await add(store, { settings, queue: "b", delayMs: MINUTE, expiresAt: clock.now() + 1 });
    const lost = await add(store, { settings, queue: "c", maxAttempts: 1 });
    const leased = await claimOne(store, { queues: ["c"] });
    await store.start([{ id: lost, fence: leased.fence, startedAt: clock.now() }]);
    const stopped = await add(store, { settings, queue: "d" });
    await claimOne(store, { queues: ["d"] });
    await store.cancel([stopped]);
    await clock.advance(LEASE_MS);
    assert.equal((await store.expireOverdue(10)).length, 1);
    assert.equal((await store.reapExpiredLeases(10)).length, 2);
    assert.equal((await recordOf(store, lost)).state, "dead");
    await clock.advance(2 * MINUTE);
    assert.equal(await store.purgeDue(10), 2, "the dead ones");
    await clock.advance(MINUTE);
    assert.equal(await store.purgeDue(10), 2, "the cancelled ones");
  });

  test("a cancellation overrides the outcome and its purge time is that of the state", async ({ store, clock }) => {
    const id = await add(store, { settings: { keepMs: { cancelled: SECOND } } });
    const job = await claimOne(store);
    await store.cancel([id]);
    assert.equal(await settleOne(store, outcomeOf(job, "failed")), "cancelled");
    await clock.advance(SECOND);
    assert.equal(await store.purgeDue(10), 1);
  });

  test("the purge time of an outcome that a cancellation overrides is ignored", async ({ store, clock }) => {
    const settings = { keepMs: { cancelled: MINUTE } };
    const outcomes = [
      { to: "dead", keep: true },
      { to: "dead", keep: false },
      { to: "failed", keep: true },
    ] as const;
    for (const { to, keep } of outcomes) {
      const own = await add(store, { settings });
      const plain = await add(store);
      const jobs = await claim(store);
      await store.cancel([own, plain]);
      for (const job of jobs)
        assert.equal(await settleOne(store, outcomeOf(job, to, { keep, purgeMs: SECOND })), "cancelled");
      await clock.advance(SECOND);
      assert.equal(await store.purgeDue(10), 0, to);
      assert.equal(await store.purge({ state: "cancelled", before: clock.now(), keep: null, limit: 10 }), 1);
      assert.deepEqual(await ids(store), [own]);
      await clock.advance(MINUTE);
      assert.equal(await store.purgeDue(10), 1);
    }
  });

  test("a retried job has no purge time", async ({ store, clock }) => {
    const id = await add(store, { settings: { keepMs } });
    await finish(store, await claimOne(store), "dead");
    await store.retry([id]);
    await clock.advance(10 * MINUTE);
    assert.equal(await store.purgeDue(10), 0);
    assert.deepEqual(await claimIds(store), [id]);
  });

  test("a purge by count neither counts nor deletes jobs with their own time", async ({ store, clock }) => {
    await addAll(store, [...newJobs(3, { settings: { keepMs } }), ...newJobs(4)]);
    for (const job of await claim(store)) await finish(store, job, "completed");
    await clock.advance(SECOND);
    assert.equal(await store.purge({ state: "completed", before: null, keep: 4, limit: 10 }), 0);
    assert.equal(await store.purge({ state: "completed", before: null, keep: 3, limit: 10 }), 1);
    assert.equal(await store.purge({ state: "completed", before: null, keep: 1, limit: 1 }), 1);
    assert.equal(await store.purge({ state: "completed", before: null, keep: 0, limit: 10 }), 2);
    assert.equal((await ids(store)).length, 3);
  });
}

function pauseCases(test: DefineCase): void {
  test("a pause of all queues stops every claim", async ({ store }) => {
    const id = await add(store, { queue: "mail" });
    await store.pause("slow");
    await store.pause(ALL_QUEUES);
    await assertNothingToClaim(store);
    await assertNothingToClaim(store, { queues: ["mail"] });
    await assertNothingToClaim(store, { types: ["mail"] });
    assert.equal((await store.stats()).oldestDueMs, null);
    const paused = (await store.queues()).filter((each) => each.paused).map((each) => each.queue);
    assert.deepEqual(paused.toSorted(), [ALL_QUEUES, "slow"]);
    await store.resume("mail");
    await assertNothingToClaim(store);
    await store.resume(ALL_QUEUES);
    assert.deepEqual(await claimIds(store), [id]);
    assert.deepEqual(
      (await store.queues()).filter((each) => each.paused).map((each) => each.queue),
      ["slow"],
    );
  });
}

function listCases(test: DefineCase): void {
  const found = async (store: Store, filter: JobFilter, order: "newest" | "oldest", limit = 2): Promise<string[]> => {
    const ids: string[] = [];
    let cursor: string | null = null;
    do {
      const page: Awaited<ReturnType<Store["list"]>> = await store.list(filter, { limit, cursor, order });
      ids.push(...page.jobs.map((job) => job.id));
      cursor = page.cursor;
    } while (cursor !== null);
    return ids;
  };

  test("lists in both orders, by any filter", async ({ store, clock }) => {
    const ids: string[] = [];
    for (let n = 0; n < 7; n++) {
      ids.push(await add(store, { user: n % 2 === 0 ? "ada" : "bob", tags: [`t${n % 3}`], type: `type${n % 2}` }));
      await clock.advance(1);
    }
    // Any three of them: not every store claims in strict order.
    const completed = new Set<string | undefined>();
    for (const job of await claim(store, { limit: 3 })) {
      await finish(store, job, "completed");
      completed.add(job.id);
    }
    const filters: [JobFilter, (n: number) => boolean][] = [
      [{}, () => true],
      [{ user: "ada" }, (n) => n % 2 === 0],
      [{ tag: "t1" }, (n) => n % 3 === 1],
      [{ types: ["type1"] }, (n) => n % 2 === 1],
      [{ states: ["completed"] }, (n) => completed.has(ids[n])],
      [{ states: ["pending"] }, (n) => !completed.has(ids[n])],
    ];
    for (const [filter, fits] of filters) {
      const expected = ids.filter((_, n) => fits(n));
      assert.deepEqual(await found(store, filter, "oldest"), expected, JSON.stringify(filter));
      assert.deepEqual(await found(store, filter, "newest"), expected.toReversed(), JSON.stringify(filter));
    }
  });

  test("lists the jobs of a parent, live and finished", async ({ store }) => {
    const ids = await addAll(store, [
      newJob({ parent: PARENT }),
      newJob({ parent: OTHER }),
      newJob(),
      newJob({ parent: PARENT, user: "ada" }),
      newJob({ parent: PARENT, delayMs: MINUTE }),
    ]);
    const job = await claimOne(store);
    await finish(store, job, "completed");
    const children = [0, 3, 4].map((n) => ids[n] as string);
    assert.deepEqual(await found(store, { parent: PARENT }, "oldest"), children);
    assert.deepEqual(await found(store, { parent: PARENT }, "newest"), children.toReversed());
    assert.deepEqual(await found(store, { parent: PARENT, user: "ada" }, "newest"), [ids[3]]);
    const finished = children.filter((id) => id === job.id);
    assert.deepEqual(await found(store, { parent: PARENT, states: ["completed"] }, "newest"), finished);
    await store.remove([ids[3] as string]);
    assert.deepEqual(await found(store, { parent: PARENT }, "oldest"), [ids[0], ids[4]]);
  });

  test("lists jobs by id, and by priority", async ({ store }) => {
    const ids = await addAll(
      store,
      [0, 5, 5, -3].map((priority) => newJob({ priority })),
    );
    const some = [ids[3], ids[0], PARENT, ids[0]] as string[];
    assert.deepEqual(await found(store, { ids: some }, "oldest", 1), [ids[0], ids[3]]);
    assert.deepEqual(await found(store, { ids: some, priority: -3 }, "oldest"), [ids[3]]);
    assert.deepEqual(await found(store, { ids: [] }, "oldest"), []);
    assert.deepEqual(await found(store, { priority: 5 }, "newest", 1), [ids[2], ids[1]]);
    assert.deepEqual(await found(store, { ids: some, user: "ada" }, "oldest"), []);
  });
}
