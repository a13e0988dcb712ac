import type { LeasedJob } from "../engine/worker/decide-outcome.js";
import { isFinished } from "../job/state.js";
import type { ClaimRequest, ReapedJob, NewJob, Store } from "../store.js";
import type { FakeClock } from "./clock.js";
import { insertAll } from "./exercise-store/builders.js";
import { Follower } from "./exercise-store/follower.js";
import type { ComparedStore } from "./exercise-store/harness.js";
import {
  allJobs,
  compareHistories,
  compareLists,
  compareState,
  compareTransitions,
  Invariants,
  must,
  same,
} from "./model-check.js";
import { CALM, CLAIM_ALL, describeCommand, LOOK_AT_KEYS, sensibleOutcome, WORKERS } from "./model-commands.js";
import type { Command, CommandOf, JobDraft, LeasePick, OutcomeDraft } from "./model-commands.js";
import { idOf, leaseName, pick } from "./model-names.js";
import { newJobOf, outcomeOf, updateOf } from "./model-drafts.js";
import { STEP_NAMES } from "./model-step-commands.js";
import { InsightComparison } from "./model-insight-comparison.js";
import { ScheduleComparison } from "./model-schedule-comparison.js";
import { StepComparison } from "./model-step-comparison.js";
import { StoreModel } from "./model.js";

// Longer than the commands of a run advance the clock.
const FOLLOW_MS = 30 * 86_400_000;

/**
 * Runs each command on a store and on the model, and fails at the first difference. Results are compared after each command,
 * the state after every `checkEvery` commands.
 */
export class Comparison {
  readonly #under: ComparedStore;
  readonly #clock: FakeClock;
  readonly #checkEvery: number;
  readonly #model = new StoreModel();
  readonly #invariants = new Invariants();
  /** Every job ever inserted, as first enqueued. */
  readonly #asked = new Map<string, NewJob>();
  #numbered = 0;
  /** Every lease ever claimed. */
  readonly #known: LeasedJob[] = [];
  /** Leases that their workers believe they hold. */
  #held: LeasedJob[] = [];
  readonly #schedules: ScheduleComparison;
  readonly #steps: StepComparison;
  readonly #insight: InsightComparison;
  #store: Store;
  /** The second handle on the same database, like another process, if there is one. */
  #second: Store | undefined;
  /** A readable line per command, with the jobs it used. */
  readonly lines: string[] = [];
  #follower: Follower | undefined;
  #touched: string[] = [];

