import type { LeasedJob } from "../engine/worker/outcome.js";
import { isFinished } from "../job/state.js";
import type { ClaimRequest, ReapedJob, NewJob, Store } from "../store.js";
import type { FakeClock } from "./clock.js";
import { insertAll } from "./exercise-store/builders.js";
import type { ComparedStore } from "./exercise-store/harness.js";
import { allJobs, compareHistories, compareState, Invariants, must, same } from "./model-check.js";
import { CALM, CLAIM_ALL, describeCommand, LOOK_AT_KEYS, sensibleOutcome, WORKERS } from "./model-commands.js";
import type { Command, CommandOf, JobDraft, LeasePick, OutcomeDraft } from "./model-commands.js";
import { idOf, leaseName, pick } from "./model-names.js";
import { newJobOf, outcomeOf } from "./model-drafts.js";
import { ScheduleComparison } from "./model-schedule-comparison.js";
import { StoreModel } from "./model.js";

/**
 * Does each command to a store and to the model, and fails at the first difference: in the answers at once, in the
 * state after every `checkEvery` commands.
 */
export class Comparison {
  readonly #under: ComparedStore;
  readonly #clock: FakeClock;
  readonly #checkEvery: number;
  readonly #model = new StoreModel();
  readonly #invariants = new Invariants();
  /** Every job ever inserted, as first asked for. */
  readonly #asked = new Map<string, NewJob>();
  #numbered = 0;
  /** Every lease ever handed out. */
  readonly #known: LeasedJob[] = [];
  /** Those that their workers believe in. */
  #held: LeasedJob[] = [];
  readonly #schedules: ScheduleComparison;
  #store: Store;
  /** Another handle on the same database, as another process would have it, once there is one. */
  #second: Store | undefined;
  /** What was done, a line a command, with the jobs it came down to; for people. */
  readonly lines: string[] = [];
  #touched: string[] = [];

