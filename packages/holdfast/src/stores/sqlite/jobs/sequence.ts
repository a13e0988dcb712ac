import type { Database } from "better-sqlite3";

/** The number of the next job, given twice what is {@link Numbers.used}; NULL for the one that SQLite gives. */
export const NEXT_NUMBER = `(SELECT max(highest, ?) + 1 FROM holdfast_numbers
  WHERE max(highest, ?) > coalesce((SELECT max(seq) FROM holdfast_jobs), 0))`;

/**
 * Numbers of jobs only grow. SQLite gives the highest there is and one more, which is an old number when the newest job was
 * deleted; a list that has passed that number would miss the new job, and who deletes page by page would come upon it.
 */
export class Numbers {
  /** The highest that was deleted in this transaction; 0 if none was. */
  #deleted = 0;
  /** SQLite will give a new one. */
  #isSafe = false;
  readonly #top;
  readonly #keep;

  constructor(db: Database) {
    this.#top = db.prepare("SELECT max(seq) FROM holdfast_jobs").pluck();
    this.#keep = db.prepare("UPDATE holdfast_numbers SET highest = max(highest, ?)");
    this.#top.safeIntegers(false);
  }

  /** The highest deleted number that a job about to be added must be above, for {@link NEXT_NUMBER}; null where SQLite gives a new one anyway. */
  get used(): number | null {
    return this.#isSafe ? null : this.#deleted;
  }

  /** A job was added. */
  taken(): void {
    this.#isSafe = true;
  }

  deleted(seq: number): void {
    if (seq > this.#deleted) this.#deleted = seq;
    this.#isSafe = false;
  }

  write(): void {
    if (this.#deleted > 0 && this.#deleted > this.#topmost()) this.#keep.run(this.#deleted);
    this.discard();
  }

  discard(): void {
    this.#deleted = 0;
    this.#isSafe = false;
  }

  #topmost(): number {
    return (this.#top.get() as number | null) ?? 0;
  }
}
