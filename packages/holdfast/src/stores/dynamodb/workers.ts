import type { SeenWorker, WorkerRecord } from "../../store.js";
import { flagOf, itemOf, numberOf, textOf } from "./attributes.js";
import { Change } from "./expressions.js";
import { isGone, ttlSeconds } from "./items.js";
import { WORKERS } from "./keys.js";
import type { Table } from "./table.js";

const KEPT_MS = 3_600_000;

export async function beat(table: Table, worker: WorkerRecord, now: number): Promise<void> {
  const record = JSON.stringify(worker);
  await table.put(itemOf({ pk: WORKERS, sk: worker.id, record, seen_at: now, ttl: ttlSeconds(now + KEPT_MS) }));
}

export async function leave(table: Table, id: string, now: number): Promise<void> {
  const change = new Change().set({ gone: true, seen_at: now }).when("attribute_exists(#pk)");
  await table.update({ pk: WORKERS, sk: id }, change);
}

export async function workers(table: Table, now: number): Promise<SeenWorker[]> {
  const found = await table.all({ hash: WORKERS, consistent: true });
  return found
    .filter((item) => !isGone(item, now))
    .map((item) => ({
      ...(JSON.parse(textOf(item, "record") ?? "null") as WorkerRecord),
      seenAt: numberOf(item, "seen_at") ?? 0,
      left: flagOf(item, "gone"),
    }));
}
