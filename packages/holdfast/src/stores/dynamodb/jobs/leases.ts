import { isFinished, isLeased, settledBefore, type FinishedState } from "../../../job/state.js";
import { PARKED_AT } from "../../../job/stored-step.js";
import type { LeaseResult, LeaseRef, Note, Outcome, SettleResult, StartMark } from "../../../store.js";
import { numberOf, type Item } from "../connection/attributes.js";
import { attemptItem, logItems } from "./job-details.js";
import type { Counts } from "./counts.js";
import { deleteJob, deleteKey, deleteLeftovers } from "./deletion.js";
import { Change } from "../connection/expressions.js";
import { isInvalidItem } from "../connection/errors.js";
import { waitForAll } from "./insert.js";
import {
  removeLiveFields,
  errorFields,
  finishedFields,
  makeWaiting,
  purgeTime,
  readItem,
  ttlSeconds,
  type JobItem,
  ifSameWakes,
  wakesOfItem,
} from "./items.js";
import { dueKey, jobKey, shardOf } from "./item-keys.js";
import type { Table, TransactItem, Written } from "../connection/table.js";
import type { SharedConfig } from "../connection/config.js";
import type { TransitionLog } from "../transitions/transition-log.js";
import type { LeaseCache } from "./lease-cache.js";
import { ifSameAwaiters, isAwaited } from "../steps/awaiters.js";
import { reopenWrites } from "../steps/reopen.js";
import { failureEnd, type Waits } from "../steps/waits.js";
import type { TopicEnd } from "../steps/step-items.js";

export interface LeaseSettings {
  /** How far the clocks of different machines may differ. */
  marginMs: number;
  /** How far beyond the end of a lease its index entry is moved, in lease durations. */
  slack: number;
}

const LEASED = ["claimed", "running"];
// A transaction has at most 100 writes. Some are left for the job and its history.
const MAX_REOPENED = 90;
// DynamoDB may delete an item as soon as its time to live is over.
const WAITS_END_WITHIN_MS = 3_600_000;

/** The operations of the holder of a lease: start, extend, settle and note. */
export class Leases {
  readonly #table: Table;
  readonly #counts: Counts;
  readonly #leaseCache: LeaseCache;
  readonly #config: SharedConfig;
  readonly #transitions: TransitionLog;
  readonly #waits: Waits;
  readonly #slack: number;
  readonly #marginMs: number;
  constructor(
    table: Table,
    parts: { counts: Counts; leaseCache: LeaseCache; config: SharedConfig; transitions: TransitionLog; waits: Waits },
    { slack, marginMs }: LeaseSettings,
  ) {
    this.#table = table;
    this.#counts = parts.counts;
    this.#leaseCache = parts.leaseCache;
    this.#config = parts.config;
    this.#transitions = parts.transitions;
    this.#waits = parts.waits;
    this.#slack = slack;
    this.#marginMs = marginMs;
  }

  start(marks: readonly StartMark[], now: number): Promise<LeaseResult[]> {
    return waitForAll(
      marks.map(async (mark) => {
        const change = new Change().set({ state: "running", updated_at: now });
        change.setTo("started_at", `if_not_exists(#started_at, ${change.value(mark.startedAt)})`);
        const written = await this.#table.update(jobKey(mark.id), ifLeased(change, mark));
        if (written.done && written.old !== null && startsNow(written.old, mark, written.resent === true, now))
          this.#transitions.add(readItem(written.old), "running", now);
        return leaseResult(written);
      }),
    );
  }