  constructor(under: ComparedStore, clock: FakeClock, checkEvery: number) {
    this.#checkEvery = checkEvery;
    this.#under = under;
    this.#store = under.store;
    this.#clock = clock;
    this.#schedules = new ScheduleComparison({
      model: this.#model,
      asked: this.#asked,
      storeOf: (worker) => (worker === undefined ? this.#store : this.#storeOf(worker)),
      newJob: (draft, id) => this.#newJob(draft, id),
      inserted: (job) => this.#inserted(job),
      touched: (what) => void this.#touched.push(what),
    });
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
  }

  /** Once the list is through: histories and filters, then the keys, then the promise that every job ends. */
  async finish(): Promise<void> {
    await this.check();
    await compareHistories(this.#store, this.#model);
    await this.#schedules.checkLists();
    for (const command of LOOK_AT_KEYS) await this.step(command);
    await this.#endAll();
  }

  /** The faults are over: once everything is due and a worker does its work, every job ends. */
  async #endAll(): Promise<void> {
    this.#held = [];
    for (const command of CALM) await this.step(command);
    // A store in strict order needs one round; one that may overlook jobs must still end them, a few a round.
    for (let rounds = this.#model.jobs.size; rounds > 0 && this.#model.alive() > 0; rounds--) {
      await this.step(CLAIM_ALL);
      await this.step({ do: "settle", outcomes: this.#held.map((_, nth) => sensibleOutcome(nth)) });
    }
    await this.check();
    for (const { id, state } of await allJobs(this.#store)) {
      must(isFinished(state), () => `all faults are over and all work is done, but ${id} is still ${state}`);
    }
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
        const laidDown = await this.#store.reapExpiredLeases(command.limit);
        for (const { id } of laidDown) this.#invariants.ranOut(id, now);
        return this.#laidDown(command, laidDown, model.stale(now), (id) => model.layDownStale(id, now));
      }
      case "expireOverdue": {
        const laidDown = await this.#store.expireOverdue(command.limit);
        return this.#laidDown(command, laidDown, model.expired(now), (id) => model.layDownExpired(id, now));
      }
      case "purge":
        return this.#purge(command, now);
      case "pause":
        model.paused.add(command.queue);
        return this.#store.pause(command.queue);
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
    }
  }

  /** The store as this worker sees it: all but one live in the second process, if there is one. */
  #storeOf(worker: string | undefined): Store {
    return worker === WORKERS[0] ? this.#store : (this.#second ?? this.#store);
  }

  async #enqueue(drafts: readonly JobDraft[], now: number): Promise<void> {
    const jobs = drafts.map((draft) => {
      const repeated = draft.again === null ? undefined : pick([...this.#asked.values()], draft.again);
      return repeated ?? this.#newJob(draft);
    });
    this.#touched.push(...jobs.map((job) => job.id));
    const answers = await insertAll(this.#store, jobs);
    const expected = jobs.map((job) => this.#model.insert(job, now));
    same(answers, expected, "the answers of insert");
    for (const [at, job] of jobs.entries()) if (answers[at]?.status === "inserted") this.#inserted(job);
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
    same({ at, jobs }, { at: now, jobs: expected }, "the answer of claim");
    const leases = jobs.map((job) => ({ job, worker, claimedAt: at, startedAt: null }));
    this.#known.push(...leases);
    this.#held.push(...leases);
  }

  /** Without strict order any due jobs will do, even none: what counts is that each might be taken. */
  #claimAsChosen(request: ClaimRequest, chosen: readonly { id: string }[], now: number): unknown[] {
    must(chosen.length <= request.limit, () => `the store handed out ${chosen.length} jobs, not ${request.limit}`);
    const claimable = new Set(this.#model.claimable(request, now).map((job) => job.id));
    for (const { id } of chosen)
      must(claimable.delete(id), () => `the store handed out ${id}, which may not be claimed`);
    return chosen.map(({ id }) => this.#model.lease(id, request, now));
  }

  async #start(picks: readonly LeasePick[], now: number): Promise<void> {
    const leases = this.#leases(picks);
    const marks = leases.map(({ job: { id, fence } }) => ({ id, fence, startedAt: now }));
    const answers = await this.#storeOf(leases[0]?.worker).start(marks);
    const expected = marks.map((mark) => this.#model.start(mark));
    same(answers, expected, "the answers of start");
    for (const [at, lease] of leases.entries()) if (answers[at] !== "lost") lease.startedAt ??= now;
  }

  async #extend(picks: readonly LeasePick[], leaseMs: number, now: number): Promise<void> {
    const found = this.#leases(picks);
    const leases = found.map(({ job: { id, fence } }) => ({ id, fence }));
    const answers = await this.#storeOf(found[0]?.worker).extend(leases, leaseMs);
    const expected = leases.map((lease) => this.#model.extend(lease, leaseMs, now));
    same(answers, expected, "the answers of extend");
    for (const [at, { id }] of leases.entries())
      if (answers[at] !== "lost") this.#invariants.extended(id, now + leaseMs);
  }

  /** Progress and log reach the job of a held lease; a lost one leaves no trace. */
  async #note(picks: readonly LeasePick[], now: number): Promise<void> {
    for (const { job, worker } of this.#leases(picks)) {
      const { id, fence } = job;
      const before = await this.#store.get(id);
      const progress = { fraction: 0.5, note: `at ${now}` };
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
    const outcomes = [...chosen].map(([lease, draft]) => ({ ...outcomeOf(lease, draft, now), keep: draft.keep }));
    const before = new Set(this.#model.jobs.keys());
    const [first] = chosen.keys();
    const answers = await this.#storeOf(first?.worker).settle(outcomes);
    const expected = outcomes.map((outcome) => this.#model.settle(outcome, now));
    same(answers, expected, "the answers of settle");
    for (const [at, { id }] of outcomes.entries()) {
      if (answers[at] !== "lost") this.#invariants.settled(id);
      if (!this.#model.jobs.has(id) && before.delete(id)) this.#invariants.deleted(id);
    }
    this.#held = this.#held.filter((lease) => !chosen.has(lease));
  }

  /** Each lease once: a worker puts one mark or outcome of a lease into a batch. */
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
    const answers: readonly string[] = await this.#store[command.do](ids, scope);
    const expected = ids.map((id) => this.#model[command.do](id, scope, now));
    same(answers, expected, `the answers of ${command.do}`);
    for (const [at, id] of ids.entries()) {
      if (answers[at] === "removed") this.#invariants.deleted(id);
      if (answers[at] === "retried") this.#invariants.retried(id);
    }
  }

  #laidDown(
    command: CommandOf<"reapExpiredLeases">,
    answer: ReapedJob[],
    candidates: { id: string }[],
    layDown: (id: string) => ReapedJob,
  ): void {
    const ids = new Set(candidates.map((job) => job.id));
    for (const { id } of answer) must(ids.has(id), () => `${command.do} laid down ${id}, which it must leave alone`);
    same(answer.length, Math.min(command.limit, ids.size), `the number laid down by ${command.do}`);
    const expected = answer.map(({ id }) => layDown(id));
    same(answer, expected, `the answer of ${command.do}`);
  }

  async #purge({ state, rule, limit }: CommandOf<"purge">, now: number): Promise<void> {
    const before = "olderThanMs" in rule ? now - rule.olderThanMs : null;
    const keep = "keep" in rule ? rule.keep : null;
    const count = await this.#store.purge({ state, before, keep, limit });
    const candidates = this.#model.purgeable({ state, before, keep });
    same(count, Math.min(limit, candidates.length), "the answer of purge");
    // Of jobs that ended at the same instant, any may go first.
    const kept = new Set((await allJobs(this.#store)).map((job) => job.id));
    const gone = [...this.#model.jobs.values()].filter((job) => !kept.has(job.id));
    const ends = (jobs: readonly { finishedAt: number | null }[]): number[] =>
      jobs.map((job) => job.finishedAt ?? 0).toSorted((a, b) => a - b);
    same(ends(gone), ends(candidates.slice(0, count)), "the ends of the jobs purged");
    for (const job of gone) {
      must(job.state === state, () => `purge of ${state} jobs deleted ${job.id} (${job.state})`);
      this.#model.purge(job.id);
      this.#invariants.deleted(job.id);
    }
  }
}
