import { parked, type LeasedJob } from "../engine/worker/decide-outcome.js";
import { eventTopic, jobTopic, PARKED_AT } from "../job/stored-step.js";
import type { JobSteps, NewJob, Outcome, StepKind, StepWrite, Store } from "../store.js";
import { must, same } from "./model-check.js";
import type { JobDraft, LeasePick } from "./model-commands.js";
import { STEP_NAMES, type StepCommand, type StepDraft } from "./model-step-commands.js";
import { pick } from "./model-names.js";
import type { StoreModel } from "./model.js";

interface Parts {
  model: StoreModel;
  asked: ReadonlyMap<string, NewJob>;
  storeOf: (worker?: string) => Store;
  newJob: (draft: JobDraft) => NewJob;
  inserted: (job: NewJob) => void;
  leases: (picks: readonly LeasePick[]) => LeasedJob[];
  /** The store has settled a lease. */
  released: (lease: LeasedJob) => void;
}

const FAILURE = { message: "it broke", code: "E_TEST" };
const MAX_CHILDREN = 100;
const KINDS: readonly StepKind[] = ["run", "event", "job"];
const NO_JOB = "018f4d2e-7b3a-7c11-8a55-00000000000c";

/** Compares the commands about steps. */
export class StepComparison {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async do(command: StepCommand, now: number): Promise<void> {
    const { model } = this.#parts;
    const store = this.#parts.storeOf();
    switch (command.do) {
      case "saveSteps":
        return this.#save(command.steps, now);
      case "emit": {
        const event = { name: command.event, payload: JSON.stringify({ now }), keepMs: command.keepMs };
        return same(await store.emit([event]), [model.steps.emit(event, now)], "the result of emit");
      }
      case "park":
        return this.#park(command, now);
      case "purgeEvents": {
        const old = model.steps.oldEvents(now);
        const purged = await this.#purgeAllEvents(command.limit);
        // 0 also from a database that deletes expired records itself.
        must(
          purged === old || purged === 0,
          () => `purgeEvents deleted ${purged} events, and the time of ${old} is over`,
        );
        return model.steps.purgeEvents(now);
      }
      case "repairWaits":
        return same(await store.repairWaits(command.limit), 0, "the number of jobs that repairWaits woke");
    }
  }

  /** All, because the contract does not say which it deletes first. */
  async #purgeAllEvents(limit: number): Promise<number> {
    let total = 0;
    for (;;) {
      const deleted = await this.#parts.storeOf().purgeEvents(limit);
      must(deleted <= limit, () => `purgeEvents deleted ${deleted} events with the limit ${limit}`);
      total += deleted;
      if (deleted < limit) return total;
    }
  }

  async #save(drafts: readonly StepDraft[], now: number): Promise<void> {
    const { model, storeOf } = this.#parts;
    // A handler stores a step once at a time.
    const seen = new Set<string>();
    const topics = new Set<string | null>();
    const writes: StepWrite[] = [];
    let worker: string | undefined;
    for (const draft of drafts) {
      const [lease] = this.#parts.leases([draft.lease]);
      const key = `${lease?.job.id} ${draft.name} ${KINDS[draft.name] === "job" ? draft.member : 0}`;
      if (lease === undefined || seen.has(key)) continue;
      seen.add(key);
      worker ??= lease.worker;
      const write = this.#write(lease, draft);
      // No job waits for itself, and each child of a handler is another job.
      const isUsual = write.kind !== "job" || (write.topic !== jobTopic(lease.job.id) && !topics.has(write.topic));
      topics.add(write.topic);
      if (isUsual) writes.push(write);
    }
    if (writes.length === 0) return;
    const known = new Set(model.jobs.keys());
    const results = await storeOf(worker).saveSteps(writes);
    const expected = writes.map((write) => model.steps.save(write, now));
    same(results, expected, "the results of saveSteps");
    for (const { child } of writes)
      if (child !== null && model.jobs.has(child.id) && !known.has(child.id)) this.#parts.inserted(child);
  }

  #write({ job }: LeasedJob, draft: StepDraft): StepWrite {
    const { forMs, wake } = draft;
    // As from the engine: within a job, a name has one kind; only children have members, and they are stored as waits only.
    const kind = KINDS[draft.name] ?? "run";
    const member = kind === "job" ? draft.member : 0;
    const to = kind === "job" ? "waiting" : draft.to;
    const isWaiting = to === "waiting";
    const child = kind === "job" && isWaiting && typeof draft.child === "object" ? this.#child(draft.child) : null;
    return {
      id: job.id,
      fence: job.fence,
      name: STEP_NAMES[draft.name] ?? "",
      member,
      order: draft.name,
      kind,
      to,
      tries: draft.name,
      topic: isWaiting ? this.#topic({ ...draft, kind }, child) : null,
      value: to === "done" ? '{"done":true}' : null,
      failure: to === "failed" ? FAILURE : null,
      forMs: isWaiting ? forMs : null,
      wake,
      child,
    };
  }

  #child(draft: JobDraft): NewJob {
    return { ...this.#parts.newJob({ ...draft, unique: null }), awaited: true };
  }

  #topic({ kind, event, child: of }: StepDraft, child: NewJob | null): string | null {
    if (kind === "event") return eventTopic(event);
    if (kind !== "job") return null;
    const existing = typeof of === "number" ? pick([...this.#parts.asked.keys()], of) : undefined;
    return jobTopic(child?.id ?? existing ?? NO_JOB);
  }

  async #park(
    { lease: picked, untilMs, knows, hasProgressed }: StepCommand & { do: "park" },
    now: number,
  ): Promise<void> {
    const { model } = this.#parts;
    const [lease] = this.#parts.leases([picked]);
    if (lease === undefined) return;
    const store = this.#parts.storeOf(lease.worker);
    const until = untilMs === null ? null : now + untilMs;
    // Each counts in its own way: if two jobs settle in one call, the one that waits for the other may have been leased then or not.
    const outcomeOf = ({ wakes }: JobSteps): Outcome =>
      parked({ ...lease, startedAt: now }, { until, wakes: knows ? wakes : wakes + 1, storeNow: now, hasProgressed });
    const [result] = await store.settle([outcomeOf(await store.steps(lease.job.id))]);
    same(result, model.settle(outcomeOf(model.steps.read(lease.job.id)), now), "the result of a park");
    if (result === "applied" || result === "cancelled") this.#parts.released(lease);
  }

  /** Every job's steps, and the children that it waits for. */
  async check(): Promise<void> {
    const { model, storeOf } = this.#parts;
    const store = storeOf();
    const ids = [...model.jobs.keys()].filter((id) => model.steps.hasSteps(id) || id.endsWith("7"));
    const found = await Promise.all(ids.map((id) => store.steps(id)));
    for (const [at, id] of ids.entries()) same(found[at]?.steps, model.steps.read(id).steps, `the steps of ${id}`);
    const children = await Promise.all(ids.map((id) => store.openChildren([id], MAX_CHILDREN)));
    for (const [at, id] of ids.entries())
      same(children[at]?.toSorted(), model.steps.openChildren(id).toSorted(), `the open children of ${id}`);
  }

  /** At the end: what is parked goes on. */
  async wakeParked(now: number): Promise<void> {
    const { model, storeOf } = this.#parts;
    const ids = [...model.jobs.values()].filter(({ dueAt }) => dueAt === PARKED_AT).map(({ id }) => id);
    const updates = ids.map((id) => ({ id, due: { runAt: null, delayMs: 0 } }));
    const expected = updates.map((update) => model.update(update, {}, now));
    same(await storeOf().update(updates), expected, "the results of waking parked jobs");
  }
}
