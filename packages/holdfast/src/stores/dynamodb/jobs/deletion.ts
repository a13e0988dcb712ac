import type { FinishedState } from "../../../job/state.js";
import { itemOf, numberOf, stringOf, type Item } from "../connection/attributes.js";
import { deleteDetails } from "./job-details.js";
import { Change } from "../connection/expressions.js";
import { isAwaited } from "../steps/awaiters.js";
import type { TopicEnd } from "../steps/step-items.js";
import { ttlSeconds, wakeNote, type Fields, type JobItem } from "./items.js";
import { jobKey, uniqueKey } from "./item-keys.js";
import type { Table, Written } from "../connection/table.js";

// Longer than an enqueue whose response was lost is sent again.
const TOMBSTONE_MS = 300_000;
// Until the waits for the job have ended, its end must be found in the tombstone, however long no process runs.
const AWAITED_TOMBSTONE_MS = 90 * 86_400_000;

/**
 * Deletes a job if the condition `when` holds, and leaves a tombstone for five minutes.
 *
 * Lost responses: the enqueue of the job may still be waiting for its response and be sent again. The tombstone names
 * that enqueue, so that it does not create the job a second time. All other operations treat the tombstone as missing,
 * and DynamoDB's time to live deletes it. A put costs as much as a delete.
 *
 * `ended`: the state in which the job finishes with this write. The table's stream has the tombstone, and followers read it there.
 *
 * If steps of other jobs wait for it, `when` must contain that they are those of `job`. They are then in the tombstone, with `end`.
 */
export async function deleteJob(
  table: Table,
  job: JobItem,
  when: Change,
  { now, ended = null, end }: { now: number; ended?: FinishedState | null; end: TopicEnd },
): Promise<Written & { tombstone: Item }> {
  const { id, fence, listed } = job;
  const keptMs = isAwaited(job.item) ? AWAITED_TOMBSTONE_MS : TOMBSTONE_MS;
  const tombstone = itemOf({
    ...jobKey(id),
    dropped: fence,
    listed,
    ...(ended === null ? {} : { ended, ended_at: now }),
    ...(isAwaited(job.item) ? { ...awaitedEnd(job, end), ...wakeNote(job, now) } : {}),
    ttl: ttlSeconds(now + keptMs),
  });
  const written = await table.put(tombstone, when);
  const isOwnWrite = !written.done && written.resent && written.found !== null && isTombstoneOf(written.found, job);
  return { ...(isOwnWrite ? { done: true, old: null } : written), tombstone };
}

function awaitedEnd({ item }: JobItem, { value, failure }: TopicEnd): Fields {
  return { awaited: item["awaited"] ?? null, value, failure: failure === null ? null : JSON.stringify(failure) };
}

function isTombstoneOf(found: Item, { fence, listed }: JobItem): boolean {
  return numberOf(found, "dropped") === fence && stringOf(found, "listed") === listed;
}

/** Deletes the other items of a deleted job, and its unique key if the job still holds it in one of these scopes. */
export async function deleteLeftovers(
  table: Table,
  job: JobItem,
  scopes: readonly string[],
  now: number,
): Promise<void> {
  const { key, scope, item, inputKey } = job;
  if (inputKey !== null || item["beside"] !== undefined) await deleteDetails(table, job, now);
  if (key !== null && scope !== null && scopes.includes(scope)) await deleteKey(table, key, job);
}

/** Deletes a unique key if this job holds it, and not a later job with the same id. */
export async function deleteKey(table: Table, key: string, { id, listed }: Holder): Promise<void> {
  const change = new Change();
  change.when(`#job = ${change.value(id)}`, `#listed = ${change.value(listed)}`);
  await table.delete(uniqueKey(key), change);
}
type Holder = Pick<JobItem, "id" | "listed">;
