import { isFinished, isLeased, settledBefore, type FinishedState } from "../../../job/state.js";
import type { LeaseResult, LeaseRef, Note, Outcome, SettleResult, StartMark } from "../../../store.js";
import { numberOf, type Item } from "../connection/attributes.js";
import { attemptItem, logItems } from "./job-details.js";
import type { Counts } from "./counts.js";
import { deleteJob, deleteKey, deleteTraces } from "./deletion.js";
import { Change } from "../connection/expressions.js";
import { isItemsFault } from "../connection/errors.js";
import { settled } from "./insert.js";
import { endedFields, errorFields, LIVE_ONLY, readItem, ttlSeconds, waitAgain, type JobItem } from "./items.js";
import { dueKey, jobKey, shardOf } from "./keys.js";
import type { Table, Written } from "../connection/table.js";
import type { ConfigKeeper } from "../connection/config.js";
import type { HeldJobs } from "./lease-cache.js";

export interface LeaseSettings {
  /** How far clocks of different machines may be apart. */
  marginMs: number;
  /** How far ahead of a lease's end its entry in the index is moved, in leases. */
  slack: number;
}

const LEASED = ["claimed", "running"];

/** start, extend, settle and note: what the holder of a lease does. */
export class Leases {
  readonly #table: Table;
  readonly #counts: Counts;
  readonly #jobs: HeldJobs;
  readonly #config: ConfigKeeper;
  readonly #slack: number;
  readonly #marginMs: number;

  constructor(
    table: Table,
    parts: { counts: Counts; jobs: HeldJobs; config: ConfigKeeper },
    { slack, marginMs }: LeaseSettings,
  ) {
    this.#table = table;
    this.#counts = parts.counts;
    this.#jobs = parts.jobs;
    this.#config = parts.config;
    this.#slack = slack;
    this.#marginMs = marginMs;
  }

