import { isLeased } from "../../../job/state.js";
import type { StepResult } from "../../../store.js";
import { itemBytes, MAX_ITEM_BYTES, type Item } from "../connection/attributes.js";
import { isInvalidItem } from "../connection/errors.js";
import { Change } from "../connection/expressions.js";
import type { Table } from "../connection/table.js";
import { newRequestToken, waitForAll, type Inserts } from "../jobs/insert.js";
import { jobKey } from "../jobs/item-keys.js";
import { readItem, type JobItem } from "../jobs/items.js";
import { ifLeased } from "../jobs/leases.js";
import { isAwaitedBy } from "./awaiters.js";
import { isNoted, keptPayload } from "./events.js";
import { readStep } from "./step-items.js";
import { hasEnded, itemsOf, plannedStep, setBefore, type Plan, type PlannedItem } from "./step-plan.js";
import { eventOf, jobOf } from "./topics.js";
import { endOfJob, type Waits } from "./waits.js";

/** A lease whose job is known. `listed` identifies the job, and not another one with the same id. */
export interface HeldLease {
  id: string;
  fence: number;
  listed: string;
}

const MAX_TRIES = 50;
const LOST: StepResult = { status: "lost" };

/**
 * Stores steps of one job in one transaction: the job, if its lease is held, and each step, if it has not ended, with what it waits for
 * and its child. If a condition fails, the item that failed it shows why, and the transaction is planned again.
 *
 * Lost responses: DynamoDB recognizes a transaction that is sent again. If a caller repeats the call, the steps are found as they were
 * stored.
 */
export class StepTransaction {
  readonly #table: Table;
  readonly #inserts: Inserts;
  readonly #waits: Waits;

  constructor(table: Table, { inserts, waits }: { inserts: Inserts; waits: Waits }) {
    this.#table = table;
    this.#inserts = inserts;
    this.#waits = waits;
  }

  async save(plans: readonly Plan[], lease: HeldLease, now: number): Promise<StepResult[]> {
    const results = new Map<Plan, StepResult>();
    for (const plan of plans) {
      const bytes = itemBytes(plannedStep(plan, lease, now));
      const error = `the step has ${bytes} bytes; a DynamoDB item holds ${MAX_ITEM_BYTES}. Store its result elsewhere and return a reference`;
      if (bytes > MAX_ITEM_BYTES) results.set(plan, { status: "refused", error });
    }
    const left = plans.filter((plan) => !results.has(plan));
    try {
      await this.#write(left, lease, results, now);
    } catch (error) {
      if (!isInvalidItem(error)) throw error;
      // One that DynamoDB can never store must not keep the others from being stored.
      if (left.length > 1) for (const plan of left) results.set(plan, (await this.save([plan], lease, now))[0] ?? LOST);
      for (const plan of left) if (!results.has(plan)) results.set(plan, refused(error));
    } finally {
      for (const plan of plans) await this.#dropUnusedInput(plan, results.get(plan));
    }
    return plans.map((plan) => results.get(plan) ?? LOST);
  }

