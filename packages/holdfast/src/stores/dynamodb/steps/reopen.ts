import { itemOf, numberOf, stringOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import { inParts } from "../connection/in-parts.js";
import type { Table, TransactItem } from "../connection/table.js";
import { endOfPrefix, jobKey, openChildKey, stepKey, stepsNamed } from "../jobs/item-keys.js";
import type { JobItem } from "../jobs/items.js";
import { jobOf } from "./topics.js";

const CONCURRENT = 8;

/**
 * Reopens failed steps with these names: those that waited for a job wait again, others are deleted. A step that waits for a job again
 * is not registered at that job: the next attempt stores it again, and sees how the job ended, or begins to wait.
 */
export async function reopenWrites(table: Table, job: JobItem, names: readonly string[]): Promise<TransactItem[]> {
  const found = await inParts([...new Set(names)], CONCURRENT, (name) => {
    const prefix = stepsNamed(name);
    return table.all({ hash: jobKey(job.id).pk, from: prefix, below: endOfPrefix(prefix), consistent: true });
  });
  return found
    .flat()
    .filter((step) => stringOf(step, "state") === "failed" && stringOf(step, "listed") === job.listed)
    .flatMap((step) => reopened(job, step));
}

function reopened({ id, listed }: JobItem, step: Item): TransactItem[] {
  const [name, member] = [stringOf(step, "name") ?? "", numberOf(step, "member") ?? 0];
  const key = stepKey(id, name, member);
  const change = new Change();
  change.when(`#state = ${change.value("failed")}`, `#listed = ${change.value(listed)}`);
  if (stringOf(step, "kind") !== "job") return [{ delete: key, when: change }];
  const child = jobOf(stringOf(step, "topic"));
  return [
    { update: key, change: change.set({ state: "waiting", failure: null }) },
    { put: itemOf({ ...openChildKey(id, name, member), listed, child }) },
  ];
}
