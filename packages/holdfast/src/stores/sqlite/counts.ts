import type { Database } from "better-sqlite3";
import { isFinished, type State } from "../../state.js";
import { BLOCK } from "../paging.js";

/**
 * Counters by queue, type and state, kept by the writes themselves: counting a million rows takes too long for a
 * dashboard. Changes gather in memory during a transaction and are written once at its end.
 *
 * Beside them, of which types the jobs of each block of numbers are and when they were created, by which lists find them.
 * Only to within ten seconds: so it is seldom that there is something to write.
 */
export class Counts {
  readonly #tallies = new Map<string, Tally>();
  /** Jobs of one batch are mostly of one type: looking up the same tally twice is spared. */
  #last: Tally | undefined;
  readonly #finished = new Map<State, number>();
  /** The latest of each type, and those of them that are still to be written. */
  readonly #latest = new Map<string, Created>();
  readonly #created: Created[] = [];
  #near: Created = NOWHERE;
  readonly #add;
  readonly #pace;
  readonly #widen;

  constructor(db: Database) {
    this.#add = db.prepare(
      `INSERT INTO holdfast_counts (queue, type, state, n) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET n = n + excluded.n`,
    );
    this.#pace = db.prepare(
      `INSERT INTO holdfast_pace (second, state, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n`,
    );
    this.#widen = db.prepare(
      `INSERT INTO holdfast_ages (block, type, oldest, newest) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
       SET oldest = min(oldest, excluded.oldest), newest = max(newest, excluded.newest)`,
    );
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

  /** A job came to be in `to` (from nowhere: null), or left `from` (to nowhere: null). */
  move(queue: string, type: string, from: State | null, to: State | null): void {
    if (from === to) return;
    const { changes } = this.#tally(queue, type);
    if (from !== null) changes[from] = (changes[from] ?? 0) - 1;
    if (to === null) return;
    changes[to] = (changes[to] ?? 0) + 1;
    if (from !== null && isFinished(to)) this.#finished.set(to, (this.#finished.get(to) ?? 0) + 1);
  }

  #tally(queue: string, type: string): Tally {
    if (this.#last?.queue === queue && this.#last.type === type) return this.#last;
    const key = `${queue}\n${type}`;
    let tally = this.#tallies.get(key);
    if (tally === undefined) this.#tallies.set(key, (tally = { queue, type, changes: {} }));
    this.#last = tally;
    return tally;
  }

  write(now: number): void {
    for (const { queue, type, changes } of this.#tallies.values()) {
      for (const [state, n] of Object.entries(changes)) if (n !== 0) this.#add.run(queue, type, state, n);
    }
    for (const [state, n] of this.#finished) this.#pace.run(Math.floor(now / 1000), state, n);
    for (const { type, first, since, until } of this.#created) this.#widen.run(first / BLOCK, type, since, until - 1);
    this.#forget();
  }

  /** Also what was written, where the transaction failed after all. */
  discard(): void {
    if (this.#latest.size > 0) this.#latest.clear();
    this.#near = NOWHERE;
    this.#forget();
  }

  #forget(): void {
    this.#created.length = 0;
    this.#last = undefined;
    if (this.#tallies.size > 0) this.#tallies.clear();
    if (this.#finished.size > 0) this.#finished.clear();
  }
}

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
const NOWHERE: Created = { type: "", first: 0, below: 0, since: 0, until: 0 };

interface Tally {
  queue: string;
  type: string;
  changes: Partial<Record<State, number>>;
}
