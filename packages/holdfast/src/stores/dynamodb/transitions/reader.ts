import { LIMITS } from "../../../defaults.js";
import type { TransitionPage } from "../../../store.js";
import { numberOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import type { Table } from "../connection/table.js";
import { FOLLOWING, transitionsKey } from "../jobs/item-keys.js";
import { inOrder, readBatch, skippedItem, type Batch, type Recorded } from "./batch.js";
import { cursorOf, readCursor, type Position } from "./cursor.js";
import { readFollowing, type Following } from "./following.js";

// Transitions are returned this long after they happened: until then a process may write earlier ones of the same job. If batches
// are written later than usual, readers wait longer.
const SETTLED_MS = 1_500;
const MAX_SETTLED_MS = 6_000;
const USUAL_DELAY_MS = 500;
// A missing batch is skipped if a later one was sent this long ago.
const MISSING_MS = 3_000;
// DynamoDB deletes batches after 15 minutes.
const CURSOR_MS = 12 * 60_000;
// How many batches are read at a time, and how many times. Most calls read once.
const FIRST_READ = 4;
const MAX_READ = 100;
const MAX_READS = 6;
const MAX_PURGED = 100;
// How many later batches are read to find out how old a missing one is.
const MAX_LATER = 20;

export interface ReaderParts {
  /** DynamoDB's time. */
  time: () => number;
  /** False under a test clock: every transition that happened is stored, and time may stand still. */
  isLive: boolean;
}

/** Reads recorded transitions. A page takes one request for the newest number, and a few for up to 400 batches. */
export class TransitionReader {
  readonly #table: Table;
  readonly #parts: ReaderParts;

  constructor(table: Table, parts: ReaderParts) {
    this.#table = table;
    this.#parts = parts;
  }

  async page(cursor: string, limit: number): Promise<TransitionPage | null> {
    const from = readCursor(cursor);
    const { time, isLive } = this.#parts;
    // Before the read of the newest number: batches with later numbers have later transitions.
    const now = time();
    const following = readFollowing(await this.#table.get(FOLLOWING));
    if (isExpired(from, following, now) || (isLive && from.at < now - CURSOR_MS)) return null;
    const read = await this.#read(from, following.number, limit);
    if (read === null) return null;
    const { batches, isCut } = read;
    const settledAt = isLive ? now - settledMs(batches) : Number.POSITIVE_INFINITY;
    const candidates = batches.flatMap((batch) => unreturned(batch, from)).toSorted(inOrder);
    const settledHere = isCut ? Math.min(settledAt, settledBefore(batches)) : settledAt;
    let settled = candidates.filter(({ order }) => order <= Math.max(settledHere, from.upTo));
    // So many in so short a time: their order is less important than that they are returned at all.
    if (settled.length === 0 && isCut) settled = candidates;
    const last = settled[limit - 1] ?? settled.at(-1);
    const upTo = Math.max(from.upTo, last?.order ?? 0);
    const done = batches.find(({ transitions }) => transitions.some(({ order }) => order > upTo))?.number;
    const seen = batches.at(-1)?.number ?? from.done;
    return {
      transitions: settled.filter(({ order }) => order <= upTo).map(({ transition }) => transition),
      cursor: cursorOf({ epoch: from.epoch, done: done === undefined ? seen : done - 1, seen, upTo, at: now }),
    };
  }

  /**
   * Reads batches after the position until there are enough transitions for the page. Stops at a batch that is missing and may
   * still be written. Null: batches that the position has seen were deleted.
   */
  async #read(from: Position, newest: number, limit: number): Promise<{ batches: Batch[]; isCut: boolean } | null> {
    const batches: Batch[] = [];
    const candidates: Recorded[] = [];
    let size = FIRST_READ;
    for (let reads = 0, next = from.done + 1; next <= newest; reads++, size = Math.min(MAX_READ, size * 4)) {
      // At least the batches that were seen before and one more: otherwise the next page would be the same.
      const settledHere = settledBefore(batches);
      const found = candidates.filter(({ order }) => order <= settledHere).length;
      const isEnough = found >= Math.max(1, limit) || reads >= MAX_READS;
      if (isEnough && (batches.at(-1)?.number ?? 0) > from.seen) return { batches, isCut: true };
      const end = Math.min(newest, next + size - 1);
      const some = await this.#readNumbers(next, end, newest);
      if (some.length < end - next + 1) {
        if (next + some.length <= from.seen) return null;
        batches.push(...some);
        return { batches, isCut: false };
      }
      batches.push(...some);
      candidates.push(...some.flatMap((batch) => unreturned(batch, from)));
      next = end + 1;
    }
    return { batches, isCut: false };
  }

  /** The batches with these numbers, up to the first that is missing and may still be written. */
  async #readNumbers(first: number, last: number, newest: number): Promise<Batch[]> {
    const keys = Array.from({ length: last - first + 1 }, (_, at) => transitionsKey(first + at));
    const items = new Map((await this.#table.getAll(keys)).map((item) => [numberOf(item, "number"), item]));
    // A process that ended may have taken all of these numbers.
    const later = items.has(last) ? [] : await this.#table.getAll(numbersBetween(last, newest).map(transitionsKey));
    const known = [...items.values(), ...later];
    const batches: Batch[] = [];
    for (let number = first; number <= last; number++) {
      const item = items.get(number) ?? (await this.#skipMissing(number, known));
      if (item === null) break;
      batches.push(readBatch(item));
    }
    return batches;
  }

  /** If a later batch is old enough, puts an empty one in the place of a missing batch, or returns it if it is there now. */
  async #skipMissing(number: number, known: readonly Item[]): Promise<Item | null> {
    const { time, isLive } = this.#parts;
    const now = time();
    const isOld = known.some(
      (item) => (numberOf(item, "number") ?? 0) > number && (numberOf(item, "sent_at") ?? now) <= now - MISSING_MS,
    );
    if (isLive && !isOld) return null;
    const skipped = skippedItem(number, now);
    const written = await this.#table.put(skipped, new Change().when("attribute_not_exists(#pk)"));
    return written.done ? skipped : written.found;
  }

  /**
   * Old batches are not deleted here: that would cost as much as writing them, and the time to live deletes them for free. Cursors
   * before them expire.
   */
  async purge({ before, limit }: { before: number; limit: number }): Promise<number> {
    const { number: newest, total, deleted } = readFollowing(await this.#table.get(FOLLOWING));
    if (newest <= deleted || limit <= 0) return 0;
    const last = Math.min(newest, deleted + MAX_PURGED);
    const keys = Array.from({ length: last - deleted }, (_, at) => transitionsKey(deleted + 1 + at));
    const batches = (await this.#table.getAll(keys)).map(readBatch).toSorted((a, b) => a.number - b.number);
    let [count, purged] = [0, deleted];
    for (const { number, sentAt, total: upTo, transitions } of batches) {
      const isOld = sentAt < before && transitions.every(({ transition: { at } }) => at < before);
      const isBeyond = transitions.length > 0 && upTo <= total - LIMITS.transitions;
      if (!(isOld || isBeyond) || (count > 0 && count + transitions.length > limit)) break;
      count += transitions.length;
      purged = number;
    }
    // The time to live has deleted all of them.
    if (batches.length === 0 && last < newest) purged = last;
    if (purged === deleted) return 0;
    const change = new Change().set({ deleted: purged });
    const written = await this.#table.update(
      FOLLOWING,
      change.when(`attribute_not_exists(#deleted) OR #deleted < ${change.value(purged)}`),
    );
    return written.done || written.resent ? Math.min(count, limit) : 0;
  }
}

function isExpired({ epoch, done, seen }: Position, following: Following, now: number): boolean {
  if (epoch !== following.epoch || following.until <= now) return true;
  return done < following.deleted || seen > following.number;
}

/** A few numbers after `low` up to `high`, spread evenly. */
function numbersBetween(low: number, high: number): number[] {
  const count = Math.min(MAX_LATER, high - low);
  return Array.from({ length: count }, (_, at) => high - Math.floor((at * (high - low)) / count));
}

/** How long it takes until earlier transitions are written, judged by these batches. */
function settledMs(batches: readonly Batch[]): number {
  const delays = batches.map(({ sentAt, transitions: [first] }) => sentAt - (first?.order ?? sentAt));
  return Math.min(MAX_SETTLED_MS, SETTLED_MS + Math.max(0, Math.max(0, ...delays) - USUAL_DELAY_MS));
}

/** If there are more batches: their transitions may be earlier than the last ones of these. */
function settledBefore(batches: readonly Batch[]): number {
  return (batches.at(-1)?.sentAt ?? 0) - settledMs(batches);
}

/** The transitions of a batch after the position. */
function unreturned({ number, transitions }: Batch, { seen, upTo }: Position): Recorded[] {
  return number > seen ? transitions : transitions.filter(({ order }) => order > upTo);
}
