import { setTimeout as sleep } from "node:timers/promises";
import { ALL_QUEUES } from "../../../defaults.js";
import { STALE_FINGERPRINT } from "../../../job/fingerprint.js";
import { attemptsUsed, countClaim, isLeased, STALE_ERROR, type State } from "../../../job/state.js";
import { PARKED_AT } from "../../../job/stored-step.js";
import type { AttemptRecord, Claim, ClaimedJob, ClaimRequest } from "../../../store.js";
import { numberOf, stringOf, type Item } from "../connection/attributes.js";
import { attemptItem, inputsOf } from "./job-details.js";
import type { Config, SharedConfig, Lane } from "../connection/config.js";
import { Change } from "../connection/expressions.js";
import { isOwnWrite, newRequestToken } from "./insert.js";
import { claimedJob, errorFields, readItem, makeWaiting, type JobItem } from "./items.js";
import { dueKey, idOf, jobKey, laneKey, LIVE, shardOf, timeOf } from "./item-keys.js";
import type { LeaseCache } from "./lease-cache.js";
import type { TransitionLog } from "../transitions/transition-log.js";
import type { RetryLimit, Table } from "../connection/table.js";

/** An entry of the live index. It may be out of date: the condition on the item of the job decides. */
interface Entry {
  pk: string;
  lane: string;
  dueAt: number;
  /** The job, its lane and its sort key. A new value means that the job was moved. */
  position: string;
  /** Sorts entries by when they became due. */
  order: string;
  /** The end of its lease, as far as the index knows. */
  leasedUntil: number | null;
  type: string;
  bytes: number;
}

/** A reader of one lane in one shard. */
interface LaneReader {
  key: string;
  /** Where to continue; null once all due entries were read. */
  after: Item | undefined | null;
  /** The sort key of the last entry that was read. */
  readTo: string;
  pageLimit: number;
}

/** A job that this claim got. */
interface Claimed {
  entry: Entry;
  before: Item;
  claim: Pick<ClaimedJob, "fence" | "attempt" | "losses" | "previous">;
}

interface ClaimParts {
  config: SharedConfig;
  leaseCache: LeaseCache;
  transitions: TransitionLog;
}

export interface ClaimSettings {
  /** How far the clocks of different machines may differ. */
  marginMs: number;
}

const FIRST_PAGE = 16;
const LARGEST_PAGE = 1_000;
// How many entries a claim tries concurrently at first.
const FIRST_WINDOW = 4;
// After contention, the window grows by this much with each batch without a conflict.
const WINDOW_STEP = 2;
// Without contention for this long, a claim assumes that it has no competition.
const UNCONTENDED_MS = 5_000;
// The delay before the next claim after contention. It doubles up to MAX_DOUBLINGS times.
const CONTENDED_MS = 25;
const MAX_DOUBLINGS = 4;
// Under contention, entries that were read longer ago have probably been claimed by others.
const FRESH_MS = 50;
// Every process moves on to the next shard at this interval, so processes in different shards stay in different shards.
const SHARD_MS = 250;
const HASH_SPACE = 2 ** 32;
// How often a claim scans again if it got nothing because of contention.
const MAX_SCANS = 10;
// An out-of-date entry is not tried again for this long, because the index lags.
const LAG_MS = 3_000;
const MIN_RETRY_MS = 250;
// The delay of jobs that were released because their inputs could not be read.
const RELEASED_DELAY_MS = 5_000;

/**
 * Claims due jobs.
 *
 * Claims on a sharded index: DynamoDB has nothing like SKIP LOCKED. Every worker reads the same head of a lane, tries a
 * conditional update on each job, and pays for each one that another worker got first: a failed condition costs a write
 * unit, as a successful one does. So workers avoid each other: each starts in its own shard and at its own hash
 * position, tries few entries at a time after a conflict with another worker, and then leaves the shard. With that,
 * eight workers on the same 300 jobs lose 0.1 to 0.3 write units per job. With one shard, order is strict and all
 * workers compete for the same entries.
 *
 * Lagging index: an entry may show a job that has been claimed, moved or deleted. Nothing is decided by the index. Each
 * update has its own conditions, and a wrong entry is skipped for LAG_MS or until the lease ends.
 */
