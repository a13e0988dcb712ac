import assert from "node:assert/strict";
import {
  add,
  addAll,
  assertNothingToClaim,
  claimIds,
  claimOne,
  failureOf,
  insertOne,
  key,
  LEASE_MS,
  newJob,
  newJobs,
  outcomeOf,
  recordOf,
  settleOne,
  stateOf,
} from "./builders.js";
import type { DefineCase } from "./scene.js";

export function transactionCases(test: DefineCase): void {
  test.needing(["transactions"], "calls with tx are synchronous if the store says so", async (scene) => {
    const { store } = scene;
    const { synchronous } = store.capabilities;
    await add(store);
    const lease = await claimOne(store);
    const transaction = await scene.begin();
    const inserted = store.insertIn(transaction.tx, [newJob()]);
    assert.equal(inserted instanceof Promise, !synchronous);
    await inserted;
    const settled = store.settleIn(transaction.tx, outcomeOf(lease, "completed"), null);
    assert.equal(settled instanceof Promise, !synchronous);
    assert.equal(await settled, "applied");
    await transaction.commit();
  });

  test.needing(["transactions"], "insertIn takes effect on commit", async (scene) => {
    const { store } = scene;
    const jobs = newJobs(3);
    const transaction = await scene.begin();
    assert.deepEqual(
      await store.insertIn(transaction.tx, jobs),
      jobs.map(() => ({ status: "inserted" })),
    );
    await transaction.commit();
    assert.deepEqual(
      await claimIds(store),
      jobs.map((job) => job.id),
    );
  });

  test.needing(["transactions"], "a rolled-back insertIn leaves no job and no key", async (scene) => {
    const { store } = scene;
    const job = newJob({ unique: key("k"), input: `"${"x".repeat(2_000)}"`, queue: "new", tags: ["t"] });
    const transaction = await scene.begin();
    assert.deepEqual(await store.insertIn(transaction.tx, [job]), [{ status: "inserted" }]);
    await transaction.rollback();
    assert.equal(await store.get(job.id), null);
    await assertNothingToClaim(store);
    assert.deepEqual((await store.stats()).counts, []);
    assert.deepEqual(await insertOne(store, newJob({ unique: key("k") })), { status: "inserted" });
  });

  test.needing(["transactions"], "insertIn detects duplicate keys and ids", async (scene) => {
    const { store } = scene;
    const holder = newJob({ unique: key("k") });
    await addAll(store, [holder]);
    const transaction = await scene.begin();
    const results = await store.insertIn(transaction.tx, [
      newJob({ unique: key("k") }),
      holder,
      newJob({ maxAttempts: 0 }),
      newJob({ unique: key("k", { onConflict: "reject" }) }),
    ]);
    await transaction.commit();
    assert.deepEqual(results[0], { status: "duplicate", of: holder.id, replaced: false });
    assert.deepEqual(results[1], { status: "duplicate", of: holder.id, replaced: false });
    assert.equal(results[2]?.status, "refused");
    assert.deepEqual(results[3], { status: "refused", reason: "key-held", of: holder.id });
    assert.deepEqual(await claimIds(store), [holder.id]);
  });

  test.needing(["transactions"], "settleIn takes effect on commit", async (scene) => {
    const { store } = scene;
    const id = await add(store, { unique: key("k") });
    const job = await claimOne(store);
    const outcome = outcomeOf(job, "completed", { output: `{"sent":1}`, startedAt: 5 });
    const note = {
      id,
      fence: job.fence,
      progress: { fraction: 1, note: "all", data: null },
      log: [{ at: 1, line: "done" }],
    };
    const transaction = await scene.begin();
    assert.equal(await store.settleIn(transaction.tx, outcome, note), "applied");
    assert.equal(await stateOf(store, id), "claimed", "not visible before the commit");
    await transaction.commit();
    const { state, output, log, progress } = await recordOf(store, id);
    assert.deepEqual([state, output, log, progress], ["completed", outcome.output, note.log, note.progress]);
    assert.equal(await settleOne(store, outcome), "applied", "a repetition changes nothing");
    const second = await scene.begin();
    assert.equal(await store.settleIn(second.tx, outcome, null), "lost", "nothing is done twice");
    await second.rollback();
    assert.deepEqual((await store.stats()).lastMinute.completed, 1);
    assert.deepEqual(await insertOne(store, newJob({ unique: key("k") })), { status: "inserted" });
  });

  test.needing(["transactions"], "a rolled-back settleIn leaves the lease held", async (scene) => {
    const { store } = scene;
    const id = await add(store);
    const job = await claimOne(store);
    for (const keep of [true, false]) {
      const transaction = await scene.begin();
      assert.equal(await store.settleIn(transaction.tx, outcomeOf(job, "completed", { keep }), null), "applied");
      await transaction.rollback();
    }
    assert.equal(await stateOf(store, id), "claimed");
    assert.deepEqual(await store.extend([job], LEASE_MS), ["kept"]);
    assert.equal(await settleOne(store, failureOf(job, "rolled back")), "applied");
  });

  test.needing(["transactions"], "settleIn with a lost lease changes nothing", async (scene) => {
    const { store, clock } = scene;
    const id = await add(store);
    const old = await claimOne(store);
    await clock.advance(LEASE_MS + 1);
    await claimOne(store);
    const transaction = await scene.begin();
    assert.equal(await store.settleIn(transaction.tx, outcomeOf(old, "completed"), null), "lost");
    await transaction.commit();
    assert.equal(await stateOf(store, id), "claimed");
  });

  test.needing(["transactions"], "settleIn with keep: false deletes the job", async (scene) => {
    const { store } = scene;
    const id = await add(store, { tags: ["t"] });
    const outcome = outcomeOf(await claimOne(store), "completed", { keep: false });
    const transaction = await scene.begin();
    assert.equal(await store.settleIn(transaction.tx, outcome, null), "applied");
    await transaction.commit();
    assert.equal(await store.get(id), null);
    assert.deepEqual((await store.stats()).counts, []);
  });
}
