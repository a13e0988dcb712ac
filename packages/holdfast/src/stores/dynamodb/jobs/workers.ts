import type { StoredWorker, WorkerRecord } from "../../../store.js";
import { flagOf, itemOf, numberOf, textOf } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import { settled } from "./insert.js";
import { isGone, ttlSeconds } from "./items.js";
import { WORKERS } from "./keys.js";
import type { Table } from "../connection/table.js";

const KEPT_MS = 3_600_000;
const MOST_CLEARED = 5_000;

export async function heartbeat(table: Table, worker: WorkerRecord, now: number): Promise<void> {
  const record = JSON.stringify(worker);
  await table.put(itemOf({ pk: WORKERS, sk: worker.id, record, seen_at: now, ttl: ttlSeconds(now + KEPT_MS) }));
}

export async function deregister(table: Table, id: string, now: number): Promise<void> {
  const change = new Change().set({ gone: true, seen_at: now }).when("attribute_exists(#pk)");
  await table.update({ pk: WORKERS, sk: id }, change);
}

export async function workers(table: Table, now: number): Promise<StoredWorker[]> {
  const found: StoredWorker[] = [];
  for await (const page of table.pages({ hash: WORKERS, consistent: true })) {
    for (const item of page) {
      if (isGone(item, now)) continue;
      const record = JSON.parse(textOf(item, "record") ?? "null") as WorkerRecord;
      found.push({ ...record, seenAt: numberOf(item, "seen_at") ?? 0, left: flagOf(item, "gone") });
    }
  }
  return found;
}

/**
 * Deletes what was kept of workers and is over. DynamoDB would, but only within days: where workers come and go all the
 * time, everybody who asks for them would read all that there were.
 */
export async function clearWorkers(table: Table, now: number): Promise<void> {
  let left = MOST_CLEARED;
  for await (const page of table.pages({ hash: WORKERS, consistent: true })) {
    const gone = page.filter((item) => isGone(item, now)).slice(0, left);
    left -= gone.length;
    await settled(
      gone.map((item) => {
        const change = new Change();
        // Unless it is back.
        change.when(`#ttl <= ${change.value(Math.floor(now / 1_000))}`);
        return table.delete({ pk: WORKERS, sk: textOf(item, "sk") ?? "" }, change);
      }),
    );
    if (left <= 0) return;
  }
}
