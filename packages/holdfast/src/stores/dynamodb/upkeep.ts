import { attemptsUsed, EXPIRED_ERROR, isLeased, isWaiting, type State } from "../../state.js";
import type { LaidDown, PurgeRequest } from "../../store.js";
import { numberOf, textOf, type Item } from "./attributes.js";
import { Change } from "./expressions.js";
import type { Changes } from "./changes.js";
import { lostAttempt } from "./claim.js";
import type { ConfigKeeper } from "./config.js";
import type { Counts } from "./counts.js";
import { settled } from "./insert.js";
import { endedFields, errorFields, isGone, LIVE_ONLY, readItem, waitAgain, type JobItem } from "./items.js";
import { endedKey, EXPIRING, expiryKey, idOf, jobKey, laneKey, LIVE, TURNS, endOf } from "./keys.js";
import type { Table } from "./table.js";

interface Parts {
  config: ConfigKeeper;
  counts: Counts;
  changes: Changes;
}

const PAGE = 500;

/** Stale leases, expiry, retention, and whose turn it is. */
export class Upkeep {
  readonly #table: Table;
  readonly #parts: Parts;
  readonly #marginMs: number;
  #forgottenAt = Number.NEGATIVE_INFINITY;

  constructor(table: Table, parts: Parts, marginMs: number) {
    this.#table = table;
    this.#parts = parts;
    this.#marginMs = marginMs;
  }

  /** Due entries that are marked as held and no longer are. */
  async expireStale(limit: number, now: number): Promise<LaidDown[]> {
    const { lanes, shards } = await this.#parts.config.read();
    const keys = Array.from({ length: shards }, (_, shard) =>
      lanes.map(({ queue, priority }) => laneKey(queue, priority, shard)),
    ).flat();
    const laidDown: LaidDown[] = [];
    for (const key of keys) {
      for await (const page of this.#due(LIVE, key, now)) {
        const found = await this.#jobs(
          page.filter((entry) => (numberOf(entry, "held") ?? Number.POSITIVE_INFINITY) + this.#marginMs <= now),
          now,
        );
        for (let at = 0; at < found.length && laidDown.length < limit; at += PAGE) {
          const some = found.slice(at, at + Math.min(PAGE, limit - laidDown.length));
          const done = await settled(some.map((job) => this.#layDown(job, now)));
          laidDown.push(...done.filter((each) => each !== null));
        }
        if (laidDown.length >= limit) return laidDown;
      }
    }
    return laidDown;
  }

  async #layDown(job: JobItem, now: number): Promise<LaidDown | null> {
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

  async expireWaiting(limit: number, now: number): Promise<LaidDown[]> {
    const { shards } = await this.#parts.config.read();
    const laidDown: LaidDown[] = [];
    for (let shard = 0; shard < shards; shard++) {
      for await (const page of this.#due(EXPIRING, expiryKey(shard), now)) {
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

  /** Finished jobs that DynamoDB does not clear away by itself, oldest first over all shards. */
  async purge({ state, before, keep, limit }: PurgeRequest, now: number): Promise<number> {
    const { shards } = await this.#parts.config.read();
    const until = before === null ? now + 1 : before;
    const among = Array.from({ length: shards }, (_, shard) => endedKey(state, shard));
    // Those past the newest so many: without counting them all there is no telling which.
    const most = keep === null ? limit : Math.min(limit, Math.max(0, (await this.#count(among)) - keep));
    if (most === 0) return 0;
    const oldest = (await Promise.all(among.map((key) => this.#oldest(key, until, most)))).flat();
    const chosen = oldest.toSorted((a, b) => (dueOf(a) < dueOf(b) ? -1 : 1)).slice(0, most);
    const jobs = (await this.#jobs(chosen, now)).filter((job) => job.state === state);
    const done = await settled(jobs.map((job) => this.#parts.changes.delete(job, ["waiting", "live"], now)));
    return done.filter(Boolean).length;
  }

  async #oldest(key: string, until: number, most: number): Promise<Item[]> {
    const found: Item[] = [];
    for await (const page of this.#due(LIVE, key, until - 1)) {
      found.push(...page);
      if (found.length >= most) break;
    }
    return found.slice(0, most);
  }

  async #count(keys: readonly string[]): Promise<number> {
    const counts = await Promise.all(
      keys.map(async (key) => {
        let count = 0;
        for await (const page of this.#table.pages({ index: LIVE, hash: key })) count += page.length;
        return count;
      }),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** Pages of entries up to a time. */
  #due(index: typeof LIVE | typeof EXPIRING, hash: string, until: number): AsyncGenerator<Item[]> {
    return this.#table.pages({ index, hash, below: endOf(until), limit: PAGE * 2 });
  }

  /** The jobs of these entries; an index may not know yet that one is gone. */
  async #jobs(entries: readonly Item[], now: number): Promise<JobItem[]> {
    const keys = entries.map((entry) => jobKey(idOf(textOf(entry, "pk") ?? "")));
    return (await this.#table.getAll(keys)).filter((item) => !isGone(item, now)).map(readItem);
  }

  async turn(name: string, everyMs: number, now: number): Promise<boolean> {
    const change = new Change().set({ at: now });
    change.when(
      `attribute_not_exists(#at) OR #at <= ${change.value(now - Math.round(everyMs))} OR #at > ${change.value(now)}`,
    );
    const written = await this.#table.update({ pk: TURNS, sk: name }, change);
    return written.done || (written.repeated && numberOf(written.found ?? {}, "at") === now);
  }

  /** Now and then: what nobody uses any more is forgotten. */
  async tidy(now: number): Promise<void> {
    if (now - this.#forgottenAt < FORGET_MS && now >= this.#forgottenAt) return;
    this.#forgottenAt = now;
    await this.#parts.config.forget(now);
  }
}

const FORGET_MS = 3_600_000;

function dueOf(entry: Item): string {
  return textOf(entry, LIVE.range) ?? "";
}
