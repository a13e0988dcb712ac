import { itemOf, numberOf, textOf, type Item } from "../connection/attributes.js";
import { deleteBeside } from "./job-details.js";
import { Change } from "../connection/expressions.js";
import { ttlSeconds, type JobItem } from "./items.js";
import { jobKey, uniqueKey } from "./keys.js";
import type { Table, Written } from "../connection/table.js";

// Longer than anybody repeats an enqueue that was not answered.
const REMEMBERED_MS = 300_000;

/**
 * Deletes a job, if it is as `when` says. In its place stays, for a while, which enqueue it came from: that may not have
 * been answered yet, and its repetition must not bring the job back. It is gone for everybody else, and DynamoDB clears
 * away what is left. A put costs what a delete does.
 */
export async function deleteJob(table: Table, job: JobItem, when: Change, now: number): Promise<Written> {
  const { id, fence, listed } = job;
  const left = itemOf({ ...jobKey(id), dropped: fence, listed, ttl: ttlSeconds(now + REMEMBERED_MS) });
  const written = await table.put(left, when);
  const isOurs = !written.done && written.repeated && written.found !== null && isLeft(written.found, job);
  return isOurs ? { done: true, old: null } : written;
}

function isLeft(found: Item, { fence, listed }: JobItem): boolean {
  return numberOf(found, "dropped") === fence && textOf(found, "listed") === listed;
}

/** Deletes what a deleted job leaves behind: what it had beside it, and its key in one of these scopes, if still its own. */
export async function deleteTraces(table: Table, job: JobItem, scopes: readonly string[], now: number): Promise<void> {
  const { key, scope, item, inputAt } = job;
  if (inputAt !== null || item["beside"] !== undefined) await deleteBeside(table, job, now);
  if (key !== null && scope !== null && scopes.includes(scope)) await deleteKey(table, key, job);
}

/** Unless it is another job's by now, be it one of the same id. */
export async function deleteKey(table: Table, key: string, { id, listed }: Holder): Promise<void> {
  const change = new Change();
  change.when(`#job = ${change.value(id)}`, `#listed = ${change.value(listed)}`);
  await table.delete(uniqueKey(key), change);
}
type Holder = Pick<JobItem, "id" | "listed">;
