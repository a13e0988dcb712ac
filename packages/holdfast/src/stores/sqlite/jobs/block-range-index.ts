import type { Database } from "better-sqlite3";
import { ANY_TYPE, BLOCK, MAX_TYPES } from "../../list-plan.js";

const GRAIN_MS = 10_000;
const MAX_LATEST = 1_000;

/** Jobs of one type in one block of numbers, created within the same ten seconds. */
interface Entry {
  type: string;
  first: number;
  below: number;
  since: number;
  until: number;
}
const NO_ENTRY: Entry = { type: ANY_TYPE, first: 0, below: 0, since: 0, until: 0 };

/**
 * A block range index: for each block of sequence numbers, the types and creation times of its jobs, for list filters (see
 * list-plan.ts). Rounded to ten seconds, so that few inserts have something to write. Entries are collected in memory during a
 * transaction.
 */
export class BlockRangeIndex {
  /** The latest entry of each type. */
  readonly #latest = new Map<string, Entry>();
  readonly #unwritten: Entry[] = [];
  #last: Entry = NO_ENTRY;
  readonly #widen;
  readonly #add;
  readonly #types;

  constructor(db: Database) {
    this.#widen = db.prepare(
      "UPDATE holdfast_ages SET oldest = min(oldest, ?), newest = max(newest, ?) WHERE block = ? AND type = ?",
    );
    this.#add = db.prepare(
      `INSERT INTO holdfast_ages (oldest, newest, block, type) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
       SET oldest = min(oldest, excluded.oldest), newest = max(newest, excluded.newest)`,
    );
    this.#types = db.prepare("SELECT count(*) FROM holdfast_ages WHERE block = ?").pluck();
  }

  /** A job was inserted, or replaced by one of another type. */
  add(type: string, seq: number, at: number): void {
    // Mostly the same entry as for the previous job.
    const last = this.#last;
    if (last.type === type && seq >= last.first && seq < last.below && at >= last.since && at < last.until) return;
    const first = seq - (seq % BLOCK);
    const since = at - (at % GRAIN_MS);
    this.#last = { type, first, below: first + BLOCK, since, until: since + GRAIN_MS };
    const latest = this.#latest.get(type);
    if (latest?.first === first && latest.since === since) return;
    this.#unwritten.push(this.#last);
    if (this.#latest.size >= MAX_LATEST) this.#latest.clear();
    this.#latest.set(type, this.#last);
  }

  write(): void {
    for (const { type, first, since, until } of this.#unwritten) {
      const block = first / BLOCK;
      if (this.#widen.run(since, until - 1, block, type).changes > 0) continue;
      const isNamed = (this.#types.get(block) as number) < MAX_TYPES;
      this.#add.run(since, until - 1, block, isNamed ? type : ANY_TYPE);
    }
    this.#unwritten.length = 0;
  }

  /** Also forgets entries that were written: the transaction may have failed after that. */
  discard(): void {
    if (this.#latest.size > 0) this.#latest.clear();
    this.#last = NO_ENTRY;
    this.#unwritten.length = 0;
  }
}