  start(marks: readonly StartMark[], now: number): Promise<LeaseResult[]> {
    return settled(
      marks.map(async (mark) => {
        const change = new Change().set({ state: "running", updated_at: now });
        change.setTo("started_at", `if_not_exists(#started_at, ${change.value(mark.startedAt)})`);
        return leaseAnswer(await this.#table.update(jobKey(mark.id), held(change, mark)));
      }),
    );
  }

  /**
   * The lease itself ends as asked. Its entry in the index is moved further ahead, and so more rarely: that costs twice as
   * much as the rest. A job whose worker died is found when its entry comes up.
   */
  extend(leases: readonly LeaseRef[], leaseMs: number, now: number): Promise<LeaseResult[]> {
    return settled(
      leases.map(async (lease) => {
        const change = new Change().set({ due_at: now + leaseMs, updated_at: now });
        const known = this.#jobs.of(lease);
        // The margin comes on top: a job whose worker died is found within two leases.
        const until = now + leaseMs + Math.max(0, leaseMs * this.#slack - this.#marginMs);
        // Before the next extension, which comes after a third of the lease.
        const moves = (known?.hiddenUntil ?? 0) < now + leaseMs / 2 || this.#slack === 0;
        if (moves) {
          // An entry's place ends with what the job is listed by.
          const listed = known?.listed ?? (await this.#listedOf(lease.id));
          if (listed === null) return "lost";
          change.set({ held: until, due: dueKey(until, listed) });
        }
        const answer = leaseAnswer(await this.#table.update(jobKey(lease.id), held(change, lease)));
        if (answer === "lost") this.#jobs.over(lease);
        else if (moves && known !== undefined) known.hiddenUntil = until;
        return answer;
      }),
    );
  }

  async #listedOf(id: string): Promise<string | null> {
    const found = await this.#table.get(jobKey(id));
    return found === null ? null : readItem(found).listed;
  }

  settle(outcomes: readonly Outcome[], now: number): Promise<SettleResult[]> {
    return settled(
      outcomes.map(async (outcome) => {
        const answer = await this.#settleOne(outcome, now);
        // What has completed never waits again.
        if (outcome.to !== "completed") this.#jobs.waits(outcome);
        return answer;
      }),
    );
  }

  async #settleOne(outcome: Outcome, now: number): Promise<SettleResult> {
    // Most jobs end well, and need no look at how they stand: nothing of what is written depends on it.
    const plain = outcome.to === "completed" && outcome.attemptRecord === null && outcome.keep;
    const first = plain ? await this.#complete(outcome, now) : null;
    this.#jobs.over(outcome);
    if (first?.done === true) return "applied";
    let found = first === null ? await this.#table.get(jobKey(outcome.id)) : first.found;
    for (;;) {
      if (found === null) return "lost";
      const job = readItem(found);
      if (job.fence !== outcome.fence) return "lost";
      if (!isLeased(job.state)) return settledBefore(outcome.to, job.state);
      const cancelled = job.cancelAt !== null && outcome.to !== "completed" && outcome.to !== "cancelled";
      const to = cancelled ? "cancelled" : outcome.to;
      const drops = isFinished(to) && !outcome.keep && to === outcome.to;
      const written = await this.#write(job, { ...outcome, to }, drops, now);
      if (written.done) return cancelled ? "cancelled" : "applied";
      found = written.found;
    }
  }

  /**
   * A job without anything beside it is cleared away by DynamoDB when its time is over, at no cost; its key, which nobody
   * would clear away, goes at once. The others are left to the purge, which knows what goes with them.
   */
  async #complete(outcome: Outcome, now: number): Promise<Written> {
    const { id, keepMs, output } = outcome;
    const change = outcomeChange(outcome, now)
      .set({ finished_at: now, output })
      .remove(...LIVE_ONLY);
    const known = this.#jobs.of(outcome);
    const ttl = keepMs === null || known?.plain === false ? null : ttlSeconds(now + keepMs);
    if (ttl === null) {
      // Any shard that all know of will do for a job that was not claimed here.
      const shard = known?.shard ?? shardOf(id, await this.#config.ensure([], now));
      change.set(endedFields({ id, shard }, "completed", now));
    } else {
      change.set({ ttl }).remove("lane", "due");
      const absent = known === undefined ? ["unique", "input_at", "beside"] : ["input_at", "beside"];
      change.when(...absent.map((name) => `attribute_not_exists(#${name})`));
    }
    const written = await this.#table.update(jobKey(id), held(change, outcome));
    const job = written.done ? written.old : ownWork(written, outcome);
    if (job === null) return written;
    this.#counts.ended(readItem(job), "completed", now, ttl);
    // The job is done, whatever becomes of its key: whoever wants that takes it from a job that has ended.
    if (ttl !== null && known?.key != null)
      await deleteKey(this.#table, known.key, { id, listed: known.listed }).catch(() => {});
    return { done: true, old: job };
  }

  /** An outcome of a job that was read. */
  async #write(job: JobItem, outcome: Outcome, drops: boolean, now: number): Promise<Written> {
    const { to } = outcome;
    const change = held(outcomeChange(outcome, now), outcome);
    if (isFinished(to)) {
      change.set({ finished_at: now, output: to === "completed" ? outcome.output : null });
      change.set(endedFields(job, to, now)).remove(...LIVE_ONLY);
    } else {
      waitAgain(change, job, now + outcome.delayMs).set({ again: to === "failed" ? 1 : null });
    }
    // A cancellation that was requested meanwhile wins over everything but a completion.
    if (to !== "completed" && job.cancelAt === null) change.when("attribute_not_exists(#cancel_at)");
    if (drops) return this.#drop(job, change, to as FinishedState, now);
    const written = await this.#keep(job, outcome, change);
    if (written.done && isFinished(to)) this.#counts.ended(job, to, now);
    return written;
  }

  async #keep(job: JobItem, { attemptRecord }: Outcome, change: Change): Promise<Written> {
    if (attemptRecord === null) return this.#table.update(jobKey(job.id), change);
    const nth = numberOf(job.item, "tries") ?? 0;
    change.set({ tries: nth + 1, beside: true });
    const entry = attemptItem(job.id, nth, attemptRecord);
    const written = await this.#table.transact([{ update: jobKey(job.id), change }, { put: entry }]);
    if (written.done) return { done: true, old: null };
    const found = written.failed[0] ?? (await this.#table.get(jobKey(job.id)));
    return { done: false, found, repeated: false };
  }

  /** Not kept at all; only a key that outlives its job is. */
  async #drop(job: JobItem, when: Change, to: FinishedState, now: number): Promise<Written> {
    const written = await deleteJob(this.#table, job, when, now);
    if (!written.done) return written;
    this.#counts.passed(to, now);
    // The job is done, whatever becomes of what it had: nobody could settle it again.
    await deleteTraces(this.#table, job, ["waiting", "live"], now).catch(() => {});
    return written;
  }

  async note(notes: readonly Note[], now: number): Promise<void> {
    await settled(notes.map((note) => this.#noteOne(note, now).catch(dropUnfit)));
  }

  async #noteOne({ progress, log, ...lease }: Note, now: number): Promise<void> {
    const change = new Change().set({ updated_at: now });
    if (progress !== null) change.set({ progress: progress.fraction, progress_note: progress.note });
    if (log.length > 0) {
      change.set({ beside: true });
      change.setTo("lines", `if_not_exists(#lines, ${change.value(0)}) + ${change.value(log.length)}`);
    }
    const written = await this.#table.update(jobKey(lease.id), held(change, lease));
    if (!written.done || written.old === null || log.length === 0) return;
    const known = this.#jobs.of(lease);
    if (known !== undefined) known.plain = false;
    const items = logItems(lease.id, numberOf(written.old, "lines") ?? 0, log);
    await settled(items.map((item) => this.#table.put(item)));
  }
}

/** What DynamoDB takes in no form is not kept: whoever repeats it for that would write the others' lines once more. */
function dropUnfit(error: unknown): void {
  if (!isItemsFault(error)) throw error;
}

/** If the lease is held: nothing but the fence decides, even past its end. */
function held(change: Change, { fence }: LeaseRef): Change {
  return change.when(`#fence = ${change.value(fence)}`, change.isIn("state", LEASED));
}

/** The job, if it was completed by this very request, whose answer got lost. */
function ownWork({ repeated, found }: Written & { done: false }, { fence }: LeaseRef): Item | null {
  if (!repeated || found === null) return null;
  const job = readItem(found);
  return job.state === "completed" && job.fence === fence ? found : null;
}

function leaseAnswer(written: Written): LeaseResult {
  if (!written.done) return "lost";
  return written.old !== null && readItem(written.old).cancelAt !== null ? "cancel" : "kept";
}

function outcomeChange(outcome: Outcome, now: number): Change {
  const { to, attempt, releases, startedAt, error } = outcome;
  const change = new Change().set({ state: to, attempt, releases: releases === 0 ? null : releases, updated_at: now });
  if (startedAt !== null) change.setTo("started_at", `if_not_exists(#started_at, ${change.value(startedAt)})`);
  if (error !== null) change.set(errorFields(error, now));
  return change;
}
