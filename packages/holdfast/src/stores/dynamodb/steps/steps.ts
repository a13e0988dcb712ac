import type { JobSteps, NewJob, StepResult, StepWrite } from "../../../store.js";
import { stringOf, type Item } from "../connection/attributes.js";
import type { SharedConfig } from "../connection/config.js";
import { inParts } from "../connection/in-parts.js";
import type { Table } from "../connection/table.js";
import { refusalOf, type Inserts } from "../jobs/insert.js";
import { endOfPrefix, eventKey, jobKey, OPEN_CHILDREN, stepKey, STEPS, type Key } from "../jobs/item-keys.js";
import { isDeleted, readItem, wakesOfItem, type Draft } from "../jobs/items.js";
import type { LeaseCache } from "../jobs/lease-cache.js";
import { readStep } from "./step-items.js";
import { chunksOf, newPlan, type Plan } from "./step-plan.js";
import { StepTransaction, type HeldLease } from "./step-transaction.js";
import { eventOf } from "./topics.js";
import type { Waits } from "./waits.js";

// Jobs whose steps are stored at a time.
const CONCURRENT_JOBS = 16;

interface Parts {
  config: SharedConfig;
  inserts: Inserts;
  leaseCache: LeaseCache;
  waits: Waits;
}

/** Steps of jobs, as items below the key of the job. */
export class Steps {
  readonly #table: Table;
  readonly #parts: Parts;
  readonly #transaction: StepTransaction;

  constructor(table: Table, parts: Parts) {
    this.#table = table;
    this.#parts = parts;
    this.#transaction = new StepTransaction(table, parts);
  }

  async read(job: string, now: number): Promise<JobSteps> {
    // First the job: a wait ends before its wake is counted, so all wakes that are counted here are seen below.
    const item = await this.#table.get(jobKey(job));
    if (item === null || isDeleted(item, now)) return { steps: [], wakes: 0 };
    const { listed } = readItem(item);
    const bounds = { from: STEPS, below: endOfPrefix(STEPS), consistent: true };
    const stored = await this.#table.all({ hash: jobKey(job).pk, ...bounds });
    return {
      wakes: wakesOfItem(item),
      steps: stored
        // A crash may have left steps of a deleted job with this id.
        .filter((step) => stringOf(step, "listed") === listed)
        .map(readStep)
        .toSorted((a, b) => a.order - b.order || a.member - b.member),
    };
  }

  /** Reads the marks of one job after another. */
  async openChildren(jobs: readonly string[], limit: number): Promise<string[]> {
    const found: string[] = [];
    const bounds = { from: OPEN_CHILDREN, below: endOfPrefix(OPEN_CHILDREN), consistent: true };
    for (const job of jobs) {
      for await (const page of this.#table.pages({ hash: jobKey(job).pk, limit, ...bounds })) {
        found.push(...page.map((mark) => stringOf(mark, "child") ?? ""));
        if (found.length >= limit) return found.slice(0, limit);
      }
    }
    return found;
  }

  async save(writes: readonly StepWrite[], now: number): Promise<StepResult[]> {
    const drafts = await this.#draftChildren(writes, now);
    if (writes.some(({ to, topic }) => to === "waiting" && topic !== null)) await this.#parts.waits.prepare();
    const results: StepResult[] = [];
    const jobs = new Map<string, { write: StepWrite; at: number }[]>();
    for (const [at, write] of writes.entries()) {
      const refusal = drafts.refused.get(at);
      if (refusal !== undefined) results[at] = { status: "refused", error: refusal };
      else {
        const name = `${write.id} ${write.fence}`;
        jobs.set(name, [...(jobs.get(name) ?? []), { write, at }]);
      }
    }
    await inParts([...jobs.values()], CONCURRENT_JOBS, (some) => this.#saveOfJob(some, drafts.of, results, now));
    return results;
  }

  /** Children that cannot be stored are refused. */
  async #draftChildren(
    writes: readonly StepWrite[],
    now: number,
  ): Promise<{ of: ReadonlyMap<number, Draft>; refused: ReadonlyMap<number, string> }> {
    const children = [...writes.entries()].flatMap(([at, { child }]) => (child === null ? [] : [{ at, child }]));
    const of = new Map<number, Draft>();
    const refused = new Map<number, string>();
    if (children.length === 0) return { of, refused };
    const { config, inserts } = this.#parts;
    const ensured = await config.ensureEach<NewJob>(
      children.map(({ child }) => child),
      now,
    );
    for (const { at, child } of children) {
      const draft = inserts.draftOf(child, ensured.shards, now);
      const refusal = refusalOf(draft, ensured.refused);
      if (refusal === null) of.set(at, draft);
      else refused.set(at, refusal.error);
    }
    return { of, refused };
  }

  /** Stores steps of one job in their order. */
  async #saveOfJob(
    some: readonly { write: StepWrite; at: number }[],
    drafts: ReadonlyMap<number, Draft>,
    results: StepResult[],
    now: number,
  ): Promise<void> {
    const lease = await this.#held(some[0]?.write as StepWrite);
    if (lease === null) {
      for (const { at } of some) results[at] = { status: "lost" };
      return;
    }
    const found = await this.#readAhead(some.map(({ write }) => write));
    const plans = some.map(({ write, at }): Plan => {
      const before = found.get(keyName(stepKey(write.id, write.name, write.member))) ?? null;
      const event = eventOf(write.topic);
      const head = event === null ? null : (found.get(keyName(eventKey(event))) ?? null);
      return newPlan({ at, write, draft: drafts.get(at) ?? null, head }, before, lease.listed);
    });
    for (const chunk of chunksOf(plans, lease, now)) {
      const done = await this.#transaction.save(chunk, lease, now);
      for (const [nth, { at }] of chunk.entries()) results[at] = done[nth] as StepResult;
    }
  }

  /** A job that this process has not claimed is read. */
  async #held({ id, fence }: StepWrite): Promise<HeldLease | null> {
    const known = this.#parts.leaseCache.get({ id, fence });
    if (known !== undefined) {
      // DynamoDB's time to live must not delete the job without its steps.
      known.hasDetails = true;
      return { id, fence, listed: known.listed };
    }
    const found = await this.#table.get(jobKey(id));
    if (found === null || found["dropped"] !== undefined) return null;
    const job = readItem(found);
    return job.fence === fence ? { id, fence, listed: job.listed } : null;
  }

  /**
   * Most steps are new, and most events come later. Waits of a job that was claimed before, and steps that failed before, may exist, and
   * are read: a transaction that fails costs more.
   */
  async #readAhead(writes: readonly StepWrite[]): Promise<Map<string, Item>> {
    const keys = writes.flatMap((write): Key[] => {
      const event = write.to === "waiting" ? eventOf(write.topic) : null;
      const isOld = write.kind === "run" ? write.tries > 0 : write.to !== "waiting" || write.fence > 1;
      return [
        ...(isOld ? [stepKey(write.id, write.name, write.member)] : []),
        ...(event === null ? [] : [eventKey(event)]),
      ];
    });
    const items = keys.length === 0 ? [] : await this.#table.getAll(keys);
    return new Map(
      items.map((item) => [keyName({ pk: stringOf(item, "pk") ?? "", sk: stringOf(item, "sk") ?? "" }), item]),
    );
  }
}

function keyName({ pk, sk }: Key): string {
  return JSON.stringify([pk, sk]);
}
