import { isState, type State } from "../../../../job/state.js";
import type { TransitionRecord } from "../../../../store.js";
import { numberOf, stringOf, type Item } from "../../connection/attributes.js";
import type { StreamRecord } from "../../connection/streams.js";
import { idOf, isJobKey } from "../../jobs/item-keys.js";

/** The transition that a change of an item was; null for all other changes. A write of a job is at most one transition. */
export function transitionOf({ before, after }: Pick<StreamRecord, "before" | "after">): TransitionRecord | null {
  // The time to live deletes finished jobs. Every other deletion leaves a tombstone.
  if (after === null || !isJobKey(stringOf(after, "pk") ?? "", stringOf(after, "sk") ?? "")) return null;
  const isDropped = after["dropped"] !== undefined;
  // The waits for the deleted job have ended.
  if (isDropped && before?.["dropped"] !== undefined) return null;
  const to = isDropped ? stringOf(after, "ended") : stateAfter(before, after);
  // The tombstone has no other attributes of the job.
  const job = isDropped ? before : after;
  if (job === null || !isState(to)) return null;
  return {
    id: idOf(stringOf(after, "pk") ?? ""),
    type: stringOf(job, "type") ?? "",
    queue: stringOf(job, "queue") ?? "",
    to,
    at: numberOf(after, isDropped ? "ended_at" : "updated_at") ?? 0,
  };
}

function stateAfter(before: Item | null, after: Item): State | null {
  const state = stringOf(after, "state") as State | null;
  // A new job, perhaps with the id of one that was deleted.
  if (before === null || before["dropped"] !== undefined || !isSame("listed", before, after)) return state;
  // The fence: an expired lease was claimed again.
  if (!isSame("state", before, after) || !isSame("fence", before, after)) return state;
  return isReplaced(before, after) ? state : null;
}

/** Whether another enqueue has replaced a pending job. Of the changes of a waiting job, only an update writes `changed`. */
function isReplaced(before: Item, after: Item): boolean {
  if (stringOf(after, "state") !== "pending") return false;
  return after["changed"] === undefined || isSame("changed", before, after);
}

function isSame(name: string, before: Item, after: Item): boolean {
  return JSON.stringify(before[name]) === JSON.stringify(after[name]);
}