  /**
   * Sets the exact end of the lease in the item. The index entry is moved further ahead (`slack`) and so less often:
   * with the defaults every fifth time, because moving it costs two more write units. An expired lease is found when
   * its entry is due, within two lease durations.
   */
  extend(leases: readonly LeaseRef[], leaseMs: number, now: number): Promise<LeaseResult[]> {
    return waitForAll(
      leases.map(async (lease) => {
        const change = new Change().set({ due_at: now + leaseMs, updated_at: now });
        const known = this.#leaseCache.get(lease);
        // Claims add the margin again, so it is subtracted here.
        const until = now + leaseMs + Math.max(0, leaseMs * this.#slack - this.#marginMs);
        // The next extension comes after a third of the lease, so the entry must not become due before that.
        const moves = (known?.indexedUntil ?? 0) < now + leaseMs / 2 || this.#slack === 0;
        if (moves) {
          // The sort key of an index entry ends with `listed`.
          const listed = known?.listed ?? (await this.#listedOf(lease.id));
          if (listed === null) return "lost";
          change.set({ held: until, due: dueKey(until, listed) });
        }
        const result = leaseResult(await this.#table.update(jobKey(lease.id), ifLeased(change, lease)));
        if (result === "lost") this.#leaseCache.delete(lease);
        else if (moves && known !== undefined) known.indexedUntil = until;
        return result;
      }),
    );
  }

  async #listedOf(id: string): Promise<string | null> {
    const found = await this.#table.get(jobKey(id));
    return found === null ? null : readItem(found).listed;
  }

  settle(outcomes: readonly Outcome[], now: number): Promise<SettleResult[]> {
    return waitForAll(
      outcomes.map(async (outcome) => {
        const result = await this.#settleOne(outcome, now);
        // A completed job never waits again.
        if (outcome.to !== "completed" && result !== "awake") this.#leaseCache.unskip(outcome);
        return result;
      }),
    );
  }

  async #settleOne(outcome: Outcome, now: number): Promise<SettleResult> {
    // Most jobs complete without history. Their item need not be read first, because the write does not depend on it.
    const isPlain = outcome.to === "completed" && outcome.attemptRecord === null && outcome.keep;
    const first = isPlain ? await this.#complete(outcome, now) : null;
    if (first?.done === true) {
      this.#leaseCache.delete(outcome);
      return "applied";
    }
    let found = first === null ? await this.#table.get(jobKey(outcome.id)) : first.found;
    for (;;) {
      if (found === null) break;
      const job = readItem(found);
      if (job.fence !== outcome.fence) break;
      if (!isLeased(job.state)) {
        this.#leaseCache.delete(outcome);
        return settledBefore(outcome.to, job.state);
      }
      const cancelled = job.cancelAt !== null && outcome.to !== "completed" && outcome.to !== "cancelled";
      const to = cancelled ? "cancelled" : outcome.to;
      const parks = to === "pending" && outcome.park !== undefined;
      if (parks && wakesOfItem(found) !== outcome.park?.wakes) return "awake";
      const deletes = isFinished(to) && !outcome.keep && to === outcome.to;
      const purgeMs = to === outcome.to ? outcome.purgeMs : null;
      const park = parks ? outcome.park : undefined;
      const written = await this.#write(job, { ...outcome, to, purgeMs, park }, deletes, now);
      if (written.done) {
        this.#leaseCache.delete(outcome);
        return cancelled ? "cancelled" : "applied";
      }
      found = written.found;
    }
    this.#leaseCache.delete(outcome);
    return "lost";
  }

  /**
   * Completes a job without reading it. DynamoDB's time to live deletes it later at no cost, but it deletes single
   * items. So a unique key is deleted here, and jobs with other items (large input, history, log) are left to the
   * purge.
   */
  async #complete(outcome: Outcome, now: number): Promise<Written> {
    const { id, keepMs, output, purgeMs } = outcome;
    const change = outcomeChange(outcome, now).set({ finished_at: now, output });
    const known = this.#leaseCache.get(outcome);
    const purgeAt = purgeTime({ settings: known?.settings ?? null }, "completed", now, purgeMs);
    const awaited = known?.isAwaited === true;
    removeLiveFields(change, { id, shard: known?.shard ?? 0 }, awaited, now);
    if (!awaited) change.when("attribute_not_exists(#awaited)");
    const keptUntil = purgeAt ?? now + (keepMs ?? 0);
    // Until the waits for it have ended, its note must not be deleted.
    const isShort = awaited && keptUntil < now + WAITS_END_WITHIN_MS;
    const ttl = keepMs === null || known?.hasDetails === true || isShort ? null : ttlSeconds(keptUntil);
    // The settings of a job that was not claimed here are unknown. If it has any, it is read first.
    if (known === undefined && purgeMs === null) change.when("attribute_not_exists(#settings)");
    if (ttl === null) {
      // Its shard is unknown too. Any registered shard works for finished jobs.
      const shard = known?.shard ?? shardOf(id, await this.#config.ensure([], now));
      if (purgeAt !== null) await this.#config.ensureOwnTimes();
      change.set(finishedFields({ id, shard }, "completed", now, purgeAt));
    } else {
      change.set({ ttl }).remove("lane", "due");
      const absent = known === undefined ? ["unique", "input_at", "beside"] : ["input_at", "beside"];
      change.when(...absent.map((name) => `attribute_not_exists(#${name})`));
    }
    const written = await this.#table.update(jobKey(id), ifLeased(change, outcome));
    const job = written.done ? written.old : completedBefore(written, outcome);
    if (job === null) return written;
    const completed = readItem(job);
    this.#counts.finished(completed, "completed", now, ttl);
    this.#transitions.add(completed, "completed", now);
    // An error here does not matter: the next job that needs the key takes it from the finished job.
    if (ttl !== null && known?.key != null)
      await deleteKey(this.#table, known.key, { id, listed: known.listed }).catch(() => {});
    if (awaited) await this.#waits.jobEnded(job, { value: output, failure: null }, now);
    return { done: true, old: job };
  }

  /** Writes the outcome of a job that was read. */
  async #write(job: JobItem, outcome: Outcome, deletes: boolean, now: number): Promise<Written> {
    const { to } = outcome;
    const change = ifLeased(outcomeChange(outcome, now), outcome);
    const awaited = isFinished(to) && isAwaited(job.item);
    if (isFinished(to)) {
      change.set({ finished_at: now, output: to === "completed" ? outcome.output : null });
      const purgeAt = purgeTime(job, to, now, outcome.purgeMs);
      if (purgeAt !== null && !deletes) await this.#config.ensureOwnTimes();
      change.set(finishedFields(job, to, now, purgeAt));
      ifSameAwaiters(removeLiveFields(change, job, awaited, now), job.item);
    } else if (outcome.park !== undefined) {
      makeWaiting(change, job, Math.max(now, outcome.park.until ?? PARKED_AT), now);
      change.remove("expires_at", "expiry", "expires", "again");
      ifSameWakes(change, outcome.park.wakes);
    } else {
      makeWaiting(change, job, now + outcome.delayMs).set({ again: to === "failed" ? 1 : null });
    }
    // A cancellation that was requested since the read overrides every outcome but a completion.
    if (to !== "completed" && job.cancelAt === null) change.when("attribute_not_exists(#cancel_at)");
    if (deletes) return this.#delete(job, change, outcome, now);
    const written = await this.#keep(job, outcome, change, now);
    if (!written.done) return written;
    if (isFinished(to)) this.#counts.finished(job, to, now);
    this.#transitions.add(job, to, now);
    if (awaited) await this.#waits.jobEnded(job.item, endOf(job, outcome), now);
    return written;
  }

  async #keep(job: JobItem, outcome: Outcome, change: Change, now: number): Promise<Written> {
    const { attemptRecord, reopen = [] } = outcome;
    const reopened = reopen.length === 0 ? [] : await reopenWrites(this.#table, job, reopen);
    if (attemptRecord === null && reopened.length === 0) {
      const updated = await this.#table.update(jobKey(job.id), change);
      return isOwnOutcome(updated, outcome, now) ? { done: true, old: null } : updated;
    }
    const entry: TransactItem[] = [];
    if (attemptRecord !== null) {
      const nth = numberOf(job.item, "tries") ?? 0;
      change.set({ tries: nth + 1, beside: true });
      entry.push({ put: attemptItem(job.id, nth, attemptRecord) });
    }
    // More steps than fit into one transaction are reopened before. The lease is checked each time.
    while (reopened.length > MAX_REOPENED) {
      const some = reopened.splice(0, MAX_REOPENED);
      const check = { check: jobKey(job.id), when: ifLeased(new Change(), outcome) };
      const done = await this.#table.transact([check, ...some]);
      if (!done.done) return { done: false, found: await this.#table.get(jobKey(job.id)), resent: false };
    }
    const written = await this.#table.transact([{ update: jobKey(job.id), change }, ...entry, ...reopened]);
    if (written.done) return { done: true, old: null };
    const found = written.failed[0] ?? (await this.#table.get(jobKey(job.id)));
    return { done: false, found, resent: false };
  }

  /** Deletes the job. Its key of scope `forever` stays. */
  async #delete(job: JobItem, when: Change, outcome: Outcome, now: number): Promise<Written> {
    const to = outcome.to as FinishedState;
    const end = endOf(job, outcome);
    const { tombstone, ...written } = await deleteJob(this.#table, job, when, { now, ended: to, end });
    if (!written.done) return written;
    this.#counts.finishedAndDeleted(to, now);
    this.#transitions.add(job, to, now);
    if (isAwaited(job.item)) await this.#waits.jobEnded(tombstone, end, now);
    // An error here must not fail the call: the job is settled and cannot be settled again.
    await deleteLeftovers(this.#table, job, ["waiting", "live"], now).catch(() => {});
    return written;
  }

  async note(notes: readonly Note[], now: number): Promise<void> {
    await waitForAll(notes.map((note) => this.#noteOne(note, now).catch(dropInvalid)));
  }

  async #noteOne({ progress, log, ...lease }: Note, now: number): Promise<void> {
    const change = new Change().set({ updated_at: now });
    if (progress !== null) {
      const { fraction, note, data } = progress;
      change.set({ progress: fraction, progress_note: note, progress_data: data });
    }
    if (log.length > 0) {
      change.set({ beside: true });
      change.setTo("lines", `if_not_exists(#lines, ${change.value(0)}) + ${change.value(log.length)}`);
    }
    const written = await this.#table.update(jobKey(lease.id), ifLeased(change, lease));
    if (!written.done || written.old === null || log.length === 0) return;
    const known = this.#leaseCache.get(lease);
    if (known !== undefined) known.hasDetails = true;
    const items = logItems(lease.id, numberOf(written.old, "lines") ?? 0, log);
    await waitForAll(items.map((item) => this.#table.put(item)));
  }
}

/** Notes that DynamoDB can never store are dropped. An error would make the caller write the other notes again. */
function dropInvalid(error: unknown): void {
  if (!isInvalidItem(error)) throw error;
}

/**
 * Adds the condition that this lease is the current one. Only the fence decides: an expired lease that was not claimed
 * again still counts.
 */
export function ifLeased(change: Change, { fence }: LeaseRef): Change {
  return change.when(`#fence = ${change.value(fence)}`, change.isIn("state", LEASED));
}

/** How a job ends by this outcome. */
function endOf(job: JobItem, { to, output, error }: Outcome): TopicEnd {
  if (to === "completed") return { value: output, failure: null };
  return failureEnd(job, to as "dead" | "cancelled", error);
}

/** Lost response: the job, if this same request has already completed it. */
function completedBefore({ resent, found }: Written & { done: false }, { fence }: LeaseRef): Item | null {
  if (!resent || found === null) return null;
  const job = readItem(found);
  return job.state === "completed" && job.fence === fence ? found : null;
}

/** Lost response: whether this same request has already written the outcome. */
function isOwnOutcome(written: Written, { to, fence }: Outcome, now: number): boolean {
  if (written.done || !written.resent || written.found === null) return false;
  const job = readItem(written.found);
  return job.state === to && job.fence === fence && numberOf(written.found, "updated_at") === now;
}

/** Whether this start changed the state. If its response was lost, the second request finds the job as the first one left it. */
function startsNow(before: Item, { startedAt }: StartMark, resent: boolean, now: number): boolean {
  if (readItem(before).state === "claimed") return true;
  return resent && numberOf(before, "updated_at") === now && numberOf(before, "started_at") === startedAt;
}

function leaseResult(written: Written): LeaseResult {
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
