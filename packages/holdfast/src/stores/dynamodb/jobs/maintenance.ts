import { attemptsUsed, EXPIRED_ERROR, isLeased, isWaiting, type State } from "../../../job/state.js";
import type { ReapedJob, PurgeRequest } from "../../../store.js";
import { numberOf, textOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import type { Changes } from "./changes.js";
import { lostAttempt } from "./claim.js";
import type { ConfigKeeper } from "../connection/config.js";
import type { Counts } from "./counts.js";
import { settled } from "./insert.js";
import { endedFields, errorFields, isGone, LIVE_ONLY, readItem, waitAgain, type JobItem } from "./items.js";
import { endedKey, EXPIRING, expiryKey, idOf, jobKey, laneKey, LIVE, TURNS, endOf } from "./keys.js";
import { merged } from "./merge-shards.js";
import type { Page, Table } from "../connection/table.js";
import { clearWorkers } from "./workers.js";

interface Parts {
  config: ConfigKeeper;
  counts: Counts;
  changes: Changes;
}

/** A place among the entries of the lanes. */
interface Place {
  key: string;
  after: Item | null;
}

const PAGE = 500;
// Entries that one look for stale leases reads.
const MOST_LOOKED = 10_000;
const KNOWN_MS = 60_000;

/** Stale leases, expiry, retention, and whose turn it is. */
export class Upkeep {
  readonly #table: Table;
  readonly #parts: Parts;
  readonly #marginMs: number;
  #forgottenAt = Number.NEGATIVE_INFINITY;
  /** Where the last look for stale leases stopped; null: it has seen all. */
  #stopped: Place | null = null;
  /** By state, where those begin that a number of jobs to keep leaves over. */
  readonly #pasts = new Map<State, { keep: number; below: string; at: number }>();

  constructor(table: Table, parts: Parts, marginMs: number) {
    this.#table = table;
    this.#parts = parts;
    this.#marginMs = marginMs;
  }

  /**
   * Due entries that are marked as held and no longer are. Behind a long queue not all at once: a look at so many entries,
   * and the next one goes on from there. Whoever claims in that queue finds them anyway.
   */
  async reapExpiredLeases(limit: number, now: number): Promise<ReapedJob[]> {
    const { lanes, shards } = await this.#parts.config.read();
    const keys = Array.from({ length: shards }, (_, shard) =>
      lanes.map(({ queue, priority }) => laneKey(queue, priority, shard)),
    ).flat();
    const laidDown: ReapedJob[] = [];
    let looked = 0;
    for (const { key, after: from } of roundFrom(this.#stopped, keys)) {
      for (let after: Item | null = from, isLast = false; !isLast;) {
        this.#stopped = { key, after };
        if (looked >= MOST_LOOKED) return laidDown;
        const page: Page = await this.#table.query({
          index: LIVE,
          hash: key,
          below: endOf(now),
          limit: PAGE * 2,
          after,
        });
        looked += page.items.length;
        laidDown.push(...(await this.#layDownThese(page.items, limit - laidDown.length, now)));
        if (laidDown.length >= limit) return laidDown;
        after = page.next;
        isLast = after === null;
      }
    }
    this.#stopped = null;
    return laidDown;
  }

  async #layDownThese(entries: readonly Item[], limit: number, now: number): Promise<ReapedJob[]> {
    const isOver = (entry: Item): boolean =>
      (numberOf(entry, "held") ?? Number.POSITIVE_INFINITY) + this.#marginMs <= now;
    const found = await this.#jobs(entries.filter(isOver), now);
    const laidDown: ReapedJob[] = [];
    for (let at = 0; at < found.length && laidDown.length < limit; at += PAGE) {
      const some = found.slice(at, at + Math.min(PAGE, limit - laidDown.length));
      const done = await settled(some.map((job) => this.#layDown(job, now)));
      laidDown.push(...done.filter((each) => each !== null));
    }
    return laidDown;
  }

  async #layDown(job: JobItem, now: number): Promise<ReapedJob | null> {
    if (!isLeased(job.state) || job.dueAt === null || job.dueAt + this.#marginMs > now) return null;
    const used = attemptsUsed(job);
    const to: State = job.cancelAt !== null ? "cancelled" : used >= job.maxAttempts ? "dead" : "pending";
    const change = new Change().set({ state: to, attempt: used, losses: job.losses + 1, updated_at: now });
    if (to === "pending") waitAgain(change, job, now);
    else change.set({ finished_at: now, ...endedFields(job, to, now) }).remove(...LIVE_ONLY);
    change.when(
      `#fence = ${change.value(job.fence)}`,
      `#state = ${change.value(job.state)}`,
      `#due_at = ${change.value(job.dueAt)}`,
    );
    if (job.cancelAt === null) change.when("attribute_not_exists(#cancel_at)");
    const history = lostAttempt(job, change, now);
    const written = await this.#table.transact([{ update: jobKey(job.id), change }, { put: history }]);
    if (!written.done) return null;
    if (to !== "pending") this.#parts.counts.ended(job, to, now);
    return { id: job.id, type: job.type, queue: job.queue, attempt: used, to };
  }

  async expireOverdue(limit: number, now: number): Promise<ReapedJob[]> {
    const { shards } = await this.#parts.config.read();
    const laidDown: ReapedJob[] = [];
    for (let shard = 0; shard < shards; shard++) {
      for await (const page of this.#expiring(shard, now)) {
        const waiting = (await this.#jobs(page, now)).filter(
          ({ state, expiresAt }) => isWaiting(state) && expiresAt !== null && expiresAt <= now,
        );
        const some = waiting.slice(0, limit - laidDown.length);
        const done = await settled(
          some.map((job) => this.#parts.changes.expire(job, errorFields(EXPIRED_ERROR, now), now)),
        );
        for (const [at, { id, type, queue, attempt }] of some.entries()) {
          if (done[at] === true) laidDown.push({ id, type, queue, attempt, to: "dead" });
        }
        if (laidDown.length >= limit) return laidDown;
      }
    }
    return laidDown;
  }

  /**
   * Finished jobs that DynamoDB does not clear away by itself, oldest first over all shards. The index may still show what
   * is gone: it is read past, or those who come chunk after chunk would stop there.
   */
  async purge({ state, before, keep, limit }: PurgeRequest, now: number): Promise<number> {
    if (limit <= 0) return 0;
    const { shards } = await this.#parts.config.read();
    const keys = Array.from({ length: shards }, (_, shard) => endedKey(state, shard));
    const ends = [endOf(before === null ? now : before - 1)];
    if (keep !== null) {
      const past = await this.#past(state, keys, keep, now);
      if (past === null) return 0;
      ends.push(past);
    }
    const bounds = { below: ends.toSorted()[0] as string, limit: pageOf(limit, shards) };
    const walks = keys.map((hash) => this.#table.pages({ index: LIVE, hash, ...bounds }));
    let deleted = 0;
    let some: Item[] = [];
    for await (const entry of merged(walks, (a, b) => dueOf(a) < dueOf(b))) {
      some.push(entry);
      if (deleted + some.length < limit) continue;
      deleted += await this.#deleteThese(some, state, now);
      if (deleted >= limit) return deleted;
      some = [];
    }
    this.#pasts.delete(state);
    return deleted + (await this.#deleteThese(some, state, now));
  }

  async #deleteThese(entries: readonly Item[], state: State, now: number): Promise<number> {
    const jobs = (await this.#jobs(entries, now)).filter((job) => job.state === state);
    const done = await settled(jobs.map((job) => this.#parts.changes.delete(job, ["waiting", "live"], now)));
    return done.filter(Boolean).length;
  }

  /**
   * Where in time those begin that are past the newest `keep`; null: there are none. Found out by walking over the newest,
   * once for all the chunks of a purge: what was past them stays so, whatever ends meanwhile.
   */
  async #past(state: State, keys: readonly string[], keep: number, now: number): Promise<string | null> {
    const known = this.#pasts.get(state);
    if (known !== undefined && known.keep === keep && Math.abs(now - known.at) < KNOWN_MS) return known.below;
    const limit = pageOf(keep + 1, keys.length);
    const walks = keys.map((hash) => this.#table.pages({ index: LIVE, hash, limit, newestFirst: true }));
    let left = keep;
    for await (const entry of merged(walks, (a, b) => dueOf(a) > dueOf(b))) {
      if (left-- > 0) continue;
      const below = `${dueOf(entry)}~`;
      this.#pasts.set(state, { keep, below, at: now });
      return below;
    }
    return null;
  }

  /** Pages of entries up to a time. */
  #expiring(shard: number, until: number): AsyncGenerator<Item[]> {
    return this.#table.pages({ index: EXPIRING, hash: expiryKey(shard), below: endOf(until), limit: PAGE * 2 });
  }

  /** The jobs of these entries; an index may not know yet that one is gone. */
  async #jobs(entries: readonly Item[], now: number): Promise<JobItem[]> {
    const keys = entries.map((entry) => jobKey(idOf(textOf(entry, "pk") ?? "")));
    return (await this.#table.getAll(keys)).filter((item) => !isGone(item, now)).map(readItem);
  }

  async tryAcquireDuty(name: string, everyMs: number, now: number): Promise<boolean> {
    const change = new Change().set({ at: now });
    // One that lies ahead was taken by a clock that is: the next comes after it. Far ahead, that clock was wrong.
    const [since, ahead] = [now - Math.round(everyMs), now + Math.round(everyMs) + this.#marginMs];
    change.when(`attribute_not_exists(#at) OR #at <= ${change.value(since)} OR #at > ${change.value(ahead)}`);
    const written = await this.#table.update({ pk: TURNS, sk: name }, change);
    return written.done || (written.repeated && numberOf(written.found ?? {}, "at") === now);
  }

  /** Now and then: what nobody uses any more is forgotten. */
  async tidy(now: number): Promise<void> {
    if (now - this.#forgottenAt < FORGET_MS && now >= this.#forgottenAt) return;
    this.#forgottenAt = now;
    await this.#parts.config.forget(now);
    await clearWorkers(this.#table, now);
  }
}

const FORGET_MS = 3_600_000;

/** All lanes once, beginning in the middle of one if the last look has stopped there. */
function roundFrom(stopped: Place | null, keys: readonly string[]): Place[] {
  const at = stopped === null ? -1 : keys.indexOf(stopped.key);
  const whole = keys.map((key): Place => ({ key, after: null }));
  if (stopped === null || at < 0) return whole;
  const rest = [...whole.slice(at + 1), ...whole.slice(0, at)];
  return [stopped, ...rest, ...(stopped.after === null ? [] : [{ key: stopped.key, after: null }])];
}

/** How many entries to read at a time of each of so many partitions, to have so many in all: they do not spread evenly. */
function pageOf(wanted: number, partitions: number): number {
  return Math.min(PAGE * 2, Math.ceil((wanted / partitions) * 1.25) + 5);
}

function dueOf(entry: Item): string {
  return textOf(entry, LIVE.range) ?? "";
}
