import { openStore } from "./open-store.js";
import { claimOf, completed, newJob } from "./store-jobs.js";

const BATCH = 500;

/** Enqueues and completes one job in each queue through the store, so that the store has the lanes of empty queues. */
export async function fillEmptyLanes(url: string, count: number): Promise<void> {
  const store = await openStore(url);
  for (let first = 0; first < count; first += BATCH) {
    const size = Math.min(BATCH, count - first);
    await store.insert(Array.from({ length: size }, (_, nth) => newJob(`tenant-${first + nth}`)));
    const { jobs } = await store.claim(claimOf(size));
    const results = await store.settle(jobs.map(completed));
    const done = results.filter((result) => result === "applied").length;
    if (done !== size) throw new Error(`${done} of ${size} jobs of empty lanes were completed`);
  }
  await store.close();
}
