import type { Database } from "better-sqlite3";
import { ANY_TYPE, BLOCK, MAX_TYPES } from "../../list-plan.js";

const AGE_MS = 10_000;
const MOST_LATEST = 1_000;

/** Jobs of a type with numbers from `first` on, created from `since` on: those of one block, and of ten seconds. */
interface Created {
  type: string;
  first: number;
  below: number;
  since: number;
  until: number;
}
const NOWHERE: Created = { type: ANY_TYPE, first: 0, below: 0, since: 0, until: 0 };

/**
 * Of which types the jobs of each block of numbers are and when they were created, by which lists find them. Only to within
 * ten seconds: so it is seldom that there is something to write. It gathers in memory during a transaction.
 */
export class Ages {
  /** The latest of each type, and those of them that are still to be written. */
  readonly #latest = new Map<string, Created>();
  readonly #created: Created[] = [];
  #near: Created = NOWHERE;
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

  /** A job of a type got this number and was created then. */
  created(type: string, seq: number, at: number): void {
    // Mostly it is as with the job before, and that is all there is to do.
    const near = this.#near;
    if (near.type === type && seq >= near.first && seq < near.below && at >= near.since && at < near.until) return;
    const first = seq - (seq % BLOCK);
    const since = at - (at % AGE_MS);
    this.#near = { type, first, below: first + BLOCK, since, until: since + AGE_MS };
    const last = this.#latest.get(type);
    if (last?.first === first && last.since === since) return;
    this.#created.push(this.#near);
    if (this.#latest.size >= MOST_LATEST) this.#latest.clear();
    this.#latest.set(type, this.#near);
  }

  write(): void {
    for (const { type, first, since, until } of this.#created) {
      const block = first / BLOCK;
      if (this.#widen.run(since, until - 1, block, type).changes > 0) continue;
      const isNamed = (this.#types.get(block) as number) < MAX_TYPES;
      this.#add.run(since, until - 1, block, isNamed ? type : ANY_TYPE);
    }
    this.#created.length = 0;
  }

  /** Also what was written, where the transaction failed after all. */
  discard(): void {
    if (this.#latest.size > 0) this.#latest.clear();
    this.#near = NOWHERE;
    this.#created.length = 0;
  }
}
