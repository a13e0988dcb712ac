import { expect, it } from "vitest";
import { claimOne, finish, insertOne, newJob, recordOf, stateOf } from "#src/testing/exercise-store/builders.js";
import { connect, openStore, tempFile } from "./scene.js";

// Processes of the previous version do not know purge times, and leave them when they retry a job.
const OLD_RETRY = "UPDATE holdfast_jobs SET state = 'pending', due_at = 0, run_at = 0, finished_at = NULL";

it("a job that an older process retried is not purged", async () => {
  const file = tempFile();
  const store = await openStore(file);
  const job = newJob({ settings: { keepMs: { dead: 0, completed: 60_000 } } });
  await insertOne(store, job);
  await finish(store, await claimOne(store), "dead");
  connect(file).exec(OLD_RETRY);
  expect(await store.purgeDue(10)).toBe(0);
  expect(await stateOf(store, job.id)).toBe("pending");
  await finish(store, await claimOne(store));
  expect(await store.purgeDue(10)).toBe(0);
  expect(await stateOf(store, job.id)).toBe("completed");
});

it("the old purge time of such a job ends with its next run", async () => {
  const file = tempFile();
  const store = await openStore(file);
  const job = newJob();
  await insertOne(store, job);
  await finish(store, await claimOne(store), "dead", { purgeMs: 0 });
  connect(file).exec(OLD_RETRY);
  await finish(store, await claimOne(store));
  expect(await store.purgeDue(10)).toBe(0);
  expect((await recordOf(store, job.id)).state).toBe("completed");
});