export class Claims {
  readonly #table: Table;
  readonly #config: SharedConfig;
  readonly #leaseCache: LeaseCache;
  readonly #transitions: TransitionLog;
  readonly #marginMs: number;
  readonly #scans = new Set<Scan>();
  /**
   * Where scans of this process start: a shard, and a hash position within a shard. Random, so that processes differ.
   */
  #shard = random(1_000);
  #startHash = random(HASH_SPACE);
  /** How many entries of a contended shard are tried concurrently. */
  #window = FIRST_WINDOW;
  /** How many jobs the last scan claimed. */
  #lastClaimed = 0;
  #contendedAt = Number.NEGATIVE_INFINITY;
  /** How many scans in a row got nothing because of contention. */
  #misses = 0;

  constructor(table: Table, { config, leaseCache, transitions }: ClaimParts, { marginMs }: ClaimSettings) {
    this.#table = table;
    this.#config = config;
    this.#leaseCache = leaseCache;
    this.#transitions = transitions;
    this.#marginMs = marginMs;
  }

  async claim(request: ClaimRequest, now: number): Promise<Claim> {
    const from = performance.now();
    let scan = await this.#scan(request, now, from);
    // Other workers got all the jobs that were tried. There may be more.
    for (let round = 1; scan.isContended && scan.claimed.length === 0 && round <= MAX_SCANS; round++) {
      await sleep(random(CONTENDED_MS));
      scan = await this.#scan(request, now, from);
    }
    if (scan.failure !== null && scan.claimed.length === 0) throw scan.failure.error;
    const claimed = scan.claimed.toSorted(
      (a, b) => inOrder(a.before, b.before) || (a.entry.order < b.entry.order ? -1 : 1),
    );
    const [kept, inputs] = await this.#withInputs(claimed, scan);
    const jobs = kept.map(({ before, claim }) => claimedJob(before, claim, inputs));
    for (const [at, { id, fence }] of jobs.entries()) this.#leaseCache.add(id, fence, (kept[at] as Claimed).before);
    const isExhausted = !scan.isFull && jobs.length < request.limit;
    return {
      at: now,
      jobs,
      nextDueAt: isExhausted && Number.isFinite(scan.nextDueAt) ? Math.ceil(scan.nextDueAt) : null,
    };
  }

