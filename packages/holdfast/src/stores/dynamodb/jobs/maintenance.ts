import {
  attemptsUsed,
  EXPIRED_ERROR,
  isFinished,
  isLeased,
  isWaiting,
  STALE_ERROR,
  type FinishedState,
  type State,
} from "../../../job/state.js";
import type { ReapedJob, PurgeRequest } from "../../../store.js";
import { numberOf, stringOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import type { Changes } from "./changes.js";
import { lostAttempt } from "./claim.js";
import type { SharedConfig } from "../connection/config.js";
import type { Counts } from "./counts.js";
import { waitForAll } from "./insert.js";
import {
  removeLiveFields,
  finishedFields,
  isDeleted,
  makeWaiting,
  purgeTime,
  readItem,
  type JobItem,
} from "./items.js";
import {
  finishedKey,
  EXPIRING,
  expiryKey,
  idOf,
  isOwnTimeKey,
  jobKey,
  laneKey,
  LIVE,
  DUTIES,
  endOfMillisecond,
  ownTimeKey,
  timeOf,
} from "./item-keys.js";
import { mergeShards } from "./merge-shards.js";
import type { Page, Table } from "../connection/table.js";
import type { TransitionLog } from "../transitions/transition-log.js";
import { purgeWorkers } from "./workers.js";
import { ifSameAwaiters, isAwaited } from "../steps/awaiters.js";
import { failureEnd, type Waits } from "../steps/waits.js";

interface Parts {
  config: SharedConfig;
  counts: Counts;
  changes: Changes;
  transitions: TransitionLog;
  waits: Waits;
}

/** A position in the lanes. */
interface ScanPosition {
  key: string;
  after: Item | null;
}

const PAGE = 500;
// How many entries one call of `reapExpiredLeases` reads.
const MAX_ENTRIES_READ = 10_000;
const BOUNDARY_CACHED_MS = 60_000;

/** Expired leases, expiry, retention, and which process does each duty. */
export class Maintenance {
  readonly #table: Table;
  readonly #parts: Parts;
  readonly #marginMs: number;
  #maintainedAt = Number.NEGATIVE_INFINITY;
  /** Where the last scan for expired leases stopped; null if it has read everything. */
  #stopped: ScanPosition | null = null;
  /** For each state, the sort key above which the newest `keep` jobs are. */
  readonly #boundaries = new Map<State, { keep: number; below: string; at: number }>();

  constructor(table: Table, parts: Parts, marginMs: number) {
    this.#table = table;
    this.#parts = parts;
    this.#marginMs = marginMs;
  }

  /**
   * Reads due entries and reaps expired leases. In a long queue it reads a part, and the next call continues there.
   * Claims find expired leases too.
   */
  async reapExpiredLeases(limit: number, now: number): Promise<ReapedJob[]> {
    const { lanes, shards } = await this.#parts.config.read();
    const keys = Array.from({ length: shards }, (_, shard) =>
      lanes.map(({ queue, priority }) => laneKey(queue, priority, shard)),
    ).flat();
    const reaped: ReapedJob[] = [];
    let entriesRead = 0;
    for (const { key, after: from } of lanesFrom(this.#stopped, keys)) {
      for (let after: Item | null = from, isLast = false; !isLast;) {
        this.#stopped = { key, after };
        if (entriesRead >= MAX_ENTRIES_READ) return reaped;
        const page: Page = await this.#table.query({
          index: LIVE,
          hash: key,
          below: endOfMillisecond(now),
          limit: PAGE * 2,
          after,
        });
        entriesRead += page.items.length;
        reaped.push(...(await this.#reapThese(page.items, limit - reaped.length, now)));
        if (reaped.length >= limit) return reaped;
        after = page.next;
        isLast = after === null;
      }
    }
    this.#stopped = null;
    return reaped;
  }

  async #reapThese(entries: readonly Item[], limit: number, now: number): Promise<ReapedJob[]> {
    const isExpired = (entry: Item): boolean =>
      (numberOf(entry, "held") ?? Number.POSITIVE_INFINITY) + this.#marginMs <= now;
    const found = await this.#jobs(entries.filter(isExpired), now);
    const reaped: ReapedJob[] = [];
    for (let at = 0; at < found.length && reaped.length < limit; at += PAGE) {
      const some = found.slice(at, at + Math.min(PAGE, limit - reaped.length));
      const done = await waitForAll(some.map((job) => this.#reap(job, now)));
      reaped.push(...done.filter((each) => each !== null));
    }
    return reaped;
  }

  async #reap(job: JobItem, now: number): Promise<ReapedJob | null> {
    if (!isLeased(job.state) || job.dueAt === null || job.dueAt + this.#marginMs > now) return null;
    const used = attemptsUsed(job);
    const to: "dead" | "cancelled" | "pending" =
      job.cancelAt !== null ? "cancelled" : used >= job.maxAttempts ? "dead" : "pending";
    const change = new Change().set({ state: to, attempt: used, losses: job.losses + 1, updated_at: now });
    if (to === "pending") makeWaiting(change, job, now);
    else {
      const purgeAt = purgeTime(job, to, now);
      if (purgeAt !== null) await this.#parts.config.ensureOwnTimes();
      change.set({ finished_at: now, ...finishedFields(job, to, now, purgeAt) });
      removeLiveFields(change, job, isAwaited(job.item), now);
    }
    change.when(
      `#fence = ${change.value(job.fence)}`,
      `#state = ${change.value(job.state)}`,
      `#due_at = ${change.value(job.dueAt)}`,
    );
    if (job.cancelAt === null) change.when("attribute_not_exists(#cancel_at)");
    ifSameAwaiters(change, job.item);
    const history = lostAttempt(job, change, now);
    const written = await this.#table.transact([{ update: jobKey(job.id), change }, { put: history }]);
    if (!written.done) return null;
    if (to !== "pending") this.#parts.counts.finished(job, to, now);
    this.#parts.transitions.add(job, to, now);
    if (to !== "pending" && isAwaited(job.item))
      await this.#parts.waits.jobEnded(job.item, failureEnd(job, to, STALE_ERROR), now);
    return { id: job.id, type: job.type, queue: job.queue, attempt: used, to };
  }

  async expireOverdue(limit: number, now: number): Promise<ReapedJob[]> {
    const { shards } = await this.#parts.config.read();
    const reaped: ReapedJob[] = [];
    for (let shard = 0; shard < shards; shard++) {
      for await (const page of this.#expiring(shard, now)) {
        const waiting = (await this.#jobs(page, now)).filter(
          ({ state, expiresAt }) => isWaiting(state) && expiresAt !== null && expiresAt <= now,
        );
        const some = waiting.slice(0, limit - reaped.length);
        const done = await waitForAll(some.map((job) => this.#parts.changes.expire(job, EXPIRED_ERROR, now)));
        for (const [at, { id, type, queue, attempt }] of some.entries()) {
          if (done[at] === true) reaped.push({ id, type, queue, attempt, to: "dead" });
        }
        if (reaped.length >= limit) return reaped;
      }
    }
    return reaped;
  }

  /**
   * Deletes finished jobs that have no time to live and no purge time of their own, oldest first over all shards.
   *
   * Lagging index: it may still show jobs that are already deleted. They do not count towards the limit, otherwise a
   * caller that purges in chunks would stop too early.
   */
  async purge({ state, before, keep, limit }: PurgeRequest, now: number): Promise<number> {
    if (limit <= 0) return 0;
    const { shards } = await this.#parts.config.read();
    const keys = inShards(shards, (shard) => finishedKey(state, shard));
    const ends = [endOfMillisecond(before === null ? now : before - 1)];
    if (keep !== null) {
      const boundary = await this.#keepBoundary(state, { keys, keep }, now);
      if (boundary === null) return 0;
      ends.push(boundary);
    }
    const isFound = (job: JobItem): boolean => job.state === state && !isOwnTimeKey(laneOf(job));
    const deleted = await this.#deleteOldest(keys, ends.toSorted()[0] as string, limit, isFound, now);
    if (deleted < limit) this.#boundaries.delete(state);
    return deleted;
  }

  /** Deletes finished jobs whose own purge time has passed. They are in separate partitions, so `purge` never reads them. */
  async purgeDue(limit: number, now: number): Promise<number> {
    if (limit <= 0) return 0;
    const { shards, hasOwnTimes } = await this.#parts.config.read();
    if (!hasOwnTimes) return 0;
    const keys = FINISHED.flatMap((state) => inShards(shards, (shard) => ownTimeKey(state, shard)));
    const isFound = (job: JobItem): boolean =>
      isFinished(job.state) && isOwnTimeKey(laneOf(job)) && timeOf(dueOf(job.item)) <= now;
    return this.#deleteOldest(keys, endOfMillisecond(now), limit, isFound, now);
  }

  /** Deletes up to `limit` jobs of these partitions of the live index, those with the lowest sort keys first. */
  async #deleteOldest(
    keys: readonly string[],
    below: string,
    limit: number,
    isFound: (job: JobItem) => boolean,
    now: number,
  ): Promise<number> {
    const bounds = { below, limit: pageOf(limit, keys.length) };
    const partitions = keys.map((hash) => this.#table.pages({ index: LIVE, hash, ...bounds }));
    let deleted = 0;
    let some: Item[] = [];
    for await (const entry of mergeShards(partitions, (a, b) => dueOf(a) < dueOf(b))) {
      some.push(entry);
      if (deleted + some.length < limit) continue;
      deleted += await this.#deleteThese(some, isFound, now);
      if (deleted >= limit) return deleted;
      some = [];
    }
    return deleted + (await this.#deleteThese(some, isFound, now));
  }

  async #deleteThese(entries: readonly Item[], isFound: (job: JobItem) => boolean, now: number): Promise<number> {
    const jobs = (await this.#jobs(entries, now)).filter(isFound);
    const done = await waitForAll(jobs.map((job) => this.#parts.changes.delete(job, ["waiting", "live"], now)));
    return done.filter(Boolean).length;
  }

  /**
   * The sort key below which jobs are not among the newest `keep`; null if there are no such jobs. Reads `keep` entries,
   * once for all chunks of a purge: jobs below the boundary stay below it when more jobs finish.
   */
  async #keepBoundary(
    state: State,
    { keys, keep }: { keys: readonly string[]; keep: number },
    now: number,
  ): Promise<string | null> {
    const known = this.#boundaries.get(state);
    if (known !== undefined && known.keep === keep && Math.abs(now - known.at) < BOUNDARY_CACHED_MS) return known.below;
    let left = keep;
    const limit = pageOf(left + 1, keys.length);
    const partitions = keys.map((hash) => this.#table.pages({ index: LIVE, hash, limit, newestFirst: true }));
    for await (const entry of mergeShards(partitions, (a, b) => dueOf(a) > dueOf(b))) {
      if (left-- > 0) continue;
      const below = `${dueOf(entry)}~`;
      this.#boundaries.set(state, { keep, below, at: now });
      return below;
    }
    return null;
  }

  /** Entries that expire up to this time. */
  #expiring(shard: number, until: number): AsyncGenerator<Item[]> {
    return this.#table.pages({
      index: EXPIRING,
      hash: expiryKey(shard),
      below: endOfMillisecond(until),
      limit: PAGE * 2,
    });
  }

  /** Reads the jobs of these entries. The index lags, so some may be deleted. */
  async #jobs(entries: readonly Item[], now: number): Promise<JobItem[]> {
    const keys = entries.map((entry) => jobKey(idOf(stringOf(entry, "pk") ?? "")));
    return (await this.#table.getAll(keys)).filter((item) => !isDeleted(item, now)).map(readItem);
  }

  async tryAcquireDuty(name: string, everyMs: number, now: number): Promise<boolean> {
    const change = new Change().set({ at: now });
    // A time in the future comes from a clock that is ahead, and the duty waits for it. Far in the future, that clock was
    // wrong, and its time is ignored.
    const [since, ahead] = [now - Math.round(everyMs), now + Math.round(everyMs) + this.#marginMs];
    change.when(`attribute_not_exists(#at) OR #at <= ${change.value(since)} OR #at > ${change.value(ahead)}`);
    const written = await this.#table.update({ pk: DUTIES, sk: name }, change);
    return written.done || (written.resent && numberOf(written.found ?? {}, "at") === now);
  }

  /** At most once an hour in this process: removes unused lanes and types, and expired worker records. */
  async maintain(now: number): Promise<void> {
    if (now - this.#maintainedAt < MAINTAIN_EVERY_MS && now >= this.#maintainedAt) return;
    this.#maintainedAt = now;
    await this.#parts.config.removeUnused(now);
    await purgeWorkers(this.#table, now);
  }
}

const MAINTAIN_EVERY_MS = 3_600_000;
const FINISHED: readonly FinishedState[] = ["completed", "dead", "cancelled"];

function inShards(shards: number, keyOf: (shard: number) => string): string[] {
  return Array.from({ length: shards }, (_, shard) => keyOf(shard));
}

/** All lanes once, starting at the position where the last scan stopped. */
function lanesFrom(stopped: ScanPosition | null, keys: readonly string[]): ScanPosition[] {
  const at = stopped === null ? -1 : keys.indexOf(stopped.key);
  const whole = keys.map((key): ScanPosition => ({ key, after: null }));
  if (stopped === null || at < 0) return whole;
  const others = [...whole.slice(at + 1), ...whole.slice(0, at)];
  return [stopped, ...others, ...(stopped.after === null ? [] : [{ key: stopped.key, after: null }])];
}

/** The page size for reading `wanted` entries from several partitions. They are not evenly filled, so it adds 25%. */
function pageOf(wanted: number, partitions: number): number {
  return Math.min(PAGE * 2, Math.ceil((wanted / partitions) * 1.25) + 5);
}

function laneOf({ item }: JobItem): string {
  return stringOf(item, LIVE.hash) ?? "";
}

function dueOf(entry: Item): string {
  return stringOf(entry, LIVE.range) ?? "";
}