  constructor(under: ComparedStore, clock: FakeClock, checkEvery: number) {
    this.#checkEvery = checkEvery;
    this.#under = under;
    this.#store = under.store;
    this.#clock = clock;
    const storeOf = (worker?: string): Store => (worker === undefined ? this.#store : this.#storeOf(worker));
    this.#insight = new InsightComparison(storeOf);
    this.#schedules = new ScheduleComparison({
      model: this.#model,
      asked: this.#asked,
      storeOf,
      newJob: (draft, id) => this.#newJob(draft, id),
      inserted: (job) => this.#inserted(job),
      touched: (what) => void this.#touched.push(what),
    });
    this.#steps = new StepComparison({
      model: this.#model,
      asked: this.#asked,
      storeOf,
      newJob: (draft) => this.#newJob(draft),
      inserted: (job) => this.#inserted(job),
      leases: (picks) => this.#leases(picks),
      released: (lease) => {
        this.#invariants.settled(lease.job.id);
        this.#held = this.#held.filter((held) => held !== lease);
      },
    });
  }

  /** At the beginning: records transitions, which are compared at the end. */
  async follow(): Promise<void> {
    const storeOf = (): Store => this.#store;
    const followed = {
      clock: this.#clock,
      // Another handle after a reopen.
      get store() {
        return storeOf();
      },
    };
    this.#follower = await Follower.start(followed, FOLLOW_MS);
  }

  async close(): Promise<void> {
    await this.#store.close();
    await this.#second?.close();
  }

  async step(command: Command): Promise<void> {
    const line = this.lines.push(describeCommand(command)) - 1;
    this.#touched = [];
    try {
      await this.#do(command);
    } finally {
      if (this.#touched.length > 0) this.lines[line] += ` → ${this.#touched.join(", ")}`;
    }
    if (this.lines.length % this.#checkEvery === 0) await this.check();
  }

  async check(): Promise<void> {
    const jobs = await compareState(this.#store, this.#model, this.#clock.now());
    this.#invariants.check(jobs, this.#model);
    await this.#schedules.check(this.#clock.now());
    await this.#steps.check();
  }

  /** At the end: checks histories and filters, then the keys, then that every job ends. */
  async finish(): Promise<void> {
    await this.check();
    await compareHistories(this.#store, this.#model);
    await compareLists(this.#store, this.#model, this.#clock.now());
    await this.#schedules.checkLists();
    await this.#insight.check();
    for (const command of LOOK_AT_KEYS) await this.step(command);
    await this.#endAll();
  }

  /** Without further faults, every job ends once it is due and a worker runs it. */
  async #endAll(): Promise<void> {
    this.#held = [];
    for (const command of CALM) await this.step(command);
    // A store with strict order needs one round. Another may miss jobs in a claim, but must end some in each round.
    for (let rounds = this.#model.jobs.size; rounds > 0 && this.#model.alive() > 0; rounds--) {
      await this.#steps.wakeParked(this.#clock.now());
      await this.step(CLAIM_ALL);
      await this.step({ do: "settle", outcomes: this.#held.map((_, nth) => sensibleOutcome(nth)) });
    }
    await this.check();
    for (const { id, state } of await allJobs(this.#store)) {
      must(isFinished(state), () => `after all work without faults, ${id} is still ${state}`);
    }
    if (this.#follower !== undefined) await compareTransitions(this.#follower, this.#store, this.#model);
  }

  async #do(command: Command): Promise<void> {
    const now = this.#clock.now();
    const model = this.#model;
    switch (command.do) {
      case "enqueue":
        return this.#enqueue(command.jobs, now);
      case "claim":
        return this.#claim(command, now);
      case "start":
        return this.#start(command.leases, now);
      case "extend":
        return this.#extend(command.leases, command.leaseMs, now);
      case "note":
        return this.#note(command.leases, now);
      case "settle":
        return this.#settle(command.outcomes, now);
      case "cancel":
      case "retry":
      case "remove":
        return this.#change(command, now);
      case "reapExpiredLeases": {
        const reaped = await this.#store.reapExpiredLeases(command.limit);
        for (const { id } of reaped) this.#invariants.expired(id, now);
        return this.#compareReaped(command, reaped, model.stale(now), (id) => model.reap(id, now));
      }
      case "expireOverdue": {
        const reaped = await this.#store.expireOverdue(command.limit);
        return this.#compareReaped(command, reaped, model.expired(now), (id) => model.expire(id, now));
      }
      case "update":
        return this.#update(command, now);
      case "freeKey":
        return same(await this.#store.freeKey(command.key), model.freeKey(command.key, now), "the result of freeKey");
      case "purge":
        return this.#purge(command, now);
      case "purgeDue":
        return this.#purgeDue(command.limit, now);
      case "pause":
        model.pause(command.queue, command.by, now);
        return this.#store.pause(command.queue, command.by);
      case "resume":
        model.paused.delete(command.queue);
        return this.#store.resume(command.queue);
      case "advance":
        return this.#clock.advance(command.ms);
      case "maintain":
        return this.#store.maintain();
      case "crash":
        this.#held = this.#held.filter((lease) => lease.worker !== command.worker);
        return;
      case "reopen":
        if (this.#under.address === null) return;
        this.#held = [];
        await this.#store.close();
        this.#store = await this.#under.again();
        return;
      case "secondProcess":
        if (this.#under.address !== null) this.#second ??= await this.#under.again();
        return;
      case "putSchedule":
      case "removeSchedule":
      case "dueSchedules":
      case "fire":
        return this.#schedules.do(command, now);
      case "saveSteps":
      case "emit":
      case "park":
      case "purgeEvents":
      case "repairWaits":
        return this.#steps.do(command, now);
      case "recordErrors":
      case "purgeErrorGroups":
      case "putHistory":
      case "mergeHistory":
      case "purgeHistory":
        return this.#insight.do(command, now);
    }
  }

  /** The handle of this worker. All workers but one use the second handle, if there is one. */
  #storeOf(worker: string | undefined): Store {
    return worker === WORKERS[0] ? this.#store : (this.#second ?? this.#store);
  }

  async #enqueue(drafts: readonly JobDraft[], now: number): Promise<void> {
    const jobs = drafts.map((draft) => {
      const repeated = draft.again === null ? undefined : pick([...this.#asked.values()], draft.again);
      return repeated ?? this.#newJob(draft);
    });
    this.#touched.push(...jobs.map((job) => job.id));
    const results = await insertAll(this.#store, jobs);
    const expected = jobs.map((job) => this.#model.insert(job, now));
    same(results, expected, "the results of insert");
    for (const [at, job] of jobs.entries()) if (results[at]?.status === "inserted") this.#inserted(job);
  }

  #newJob(draft: JobDraft, id: string = idOf(this.#numbered + 1)): NewJob {
    return newJobOf(draft, id, ++this.#numbered, this.#clock.now());
  }

  #inserted(job: NewJob): void {
    this.#invariants.inserted();
    this.#asked.set(job.id, job);
  }

  async #claim(command: CommandOf<"claim">, now: number): Promise<void> {
    const { do: _, ...request } = command;
    const { worker, leaseMs } = request;
    const { at, jobs } = await this.#storeOf(worker).claim(request);
    this.#touched.push(...jobs.map(leaseName));
    for (const { id, fence } of jobs) this.#invariants.leased(id, fence, now, now + leaseMs);
    const expected = this.#store.capabilities.strictOrder
      ? this.#model.claim(request, now)
      : this.#claimAsChosen(request, jobs, now);
    same({ at, jobs }, { at: now, jobs: expected }, "the result of claim");
    const leases = jobs.map((job) => ({ job, worker, claimedAt: at, startedAt: null, fingerprint: null }));
    this.#known.push(...leases);
    this.#held.push(...leases);
  }

  /** Without strict order, a claim may return any due jobs, even none, but each must be claimable. */
  #claimAsChosen(request: ClaimRequest, chosen: readonly { id: string }[], now: number): unknown[] {
    must(
      chosen.length <= request.limit,
      () => `the store returned ${chosen.length} jobs for the limit ${request.limit}`,
    );
    const claimable = new Set(this.#model.claimable(request, now).map((job) => job.id));
    for (const { id } of chosen) must(claimable.delete(id), () => `the store returned ${id}, which is not claimable`);
    return chosen.map(({ id }) => this.#model.lease(id, request, now));
  }

  async #start(picks: readonly LeasePick[], now: number): Promise<void> {
    const leases = this.#leases(picks);
    const marks = leases.map(({ job: { id, fence } }) => ({ id, fence, startedAt: now }));
    const results = await this.#storeOf(leases[0]?.worker).start(marks);
    const expected = marks.map((mark) => this.#model.start(mark, now));
    same(results, expected, "the results of start");
    for (const [at, lease] of leases.entries()) if (results[at] !== "lost") lease.startedAt ??= now;
  }

  async #extend(picks: readonly LeasePick[], leaseMs: number, now: number): Promise<void> {
    const found = this.#leases(picks);
    const leases = found.map(({ job: { id, fence } }) => ({ id, fence }));
    const results = await this.#storeOf(found[0]?.worker).extend(leases, leaseMs);
    const expected = leases.map((lease) => this.#model.extend(lease, leaseMs, now));
    same(results, expected, "the results of extend");
    for (const [at, { id }] of leases.entries())
      if (results[at] !== "lost") this.#invariants.extended(id, now + leaseMs);
  }

  /** Notes change the job only if the lease is held. */
  async #note(picks: readonly LeasePick[], now: number): Promise<void> {
    for (const { job, worker } of this.#leases(picks)) {
      const { id, fence } = job;
      const before = await this.#store.get(id);
      const progress = { fraction: 0.5, note: `at ${now}`, data: JSON.stringify({ now }) };
      const log = [{ at: now, line: `fence ${fence}` }];
      await this.#storeOf(worker).note([{ id, fence, progress, log }]);
      const after = await this.#store.get(id);
      const kept = before !== null && this.#model.holds({ id, fence });
      const touched = kept ? { progress, log: [...before.log, ...log], updatedAt: after?.updatedAt } : {};
      const what = `${id} after a note of a lease that is ${kept ? "held" : "lost"}`;
      same(after, before && { ...before, ...touched }, what);
    }
  }

  async #settle(drafts: readonly OutcomeDraft[], now: number): Promise<void> {
    const chosen = new Map<LeasedJob, OutcomeDraft>();
    for (const draft of drafts) for (const lease of this.#leases([draft.lease])) chosen.set(lease, draft);
    const outcomes = [...chosen].map(([lease, draft]) => {
      const { keep, purgeMs } = draft;
      const outcome = outcomeOf(lease, draft, now);
      const reopen = draft.reopen && outcome.to !== "completed" ? STEP_NAMES.slice(0, 2) : undefined;
      return { ...outcome, keep, purgeMs, reopen };
    });
    const before = new Set(this.#model.jobs.keys());
    const [first] = chosen.keys();
    const results = await this.#storeOf(first?.worker).settle(outcomes);
    const expected = outcomes.map((outcome) => this.#model.settle(outcome, now));
    same(results, expected, "the results of settle");
    for (const [at, { id }] of outcomes.entries()) {
      if (results[at] !== "lost") this.#invariants.settled(id);
      if (!this.#model.jobs.has(id) && before.delete(id)) this.#invariants.deleted(id);
    }
    this.#held = this.#held.filter((lease) => !chosen.has(lease));
  }

  /** Each lease once: a worker never puts two marks or outcomes of a lease into one batch. */
  #leases(picks: readonly LeasePick[]): LeasedJob[] {
    const found = picks.map(({ of, nth }) => pick(of === "held" ? this.#held : this.#known, nth));
    const leases = [...new Set(found.filter((lease) => lease !== undefined))];
    this.#touched.push(...leases.map((lease) => leaseName(lease.job)));
    return leases;
  }

  async #change(command: CommandOf<"cancel">, now: number): Promise<void> {
    const ended = [...this.#model.jobs.values()].filter(({ state }) => state === "dead" || state === "cancelled");
    const pools = { any: [...this.#asked.keys()], ended: ended.map((job) => job.id) };
    const found = command.jobs.map(({ of, nth }) => pick(pools[of], nth));
    const ids = [...new Set(found.filter((id) => id !== undefined))];
    this.#touched.push(...ids);
    const scope = { user: command.user ?? undefined, states: command.states ?? undefined };
    const results: readonly string[] = await this.#store[command.do](ids, scope);
    const expected = ids.map((id) => this.#model[command.do](id, scope, now));
    same(results, expected, `the results of ${command.do}`);
    for (const [at, id] of ids.entries()) {
      if (results[at] === "removed") this.#invariants.deleted(id);
      if (results[at] === "retried") this.#invariants.retried(id);
    }
  }

  async #update(command: CommandOf<"update">, now: number): Promise<void> {
    const found = command.jobs.map(({ nth }) => pick([...this.#asked.keys()], nth));
    const ids = [...new Set(found.filter((id) => id !== undefined))];
    this.#touched.push(...ids);
    const scope = { user: command.user ?? undefined, states: command.states ?? undefined };
    const updates = ids.map((id) => updateOf(command.change, id, now));
    const results = await this.#store.update(updates, scope);
    const expected = updates.map((update) => this.#model.update(update, scope, now));
    same(results, expected, "the results of update");
  }

  async #purgeDue(limit: number, now: number): Promise<void> {
    const count = await this.#store.purgeDue(limit);
    const due = new Set(this.#model.purgeDue(now).map(({ id }) => id));
    same(count, Math.min(limit, due.size), "the result of purgeDue");
    const kept = new Set((await allJobs(this.#store)).map((job) => job.id));
    for (const { id } of [...this.#model.jobs.values()].filter((job) => !kept.has(job.id))) {
      must(due.has(id), () => `purgeDue deleted ${id}, whose purge time has not passed`);
      this.#model.purge(id, now);
      this.#invariants.deleted(id);
    }
  }

  #compareReaped(
    command: CommandOf<"reapExpiredLeases">,
    result: ReapedJob[],
    candidates: { id: string }[],
    apply: (id: string) => ReapedJob,
  ): void {
    const ids = new Set(candidates.map((job) => job.id));
    for (const { id } of result) must(ids.has(id), () => `${command.do} changed ${id}, which it must not change`);
    same(result.length, Math.min(command.limit, ids.size), `the number of jobs changed by ${command.do}`);
    const expected = result.map(({ id }) => apply(id));
    same(result, expected, `the result of ${command.do}`);
  }

  async #purge({ state, rule, limit }: CommandOf<"purge">, now: number): Promise<void> {
    const before = "olderThanMs" in rule ? now - rule.olderThanMs : null;
    const keep = "keep" in rule ? rule.keep : null;
    const count = await this.#store.purge({ state, before, keep, limit });
    const candidates = this.#model.purgeable({ state, before, keep });
    same(count, Math.min(limit, candidates.length), "the result of purge");
    // Jobs that ended at the same time may be deleted in any order.
    const kept = new Set((await allJobs(this.#store)).map((job) => job.id));
    const gone = [...this.#model.jobs.values()].filter((job) => !kept.has(job.id));
    const ends = (jobs: readonly { finishedAt: number | null }[]): number[] =>
      jobs.map((job) => job.finishedAt ?? 0).toSorted((a, b) => a - b);
    same(ends(gone), ends(candidates.slice(0, count)), "the end times of the purged jobs");
    for (const job of gone) {
      must(job.state === state, () => `purge of ${state} jobs deleted ${job.id} (${job.state})`);
      this.#model.purge(job.id, now);
      this.#invariants.deleted(job.id);
    }
  }
}
