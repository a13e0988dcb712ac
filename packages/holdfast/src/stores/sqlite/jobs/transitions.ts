import type { Database } from "better-sqlite3";
import { LIMITS } from "../../../defaults.js";
import type { State } from "../../../job/state.js";
import type { TransitionPage, TransitionRecord } from "../../../store.js";

interface Following {
  epoch: number;
  until: number;
  deleted: number;
}

/** Jobs of one type and queue that reached the same state one after another, in one transaction. */
interface PackedRow {
  /** The number of its last transition. */
  n: number;
  at: number;
  /** Their ids, one after another: each has the same length. */
  jobs: string;
  type: string;
  queue: string;
  to: State;
}

interface NewRow {
  type: string;
  queue: string;
  state: State;
  ids: string[];
}

/** A page as the thread of the store sends it: a few rows instead of an object for each transition. */
export interface PackedPage {
  rows: PackedRow[];
  cursor: string;
}

const ID_LENGTH = 36;
/** Limits what a page reads beyond its end. */
const MAX_PACKED = 500;

/**
 * Transitions that are recorded while jobs are followed. Whether they are is read once per transaction, on its first change of
 * state: about a microsecond. SQLite runs one write at a time, so the numbers are in the order of commits and none is missed.
 *
 * A row of its own for each transition would slow down a busy worker by 10 %, so a row has the jobs of a batch.
 */
export class Transitions {
  /** In the order of the changes. */
  #rows: NewRow[] = [];
  readonly #following;
  readonly #follow;
  readonly #insert;
  readonly #newest;
  readonly #oldest;
  readonly #after;
  readonly #delete;
  readonly #setDeleted;

  constructor(db: Database) {
    this.#following = db.prepare("SELECT epoch, until, deleted FROM holdfast_following");
    this.#follow = db.prepare("UPDATE holdfast_following SET epoch = ?, until = ?");
    this.#insert = db.prepare(
      "INSERT INTO holdfast_transitions (n, at, job, type, queue, state) VALUES (?, ?, ?, ?, ?, ?)",
    );
    // The highest number ever used.
    this.#newest = db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_transitions'").pluck();
    this.#oldest = db.prepare("SELECT n, at, length(job) AS length FROM holdfast_transitions ORDER BY n LIMIT ?");
    this.#after = db.prepare(
      'SELECT n, at, job AS jobs, type, queue, state AS "to" FROM holdfast_transitions WHERE n > ? ORDER BY n',
    );
    this.#delete = db.prepare("DELETE FROM holdfast_transitions WHERE n <= ?");
    this.#setDeleted = db.prepare(
      "UPDATE holdfast_following SET deleted = ?, until = CASE WHEN until <= ? THEN 0 ELSE until END",
    );
  }

  /** Read from the file each time. */
  get isRecording(): boolean {
    return this.#read().until > 0;
  }

  add(id: string, type: string, queue: string, state: State): void {
    // Only the last row: a job may change several times in a transaction, and even reach the same state in another queue.
    const last = this.#rows.at(-1);
    if (last?.state === state && last.type === type && last.queue === queue && last.ids.length < MAX_PACKED) {
      last.ids.push(id);
    } else {
      this.#rows.push({ type, queue, state, ids: [id] });
    }
  }

  /** Ends the transaction. Recording may have ended meanwhile. */
  write(now: number): void {
    if (this.#rows.length > 0 && this.#read().until > now) {
      let n = this.#newestNumber();
      for (const { ids, type, queue, state } of this.#rows) {
        n += ids.length;
        this.#insert.run(n, now, ids.join(""), type, queue, state);
      }
    }
    this.discard();
  }

  discard(): void {
    if (this.#rows.length > 0) this.#rows = [];
  }

  record(forMs: number, now: number): string {
    const { epoch, until } = this.#read();
    const current = until > now ? epoch : epoch + 1;
    this.#follow.run(current, Math.max(until, now + forMs));
    return cursorOf(current, this.#newestNumber());
  }

  page(cursor: { epoch: number; number: number }, limit: number, now: number): PackedPage | null {
    // Before the check: reads have no transaction, so another process may delete these rows between the two statements.
    const rows = this.#rowsAfter(cursor.number, limit);
    const { epoch, until, deleted } = this.#read();
    if (cursor.epoch !== epoch || until <= now || cursor.number < deleted) return null;
    // The file is older than the cursor: a backup was restored.
    if (rows.length === 0 && cursor.number > this.#newestNumber()) return null;
    return { rows, cursor: cursorOf(epoch, rows.at(-1)?.n ?? cursor.number) };
  }

  /** The rows with the next transitions. The first and the last have only those of their jobs that belong to the page. */
  #rowsAfter(number: number, limit: number): PackedRow[] {
    const rows: PackedRow[] = [];
    let left = limit;
    for (const row of this.#after.iterate(number) as IterableIterator<PackedRow>) {
      const count = row.jobs.length / ID_LENGTH;
      const skipped = Math.max(0, number - (row.n - count));
      const taken = Math.min(left, count - skipped);
      const jobs = row.jobs.slice(skipped * ID_LENGTH, (skipped + taken) * ID_LENGTH);
      rows.push({ ...row, jobs, n: row.n - count + skipped + taken });
      left -= taken;
      if (left === 0) break;
    }
    return rows;
  }

  purge(before: number, limit: number, now: number): number {
    const beyond = this.#newestNumber() - LIMITS.transitions;
    const { until, deleted } = this.#read();
    let [last, count] = [deleted, 0];
    for (const { n, at, length } of this.#oldest.all(limit) as { n: number; at: number; length: number }[]) {
      if ((n > beyond && at >= before) || count >= limit) break;
      last = n;
      count += length / ID_LENGTH;
    }
    if (count > 0) this.#delete.run(last);
    // Without followers, and nothing to delete, nothing is written.
    if (count > 0 || (until > 0 && until <= now)) this.#setDeleted.run(last, now);
    return Math.min(count, limit);
  }

  #newestNumber(): number {
    return (this.#newest.get() as number | undefined) ?? 0;
  }

  #read(): Following {
    return (this.#following.get() as Following | undefined) ?? { epoch: 0, until: 0, deleted: 0 };
  }
}

export function unpack({ rows, cursor }: PackedPage): TransitionPage {
  const transitions: TransitionRecord[] = [];
  for (const { at, jobs, type, queue, to } of rows) {
    for (let from = 0; from < jobs.length; from += ID_LENGTH) {
      transitions.push({ id: jobs.slice(from, from + ID_LENGTH), type, queue, to, at });
    }
  }
  return { transitions, cursor };
}

function cursorOf(epoch: number, number: number): string {
  return `${epoch}.${number}`;
}

/** Null: this store did not return it. */
export function readCursor(cursor: string): { epoch: number; number: number } | null {
  const [, epoch, number] = /^(\d{1,15})\.(\d{1,15})$/.exec(cursor) ?? [];
  return epoch === undefined ? null : { epoch: Number(epoch), number: Number(number) };
}
