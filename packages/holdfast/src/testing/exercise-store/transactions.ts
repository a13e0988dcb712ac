import assert from "node:assert/strict";
import { addAll, assertNothingToClaim, claimIds, insertOne, key, newJob, newJobs } from "./builders.js";
import type { DefineCase } from "./scene.js";

export function transactionCases(test: DefineCase): void {
  test.needing(["transactions"], "an enqueue in the caller's transaction exists once that commits", async (scene) => {
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

  test.needing(["transactions"], "an enqueue that is rolled back never runs and holds no key", async (scene) => {
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

  test.needing(["transactions"], "keys and ids are guarded inside the caller's transaction too", async (scene) => {
    const { store } = scene;
    const holder = newJob({ unique: key("k") });
    await addAll(store, [holder]);
    const transaction = await scene.begin();
    const answers = await store.insertIn(transaction.tx, [
      newJob({ unique: key("k") }),
      holder,
      newJob({ maxAttempts: 0 }),
      newJob({ unique: key("k", { onConflict: "reject" }) }),
    ]);
    await transaction.commit();
    assert.deepEqual(answers[0], { status: "duplicate", of: holder.id, replaced: false });
    assert.deepEqual(answers[1], { status: "duplicate", of: holder.id, replaced: false });
    assert.equal(answers[2]?.status, "refused");
    assert.deepEqual(answers[3], { status: "refused", reason: "key held", of: holder.id });
    assert.deepEqual(await claimIds(store), [holder.id]);
  });
}
