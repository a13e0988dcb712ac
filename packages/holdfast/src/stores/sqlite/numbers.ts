import type { Database } from "better-sqlite3";

/**
 * Numbers of jobs only grow. SQLite gives the highest there is and one more, which is an old number when the newest job was
 * deleted; a list that has passed that number would miss the new job, and who deletes page by page would come upon it.
 */
export class Numbers {
  /** The highest that was deleted in this transaction; 0 if none was. */
  #deleted = 0;
  /** SQLite will give a new one. */
  #isSafe = false;
  readonly #highest;
  readonly #top;
  readonly #keep;

  constructor(db: Database) {
    this.#highest = db.prepare("SELECT highest FROM holdfast_numbers").pluck();
    this.#top = db.prepare("SELECT max(seq) FROM holdfast_jobs").pluck();
    this.#keep = db.prepare("UPDATE holdfast_numbers SET highest = max(highest, ?)");
    for (const statement of [this.#highest, this.#top]) statement.safeIntegers(false);
  }

  /** The number of a job that is about to be added; null for the one that SQLite gives. */
  next(): number | null {
    if (this.#isSafe) return null;
    const used = Math.max(this.#highest.get() as number, this.#deleted);
    return used > this.#topmost() ? used + 1 : null;
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