  /** Reads the inputs that are in separate items. If that fails, jobs without their input are released. */
  async #withInputs(claimed: readonly Claimed[], scan: Scan): Promise<[Claimed[], Map<string, string>]> {
    const items = claimed.map(({ before }) => before);
    try {
      return [[...claimed], await inputsOf(this.#table, items, retryLimit(scan))];
    } catch (error) {
      const hasInput = ({ before }: Claimed): boolean => before["input_at"] === undefined;
      await Promise.allSettled(claimed.filter((each) => !hasInput(each)).map((each) => this.#release(each, scan)));
      const complete = claimed.filter(hasInput);
      if (complete.length === 0) throw error;
      return [complete, new Map()];
    }
  }

  /** The job was not started, so the attempt does not count. */
  async #release({ before, claim }: Claimed, scan: Scan): Promise<void> {
    const { now } = scan;
    const job = readItem(before);
    const change = new Change().set({ state: "pending", attempt: claim.previous.attempt, updated_at: now });
    makeWaiting(change, job, now + RELEASED_DELAY_MS);
    change.when(
      `#fence = ${change.value(claim.fence)}`,
      `#state = ${change.value("claimed")}`,
      // If a cancellation was requested meanwhile, the lease expires and the next claim handles it.
      "attribute_not_exists(#cancel_at)",
    );
    // The other claimed jobs wait for this while their leases run, so the time is limited.
    const written = await this.#table.update(jobKey(job.id), change, retryLimit(scan));
    if (written.done) this.#transitions.add({ ...job, fence: claim.fence }, "pending", now);
  }

  async #scan(request: ClaimRequest, now: number, from: number): Promise<Scan> {
    const config = await this.#config.read();
    const scan: Scan = {
      request,
      now,
      from,
      requestToken: newRequestToken(),
      claimed: [],
      seen: new Set(),
      tried: new Set(),
      bytes: 0,
      isFull: false,
      isStale: false,
      isContended: false,
      failure: null,
      nextDueAt: Number.POSITIVE_INFINITY,
    };
    this.#scans.add(scan);
    try {
      for (const lanes of byPriority(config, request)) {
        if (isComplete(scan)) break;
        await this.#claimFrom(lanes, config.shards, scan);
      }
    } catch (error) {
      scan.failure = { error };
    } finally {
      this.#scans.delete(scan);
    }
    this.#lastClaimed = scan.claimed.length;
    return scan;
  }

  /** Claims from lanes of one priority. With one shard, in strict order; otherwise one shard after another. */
  async #claimFrom(lanes: readonly Lane[], shards: number, scan: Scan): Promise<void> {
    const pageLimit = Math.max(FIRST_PAGE, 2 * this.#lastClaimed);
    const readersIn = (shard: number): LaneReader[] =>
      lanes.map(({ queue, priority }) => ({
        key: laneKey(queue, priority, shard),
        after: undefined,
        readTo: "",
        pageLimit,
      }));
    const first = (this.#shard + Math.floor(scan.now / SHARD_MS)) % shards;
    await this.#claimAll(readersIn(first), scan, shards > 1);
    if (shards === 1 || isComplete(scan)) return;
    const others = Array.from({ length: shards - 1 }, (_, step) => readersIn((first + 1 + step) % shards));
    // Read the other shards concurrently, each for a part of the limit. Not under contention: the pages would be out of
    // date before their turn.
    const pages = this.#isUncontended(scan)
      ? await Promise.all(others.map((readers) => this.#readAll(readers, scan, others.length)))
      : [];
    for (
      let left = others.length, at = random(left);
      left > 0 && !isComplete(scan);
      left--, at = (at + 1) % others.length
    ) {
      await this.#claimAll(others[at] as LaneReader[], scan, true, pages[at]);
    }
  }

  #isUncontended({ now }: Scan): boolean {
    return now - this.#contendedAt > UNCONTENDED_MS;
  }

  async #readAll(readers: readonly LaneReader[], scan: Scan, parts = 1): Promise<Entry[]> {
    return (await Promise.all(readers.map((reader) => this.#read(reader, scan, parts)))).flat();
  }

  /**
   * Reads and claims until the limit is reached or no more jobs are due. `leaveOnConflict`: leave the shard to another
   * worker after a conflict, because there are other shards and every failed condition costs as much as a claim.
   */
  async #claimAll(readers: readonly LaneReader[], scan: Scan, leaveOnConflict: boolean, read?: Entry[]): Promise<void> {
    let open = readers;
    let seen = read ?? (await this.#readAll(open, scan));
    for (;;) {
      open = open.filter(({ after }) => after !== null);
      // An expired lease is due since its end, but its entry is at the original due time. Entries between the two that
      // were not read yet come first.
      const known = leaveOnConflict ? undefined : open.map(({ readTo }) => readTo).toSorted()[0];
      const ready = seen.filter(({ order }) => known === undefined || order <= known);
      const later = seen.filter(({ order }) => known !== undefined && order > known);
      if (leaveOnConflict) {
        if (!(await this.#claimAny(ready, scan))) return;
      } else
        await this.#claimThese(
          ready.toSorted((a, b) => (a.order < b.order ? -1 : 1)),
          scan,
        );
      if (isComplete(scan) || (open.length === 0 && later.length === 0)) return;
      seen = [...later, ...(await this.#readAll(open, scan))];
    }
  }

  /**
   * Claims in the order of a hash of the job, starting at this process's own hash position. Other processes start
   * elsewhere, so they conflict only where one reaches the start of another. The number of concurrent tries grows while
   * there is no conflict. False: there was a conflict.
   */
  async #claimAny(entries: readonly Entry[], scan: Scan): Promise<boolean> {
    const left = rotateFrom(this.#startHash, entries);
    const isUncontended = this.#isUncontended(scan);
    const readAt = performance.now();
    while (left.length > 0 && !isComplete(scan)) {
      const before = scan.claimed.length;
      const some = left
        .splice(0, Math.ceil(Math.min(this.#window, scan.request.limit - before)))
        .filter(({ pk }) => !scan.tried.has(pk));
      await this.#claimThese(some, scan);
      if (scan.isFull || scan.failure !== null) return true;
      if (scan.claimed.length - before < some.length) {
        this.#backOff(scan);
        return false;
      }
      this.#misses = 0;
      if (!isUncontended && left.length > 0 && scan.claimed.length > 0 && performance.now() - readAt > FRESH_MS) {
        scan.isStale = true;
        scan.nextDueAt = scan.now;
        return true;
      }
      const maxWindow = Math.max(FIRST_PAGE, this.#lastClaimed);
      this.#window = Math.min(maxWindow, isUncontended ? this.#window * 2 : this.#window + WINDOW_STEP);
    }
    return true;
  }

  /** Another worker tried the same jobs. The next scan starts elsewhere and a little later. */
  #backOff(scan: Scan): void {
    if (scan.claimed.length > 0) this.#misses = 0;
    else if (!scan.isContended) this.#misses++;
    const waitMs = CONTENDED_MS * 2 ** Math.min(MAX_DOUBLINGS, this.#misses);
    scan.isContended = true;
    this.#contendedAt = scan.now;
    this.#window = Math.max(1, Math.floor(this.#window / 4));
    this.#shard = random(1_000);
    this.#startHash = random(HASH_SPACE);
    scan.nextDueAt = Math.min(scan.nextDueAt, scan.now + waitMs * (1 + Math.random()));
  }

  /** Reads the next due entries of a lane that can be claimed. */
  async #read(reader: LaneReader, scan: Scan, parts: number): Promise<Entry[]> {
    const { request, now } = scan;
    const needed = (request.limit - scan.claimed.length) / parts;
    // Entries that are not due yet cost as much to read as others, so the first page is small if the last claim was.
    const limit = Math.min(LARGEST_PAGE, reader.pageLimit, Math.ceil(needed * 1.25) + 5);
    reader.pageLimit *= 4;
    const page = await this.#table.query({ index: LIVE, hash: reader.key, limit, after: reader.after ?? null });
    reader.after = page.next;
    const due: Entry[] = [];
    for (const item of page.items) {
      const entry = readEntry(item);
      reader.readTo = stringOf(item, LIVE.range) ?? "";
      if (entry.dueAt > now) {
        // The first entry that is not due ends the lane and has the next due time. Parked jobs come last.
        if (entry.dueAt < PARKED_AT) scan.nextDueAt = Math.min(scan.nextDueAt, entry.dueAt);
        reader.after = null;
        break;
      }
      const freeAt = Math.max(
        entry.leasedUntil === null ? 0 : entry.leasedUntil + this.#marginMs,
        this.#leaseCache.skippedUntil(idOf(entry.pk), entry.position),
      );
      if (freeAt > now) scan.nextDueAt = Math.min(scan.nextDueAt, freeAt);
      // A job that is moved while the pages are read may be on two of them.
      else if (scan.seen.has(entry.pk)) continue;
      else if (request.types === null || request.types.includes(entry.type)) {
        scan.seen.add(entry.pk);
        due.push(entry);
      }
    }
    return due;
  }

  /** Claims entries in order, concurrently up to the limit. */
  async #claimThese(entries: readonly Entry[], scan: Scan): Promise<void> {
    let at = 0;
    while (at < entries.length && !isComplete(scan)) {
      const some: Entry[] = [];
      let bytes = scan.bytes;
      for (; at < entries.length && scan.claimed.length + some.length < scan.request.limit; at++) {
        const entry = entries[at] as Entry;
        bytes += entry.bytes;
        if (scan.claimed.length + some.length > 0 && bytes > scan.request.bytes) {
          // If the entries before it are claimed by others, there may still be space for it.
          scan.isFull = some.length === 0;
          break;
        }
        some.push(entry);
      }
      for (const { tried } of this.#scans) for (const { pk } of some) tried.add(pk);
      for (const outcome of await Promise.allSettled(some.map((entry) => this.#claimOne(entry, scan)))) {
        if (outcome.status === "rejected") scan.failure ??= { error: outcome.reason };
        else if (outcome.value !== null) {
          const { entry, before, claim } = outcome.value;
          scan.claimed.push(outcome.value);
          this.#transitions.add({ ...readItem(before), fence: claim.fence }, "claimed", scan.now);
          scan.bytes += entry.bytes;
          // Until the index shows the lease, the next scans would try this job again.
          this.#leaseCache.skip(idOf(entry.pk), entry.position, scan.now + scan.request.leaseMs + this.#marginMs);
        }
      }
    }
  }

  async #claimOne(entry: Entry, scan: Scan): Promise<Claimed | null> {
    // The index shows a lease, and it has expired. That attempt is recorded in the history, so the item is read first.
    if (entry.leasedUntil !== null) {
      const found = await this.#table.get(jobKey(idOf(entry.pk)), retryLimit(scan));
      return found === null ? null : this.#claimExpired(entry, found, scan);
    }
    const { request, now, requestToken } = scan;
    const change = leaseChange(request, now, requestToken);
    const one = change.value(1);
    change.setTo("was", "#state").setTo("fence", `#fence + ${one}`).setTo("attempt", `#attempt + ${one}`);
    change.when(
      change.isIn("state", ["pending", "failed"]),
      `#due_at <= ${change.value(now)}`,
      "#attempt < #max_attempts",
      // An update may have moved the job to another queue.
      `#lane = ${change.value(entry.lane)}`,
    );
    const written = await this.#table.update(jobKey(idOf(entry.pk)), change, retryLimit(scan));
    if (written.done) return written.old === null ? null : claimedFrom(entry, written.old);
    if (written.found === null) return null;
    if (isOwnWrite(written.found, requestToken)) return claimedBefore(entry, written.found);
    return this.#claimExpired(entry, written.found, scan);
  }

  /** Claims a job whose lease expired. Handles every job that is not simply waiting. */
  async #claimExpired(entry: Entry, found: Item, scan: Scan): Promise<Claimed | null> {
    const { request, now, requestToken } = scan;
    const job = readItem(found);
    const isDue = job.dueAt !== null && job.dueAt + (isLeased(job.state) ? this.#marginMs : 0) <= now;
    if (!isDue || stringOf(found, LIVE.hash) !== entry.lane) {
      // The entry is out of date: the job is leased, finished or moved. Skip it while the entry stays at this position.
      const until = job.dueAt !== null && isLeased(job.state) ? job.dueAt + this.#marginMs : now + LAG_MS;
      this.#leaseCache.skip(job.id, entry.position, until);
      return null;
    }
    const count = countClaim(job);
    const change = leaseChange(request, now, requestToken).set({
      was: job.state,
      fence: job.fence + 1,
      attempt: count.attempt,
      losses: count.losses === 0 ? null : count.losses,
    });
    change.when(
      `#fence = ${change.value(job.fence)}`,
      `#state = ${change.value(job.state)}`,
      `#due_at = ${change.value(job.dueAt ?? 0)}`,
      `#lane = ${change.value(entry.lane)}`,
    );
    if (!count.lost) {
      // A waiting job may have been updated since it was read, so the rest comes from the item that was written.
      change.when(`#max_attempts = ${change.value(job.maxAttempts)}`);
      const written = await this.#table.update(jobKey(job.id), change, retryLimit(scan));
      if (written.done) return written.old === null ? null : claimedFrom(entry, written.old);
      if (written.found === null || !isOwnWrite(written.found, requestToken)) return null;
      return { ...claimedFrom(entry, found), before: written.found };
    }
    const claimed = claimedFrom(entry, found);
    const history = lostAttempt(job, change, now);
    const writes = [{ update: jobKey(job.id), change }, { put: history }];
    const written = await this.#table.transact(writes, retryLimit(scan));
    if (written.done) return claimed;
    const [meanwhile] = written.failed;
    return meanwhile !== undefined && isOwnWrite(meanwhile, requestToken) ? claimed : null;
  }
}

/** One pass over the lanes of a claim. */
interface Scan {
  readonly request: ClaimRequest;
  readonly now: number;
  /** When the claim started, by `performance.now()`. Its leases run from then. */
  readonly from: number;
  /** Request token: an update that is sent again recognizes its own claim. */
  readonly requestToken: string;
  readonly claimed: Claimed[];
  readonly seen: Set<string>;
  /**
   * Jobs that another claim of this process has tried since this scan began. The pages read before do not show that.
   */
  readonly tried: Set<string>;
  bytes: number;
  /** The limit of bytes is reached. */
  isFull: boolean;
  /** The entries were read too long ago. */
  isStale: boolean;
  /** Another worker tried the same jobs. */
  isContended: boolean;
  /** The first error. The scan ends, but the jobs that it has claimed are returned. */
  failure: { error: unknown } | null;
  nextDueAt: number;
}

/**
 * A claim must not be written late: after half the lease it is of little use, and after its end it wastes an attempt.
 */
function retryLimit({ request, from }: Scan): RetryLimit {
  return { withinMs: Math.max(MIN_RETRY_MS, request.leaseMs / 2 - (performance.now() - from)) };
}

/** The attributes that every claim sets. */
function leaseChange({ worker, leaseMs }: ClaimRequest, now: number, requestToken: string): Change {
  return new Change()
    .set({
      state: "claimed",
      due_at: now + leaseMs,
      held: now + leaseMs,
      worker,
      claimed_at: now,
      updated_at: now,
      token: requestToken,
    })
    .remove("started_at", "again");
}

function claimedFrom(entry: Entry, before: Item): Claimed {
  const job = readItem(before);
  const { attempt, losses, exhausted } = countClaim(job);
  const previous = { state: job.state, attempt: attemptsUsed(job), exhausted };
  return { entry, before, claim: { fence: job.fence + 1, attempt, losses, previous } };
}

/** Lost response: reads the result of the claim from the item that it has written. */
function claimedBefore(entry: Entry, after: Item): Claimed {
  const job = readItem(after);
  const previous = { state: stringOf(after, "was") as State, attempt: job.attempt - 1, exhausted: false };
  return { entry, before: after, claim: { fence: job.fence, attempt: job.attempt, losses: job.losses, previous } };
}

/** Adds the error of an expired lease to the change, and returns the item of its attempt history. */
export function lostAttempt(job: JobItem, change: Change, now: number): Item {
  const nth = numberOf(job.item, "tries") ?? 0;
  const error = { ...STALE_ERROR, fingerprint: STALE_FINGERPRINT };
  change.set({ ...errorFields(error, now), tries: nth + 1, beside: true });
  const record: AttemptRecord = {
    attempt: job.attempt,
    fence: job.fence,
    end: "expired",
    worker: stringOf(job.item, "worker"),
    claimedAt: numberOf(job.item, "claimed_at"),
    startedAt: numberOf(job.item, "started_at"),
    endedAt: now,
    error: { ...STALE_ERROR, stack: null },
  };
  return attemptItem(job.id, nth, record);
}

function readEntry(item: Item): Entry {
  const [lane, due] = [stringOf(item, LIVE.hash) ?? "", stringOf(item, LIVE.range) ?? ""];
  const leasedUntil = numberOf(item, "held");
  return {
    pk: stringOf(item, "pk") ?? "",
    lane,
    position: `${stringOf(item, "pk")} ${due} ${lane}`,
    dueAt: timeOf(due),
    order: leasedUntil === null ? due : dueKey(Math.max(leasedUntil, timeOf(due)), due.slice(due.indexOf("#") + 1)),
    leasedUntil,
    type: stringOf(item, "type") ?? "",
    bytes: numberOf(item, "bytes") ?? 0,
  };
}

/** The lanes of the request, highest priority first. */
function byPriority({ lanes, paused }: Config, { queues }: ClaimRequest): Lane[][] {
  if (paused.has(ALL_QUEUES)) return [];
  const requested = lanes.filter(({ queue }) => !paused.has(queue) && (queues === null || queues.includes(queue)));
  const groups = new Map<number, Lane[]>();
  for (const lane of requested) groups.set(lane.priority, [...(groups.get(lane.priority) ?? []), lane]);
  return [...groups].toSorted(([a], [b]) => b - a).map(([, group]) => group);
}

function inOrder(a: Item, b: Item): number {
  return (numberOf(b, "priority") ?? 0) - (numberOf(a, "priority") ?? 0);
}

/** Under contention, a scan ends as soon as it has a job. It returns nothing only if it could claim nothing. */
function isComplete({ isFull, isStale, failure, claimed, request, isContended }: Scan): boolean {
  return (
    failure !== null || isFull || isStale || claimed.length >= request.limit || (isContended && claimed.length > 0)
  );
}

function random(below: number): number {
  return Math.floor(Math.random() * below);
}

/** Sorts entries by a hash of the job, starting at `startHash` and wrapping around. */
function rotateFrom(startHash: number, entries: readonly Entry[]): Entry[] {
  return entries
    .map((entry) => ({ entry, at: (shardOf(entry.pk, HASH_SPACE) - startHash + HASH_SPACE) % HASH_SPACE }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ entry }) => entry);
}
