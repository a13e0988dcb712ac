import type { Database } from "better-sqlite3";
import { isFinished, type State } from "../../state.js";

/**
 * Counters by queue, type and state, kept by the writes themselves: counting a million rows takes too long for a
 * dashboard. Changes gather in memory during a transaction and are written once at its end.
 */
export class Counts {
  readonly #changes = new Map<string, { queue: string; type: string; state: State; n: number }>();
  readonly #finished = new Map<State, number>();
  readonly #add;
  readonly #pace;

  constructor(db: Database) {
    this.#add = db.prepare(
      `INSERT INTO holdfast_counts (queue, type, state, n) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET n = n + excluded.n`,
    );
    this.#pace = db.prepare(
      `INSERT INTO holdfast_pace (second, state, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n`,
    );
  }

  /** A job came to be in `to` (from nowhere: null), or left `from` (to nowhere: null). */
  move(queue: string, type: string, from: State | null, to: State | null): void {
    if (from === to) return;
    if (from !== null) this.#change(queue, type, from, -1);
    if (to === null) return;
    this.#change(queue, type, to, 1);
    if (from !== null && isFinished(to)) this.#finished.set(to, (this.#finished.get(to) ?? 0) + 1);
  }

  #change(queue: string, type: string, state: State, by: number): void {
    const key = `${queue}\n${type}\n${state}`;
    const change = this.#changes.get(key);
    if (change === undefined) this.#changes.set(key, { queue, type, state, n: by });
    else change.n += by;
  }

  write(now: number): void {
    for (const { queue, type, state, n } of this.#changes.values()) if (n !== 0) this.#add.run(queue, type, state, n);
    for (const [state, n] of this.#finished) this.#pace.run(Math.floor(now / 1000), state, n);
    this.discard();
  }

  discard(): void {
    if (this.#changes.size > 0) this.#changes.clear();
    if (this.#finished.size > 0) this.#finished.clear();
  }
}
