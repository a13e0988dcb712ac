import type { Database, Statement } from "better-sqlite3";
import { isFinished, type State } from "../../../job/state.js";
import { BlockRangeIndex } from "./block-range-index.js";
import { Sequence } from "./sequence.js";
import type { Transitions } from "./transitions.js";

/**
 * Counters by queue, type and state, updated by every write: counting a million rows takes too long for a dashboard. Changes
 * are collected in memory during a transaction and written once at its end, with the other records about all jobs.
 */
export class Counts {
  readonly #tallies = new Map<string, Tally>();
  /** The jobs of a batch mostly have one type, so the last tally saves a lookup. */
  #last: Tally | undefined;
  readonly #finished = new Map<State, number>();
  readonly #transitions: Transitions;
  /** Whether transitions are recorded; null: not read yet in this transaction. */
  #isRecording: boolean | null = null;
  readonly blockRanges: BlockRangeIndex;
  readonly sequence: Sequence;
  readonly #add;
  readonly #addTwo;
  readonly #finishedPerSecond;

  constructor(db: Database, transitions: Transitions) {
    this.#transitions = transitions;
    const add = (rows: string): Statement =>
      db.prepare(
        `INSERT INTO holdfast_counts (queue, type, state, n) VALUES ${rows} ON CONFLICT DO UPDATE SET n = n + excluded.n`,
      );
    this.#add = add("(?, ?, ?, ?)");
    this.#addTwo = add("(?, ?, ?, ?), (?, ?, ?, ?)");
    this.#finishedPerSecond = db.prepare(
      `INSERT INTO holdfast_pace (second, state, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n`,
    );
    this.blockRanges = new BlockRangeIndex(db);
    this.sequence = new Sequence(db);
  }

  /** A job changed its state. `from` is null for a new job, `to` is null for a deleted one. */
  recordStateChange(id: string, queue: string, type: string, from: State | null, to: State | null): void {
    this.#isRecording ??= this.#transitions.isRecording;
    if (this.#isRecording && to !== null) this.#transitions.add(id, type, queue, to);
    if (from === to) return;
    const { changes } = this.#tally(queue, type);
    if (from !== null) changes[from] = (changes[from] ?? 0) - 1;
    if (to === null) return;
    changes[to] = (changes[to] ?? 0) + 1;
    if (from !== null && isFinished(to)) this.#finished.set(to, (this.#finished.get(to) ?? 0) + 1);
  }

  /** A waiting job moved to another queue. */
  recordMove({ queue: from, type }: { queue: string; type: string }, to: string, state: State): void {
    const { changes: left } = this.#tally(from, type);
    left[state] = (left[state] ?? 0) - 1;
    const { changes: joined } = this.#tally(to, type);
    joined[state] = (joined[state] ?? 0) + 1;
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
    for (const tally of this.#tallies.values()) this.#writeTally(tally);
    for (const [state, n] of this.#finished) this.#finishedPerSecond.run(Math.floor(now / 1000), state, n);
    this.#transitions.write(now);
    this.blockRanges.write();
    this.sequence.write();
    this.#clear();
  }

  #writeTally({ queue, type, changes }: Tally): void {
    const states = (Object.keys(changes) as State[]).filter((state) => changes[state] !== 0);
    const [one, other] = states;
    // Most transactions move jobs from one state to another: one statement for both.
    if (states.length === 2 && one !== undefined && other !== undefined) {
      this.#addTwo.run(queue, type, one, changes[one], queue, type, other, changes[other]);
    } else {
      for (const state of states) this.#add.run(queue, type, state, changes[state]);
    }
  }

  discard(): void {
    this.#transitions.discard();
    this.blockRanges.discard();
    this.sequence.discard();
    this.#clear();
  }

  #clear(): void {
    this.#isRecording = null;
    this.#last = undefined;
    if (this.#tallies.size > 0) this.#tallies.clear();
    if (this.#finished.size > 0) this.#finished.clear();
  }
}

interface Tally {
  queue: string;
  type: string;
  changes: Partial<Record<State, number>>;
}
