import type { HeartbeatResult, StoredWorker, WorkerRecord } from "../../../store.js";
import { flagOf, numberOf, stringOf } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import { waitForAll } from "./insert.js";
import { isDeleted, ttlSeconds } from "./items.js";
import { WORKERS } from "./item-keys.js";
import type { Table } from "../connection/table.js";

const KEPT_MS = 3_600_000;
const MAX_PURGED = 5_000;

export async function heartbeat(table: Table, worker: WorkerRecord, now: number): Promise<HeartbeatResult> {
  const change = new Change().set({ record: JSON.stringify(worker), seen_at: now, ttl: ttlSeconds(now + KEPT_MS) });
  // An update, because a put would overwrite whether the worker is to drain.
  const written = await table.update({ pk: WORKERS, sk: worker.id }, change.remove("gone"));
  return { draining: written.done && flagOf(written.old ?? {}, "draining") };
}

export async function drainWorker(table: Table, id: string, draining: boolean, now: number): Promise<boolean> {
  const change = new Change().set({ draining: draining ? true : null });
  change.when(
    "attribute_exists(#pk)",
    "attribute_not_exists(#gone)",
    `#ttl > ${change.value(Math.floor(now / 1_000))}`,
  );
  return (await table.update({ pk: WORKERS, sk: id }, change)).done;
}

export async function deregister(table: Table, id: string, now: number): Promise<void> {
  const change = new Change().set({ gone: true, seen_at: now }).when("attribute_exists(#pk)");
  await table.update({ pk: WORKERS, sk: id }, change);
}

export async function workers(table: Table, now: number): Promise<StoredWorker[]> {
  const found: StoredWorker[] = [];
  for await (const page of table.pages({ hash: WORKERS, consistent: true })) {
    for (const item of page) {
      if (isDeleted(item, now)) continue;
      const record = JSON.parse(stringOf(item, "record") ?? "null") as WorkerRecord;
      found.push({
        ...record,
        seenAt: numberOf(item, "seen_at") ?? 0,
        left: flagOf(item, "gone"),
        draining: flagOf(item, "draining"),
      });
    }
  }
  return found;
}

/**
 * Deletes expired worker records. DynamoDB's time to live takes up to days. If workers start and stop all the time,
 * every list of workers would read all those records.
 */
export async function purgeWorkers(table: Table, now: number): Promise<void> {
  let left = MAX_PURGED;
  for await (const page of table.pages({ hash: WORKERS, consistent: true })) {
    const expired = page.filter((item) => isDeleted(item, now)).slice(0, left);
    left -= expired.length;
    await waitForAll(
      expired.map((item) => {
        const change = new Change();
        // Not if the worker has sent another heartbeat.
        change.when(`#ttl <= ${change.value(Math.floor(now / 1_000))}`);
        return table.delete({ pk: WORKERS, sk: stringOf(item, "sk") ?? "" }, change);
      }),
    );
    if (left <= 0) return;
  }
}
