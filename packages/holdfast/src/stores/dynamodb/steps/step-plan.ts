import type { StepWrite } from "../../../store.js";
import { itemBytes, itemOf, stringOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import type { TransactItem } from "../connection/table.js";
import { idIsFree } from "../jobs/insert.js";
import { eventKey, jobKey, openChildKey, stepKey, waiterKey } from "../jobs/item-keys.js";
import { newItem, type Draft } from "../jobs/items.js";
import { addAwaiter, awaiterList, type Awaiter } from "./awaiters.js";
import { waiterMark } from "./events.js";
import { isWaitingStep, stepItem, type TopicEnd } from "./step-items.js";
import { eventOf, jobOf } from "./topics.js";
import type { HeldLease } from "./step-transaction.js";

/** What a write of a step has to do with the job that it waits for. */
export type Child =
  /** It is inserted. */
  | "inserted"
  /** It exists, and the step is added to those that wait for it. */
  | "exists"
  /** The step is one of them already, or does not wait for a job. */
  | "known"
  /** It must be read first. */
  | "unread";

/** A write of a step, with what was found of it and of its topic. */
export interface Plan {
  /** Its place in the call. */
  at: number;
  write: StepWrite;
  draft: Draft | null;
  /** The step as it was read; null if there is none. */
  before: Item | null;
  /** The item of the event that it waits for. */
  head: Item | null;
  child: Child;
  /** How its topic has ended. */
  end: TopicEnd | null;
}

/** One write of the transaction. `role`: what it means if its condition fails. */
export interface PlannedItem {
  item: TransactItem;
  role: "step" | "event" | "child" | "other";
}

export function newPlan(
  given: Pick<Plan, "at" | "write" | "draft" | "head">,
  before: Item | null,
  listed: string,
): Plan {
  const plan: Plan = { ...given, before: null, child: "known", end: null };
  setBefore(plan, before, listed);
  return plan;
}

/** The step was found like this. Steps of an earlier job with the same id do not count. */
export function setBefore(plan: Plan, found: Item | null, listed: string): void {
  const { write, draft } = plan;
  plan.before = found !== null && stringOf(found, "listed") === listed ? found : null;
  const waitsForJob = write.to === "waiting" && jobOf(write.topic) !== null;
  plan.child = !waitsForJob ? "known" : plan.before === null && draft !== null ? "inserted" : "unread";
}

/** The step that this write stores. */
export function plannedStep({ write, before, end }: Plan, { listed }: HeldLease, now: number): Item {
  return stepItem(write, listed, before, end, now);
}

/** The writes of a step, without that of its job. `marked`: the events that the transaction marks already. */
export function itemsOf(
  plan: Plan,
  lease: HeldLease,
  marked: Set<string>,
  version: string,
  now: number,
): PlannedItem[] {
  const { write, before, end } = plan;
  const { id, name, member } = write;
  const { listed } = lease;
  const waits = write.to === "waiting" && end === null;
  const [event, child] = [eventOf(write.topic), jobOf(write.topic)];
  const topicBefore = before === null ? null : stringOf(before, "topic");
  const eventBefore = eventOf(topicBefore);
  const isSame = waits && topicBefore === write.topic;
  const items: PlannedItem[] = [
    { item: { put: plannedStep(plan, lease, now), when: ifUnchanged(before, listed) }, role: "step" },
  ];
  const add = (item: TransactItem, role: PlannedItem["role"] = "other"): void => void items.push({ item, role });
  if (eventBefore !== null && !isSame) add({ delete: waiterKey(eventBefore, id, name, member) });
  if (jobOf(topicBefore) !== null && !isSame) add({ delete: openChildKey(id, name, member) });
  if (waits && event !== null && !isSame) {
    add({ put: itemOf({ ...waiterKey(event, id, name, member), listed, name, member }) });
    if (!marked.has(event)) add({ update: eventKey(event), change: waiterMark(version, now) }, "event");
    marked.add(event);
  }
  if (waits && child !== null) {
    if (!isSame) add({ put: itemOf({ ...openChildKey(id, name, member), listed, child }) });
    const awaiter: Awaiter = { listed, name, member, wake: write.wake };
    if (plan.child === "inserted" && plan.draft !== null) {
      const item = { ...newItem(plan.draft), awaited: awaiterList(awaiter) };
      add({ put: item, when: idIsFree(plan.draft) }, "child");
    } else if (plan.child === "exists")
      add({ update: jobKey(child), change: ifLive(addAwaiter(new Change(), awaiter)) }, "child");
  }
  return items;
}

function ifUnchanged(before: Item | null, listed: string): Change {
  const change = new Change();
  return before === null
    ? change.when(`attribute_not_exists(#pk) OR #listed <> ${change.value(listed)}`)
    : change.when(`#state = ${change.value("waiting")}`, `#listed = ${change.value(listed)}`);
}

/** A condition: the job has not ended, so the wait ends with it. */
function ifLive(change: Change): Change {
  return change.when(
    "attribute_exists(#pk)",
    "attribute_not_exists(#dropped)",
    change.isIn("state", ["pending", "failed", "claimed", "running"]),
  );
}

/** Whether the step has ended, so that nothing is written. */
export function hasEnded({ before }: Plan): boolean {
  return before !== null && !isWaitingStep(before);
}

// DynamoDB's limits are 100 writes and 4 MB. One write is that of the job.
const MAX_WRITES = 99;
const MAX_BYTES = 3_500_000;
// The writes of a step that waits for a topic: itself, what names it as a waiter, and the event or the job.
const TOPIC_WRITES = 3;

/** Parts that fit into a transaction each. The same step, event waiter or child comes once in a part. */
export function chunksOf(plans: readonly Plan[], lease: HeldLease, now: number): Plan[][] {
  const chunks: Plan[][] = [];
  let [writes, bytes] = [0, 0];
  let used = new Set<string>();
  for (const plan of plans) {
    const { write, draft } = plan;
    const takes = (write.to === "waiting" && write.topic !== null ? TOPIC_WRITES : 1) + (plan.before === null ? 0 : 1);
    const size = itemBytes(plannedStep(plan, lease, now)) + (draft === null ? 0 : itemBytes(newItem(draft))) + 1_000;
    const names = [JSON.stringify(stepKey(write.id, write.name, write.member))];
    const child = write.child?.id ?? jobOf(write.topic);
    if (child !== null) names.push(child);
    const fits = writes + takes <= MAX_WRITES && bytes + size <= MAX_BYTES && !names.some((name) => used.has(name));
    if (!fits || chunks.length === 0) {
      chunks.push([]);
      [writes, bytes, used] = [0, 0, new Set()];
    }
    chunks.at(-1)?.push(plan);
    writes += takes;
    bytes += size;
    for (const name of names) used.add(name);
  }
  return chunks;
}