  async #write(given: readonly Plan[], lease: HeldLease, results: Map<Plan, StepResult>, now: number): Promise<void> {
    let left = given;
    let isCancelled = false;
    for (let trial = 0; left.length > 0; trial++) {
      if (trial === MAX_TRIES) throw new Error(`the steps of job ${lease.id} could not be stored: too many conflicts`);
      await waitForAll(left.map((plan) => this.#prepare(plan, lease, now)));
      const open = left.filter((plan) => !hasEnded(plan));
      if (open.length < left.length) {
        // These were found and not written, so that nothing has shown yet whether the lease is held.
        const job = await this.#held(lease);
        for (const plan of job === null ? left : left.filter(hasEnded)) results.set(plan, resultOf(plan, job));
        if (job === null) return;
        isCancelled ||= job.cancelAt !== null;
        left = open;
        if (left.length === 0) return;
      }
      const marked = new Set<string>();
      const version = newRequestToken();
      const planned = left.map((plan) => itemsOf(plan, lease, marked, version, now));
      const job = { update: jobKey(lease.id), change: ofHolder(lease, isCancelled) };
      const written = await this.#table.transact([job, ...planned.flat().map(({ item }) => item)]);
      if (written.done) {
        for (const plan of left) {
          results.set(plan, { status: isCancelled ? "cancel" : "kept", step: readStep(plannedStep(plan, lease, now)) });
          if (plan.child === "inserted" && plan.draft !== null) this.#inserts.recordInserted(plan.draft);
        }
        return;
      }
      const [ofJob, ...failed] = written.failed;
      if (ofJob !== undefined) {
        const found = ofJob === null || !isHeld(ofJob, lease) ? null : readItem(ofJob);
        if (found === null) {
          for (const plan of left) results.set(plan, LOST);
          return;
        }
        isCancelled = found.cancelAt !== null;
      }
      this.#learn(left, planned, failed, lease);
    }
  }

  /** Takes what the failed conditions have shown. */
  #learn(
    plans: readonly Plan[],
    planned: readonly PlannedItem[][],
    failed: readonly (Item | null | undefined)[],
    lease: HeldLease,
  ): void {
    let at = 0;
    for (const [nth, items] of planned.entries()) {
      const plan = plans[nth] as Plan;
      for (const { role } of items) {
        const found = failed[at++];
        if (found === undefined) continue;
        if (role === "step") setBefore(plan, found, lease.listed);
        else if (role === "child") plan.child = "unread";
        else if (role === "event") {
          const event = eventOf(plan.write.topic);
          for (const other of plans) if (eventOf(other.write.topic) === event) other.head = found;
        }
      }
    }
  }

  /** Finds out how the topic has ended, if it has, and writes the input of the child. */
  async #prepare(plan: Plan, lease: HeldLease, now: number): Promise<void> {
    const { write, draft, head } = plan;
    if (hasEnded(plan) || write.to !== "waiting") return;
    if (eventOf(write.topic) !== null) {
      const payload = keptPayload(head, now);
      plan.end = payload === null ? null : { value: payload, failure: null };
      if (head !== null && payload === null && isNoted(head)) {
        await this.#waits.completeEvent(head, now);
        plan.head = null;
      }
    }
    const child = jobOf(write.topic);
    if (plan.child === "unread" && child !== null) {
      const found = await this.#table.get(jobKey(child));
      plan.end = endOfJob(found, now);
      const { name, member, wake } = write;
      const isKnown = found !== null && isAwaitedBy(found, { listed: lease.listed, name, member, wake });
      plan.child = isKnown ? "known" : "exists";
      if (plan.end?.failure?.state === "missing" && draft !== null) {
        // The waits for the deleted job end before another one has its id.
        if (found !== null) await this.#waits.completeJob(found, now);
        plan.end = null;
        plan.child = "inserted";
      }
    }
    if (plan.child === "inserted" && draft !== null) await this.#inserts.writeInput(draft);
  }

  /** Only a child that was inserted refers to its input. */
  async #dropUnusedInput({ draft, child }: Plan, result: StepResult | undefined): Promise<void> {
    if (draft === null || draft.inputKey === null) return;
    const isUsed = child === "inserted" && (result?.status === "kept" || result?.status === "cancel");
    // After an error, the child may have been inserted.
    if (result !== undefined && !isUsed) await this.#inserts.dropInput(draft);
  }

  async #held(lease: HeldLease): Promise<JobItem | null> {
    const found = await this.#table.get(jobKey(lease.id));
    return found !== null && isHeld(found, lease) ? readItem(found) : null;
  }
}

/** The write of the job. It has steps from now on, which are other items of it. */
function ofHolder(lease: HeldLease, isCancelled: boolean): Change {
  const change = ifLeased(new Change().set({ steps: true, beside: true }), lease);
  change.when(`#listed = ${change.value(lease.listed)}`);
  // If it fails, the item shows that a cancellation was requested.
  return change.when(`attribute_${isCancelled ? "" : "not_"}exists(#cancel_at)`);
}

function isHeld(item: Item, { fence, listed }: HeldLease): boolean {
  const job = readItem(item);
  return item["dropped"] === undefined && job.fence === fence && job.listed === listed && isLeased(job.state);
}

function resultOf({ before }: Plan, job: JobItem | null): StepResult {
  if (job === null || before === null) return LOST;
  return { status: job.cancelAt === null ? "kept" : "cancel", step: readStep(before) };
}

function refused(error: unknown): StepResult {
  return { status: "refused", error: (error as Error).message };
}
