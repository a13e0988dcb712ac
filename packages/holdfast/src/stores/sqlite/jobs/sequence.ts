import type { Database } from "better-sqlite3";

/** SQL for the number of the next job. Both placeholders are {@link Sequence.mustExceed}. NULL: SQLite assigns it. */
export const NEXT_SEQ = `(SELECT max(highest, ?) + 1 FROM holdfast_numbers
  WHERE max(highest, ?) > coalesce((SELECT max(seq) FROM holdfast_jobs), 0))`;

/**
 * Sequence numbers (`seq`) must only grow. SQLite assigns the highest existing number plus one, so after the newest job was
 * deleted its number is assigned again. A list with a cursor beyond that number would miss the new job, and a deletion page by
 * page would include it.
 */
export class Sequence {
  /** The highest number that was deleted in this transaction; 0 if none. */
  #deleted = 0;
  /** SQLite will assign a number that was never used. */
  #isSafe = false;
  readonly #highest;
  readonly #store;

  constructor(db: Database) {
    this.#highest = db.prepare("SELECT max(seq) FROM holdfast_jobs").pluck();
    this.#store = db.prepare("UPDATE holdfast_numbers SET highest = max(highest, ?)");
    this.#highest.safeIntegers(false);
  }

  /** The highest deleted number, which the next job must exceed, for {@link NEXT_SEQ}. Null if SQLite assigns a new one. */
  get mustExceed(): number | null {
    return this.#isSafe ? null : this.#deleted;
  }

  /** A job was inserted. */
  inserted(): void {
    this.#isSafe = true;
  }

  deleted(seq: number): void {
    if (seq > this.#deleted) this.#deleted = seq;
    this.#isSafe = false;
  }

  write(): void {
    if (this.#deleted > 0 && this.#deleted > this.#highestInTable()) this.#store.run(this.#deleted);
    this.discard();
  }

  discard(): void {
    this.#deleted = 0;
    this.#isSafe = false;
  }

  #highestInTable(): number {
    return (this.#highest.get() as number | null) ?? 0;
  }
}
