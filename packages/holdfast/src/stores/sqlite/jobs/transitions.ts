import type { Database } from "better-sqlite3";
import { LIMITS } from "../../../defaults.js";
import type { State } from "../../../job/state.js";
import type { TransitionPage, TransitionRecord } from "../../../store.js";

interface Following {
  epoch: number;
  until: number;
  deleted: number;
}

/**
 * Transitions that are recorded while jobs are followed. Whether they are is read once per transaction, on its first change of
 * state: about a microsecond. SQLite runs one write at a time, so the numbers are in the order of commits and none is missed.
 */
export class Transitions {
  #added: [id: string, type: string, queue: string, state: State][] = [];
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
    this.#insert = db.prepare("INSERT INTO holdfast_transitions (at, job, type, queue, state) VALUES (?, ?, ?, ?, ?)");
    // The highest number ever used.
    this.#newest = db.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_transitions'").pluck();
    this.#oldest = db.prepare("SELECT n, at FROM holdfast_transitions ORDER BY n LIMIT ?");
    this.#after = db.prepare(
      'SELECT n, at, job AS id, type, queue, state AS "to" FROM holdfast_transitions WHERE n > ? ORDER BY n LIMIT ?',
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
    this.#added.push([id, type, queue, state]);
  }

  /** Ends the transaction. Recording may have ended meanwhile. */
  write(now: number): void {
    if (this.#added.length > 0 && this.#read().until > now) {
      for (const transition of this.#added) this.#insert.run(now, ...transition);
    }
    this.discard();
  }

  discard(): void {
    if (this.#added.length > 0) this.#added = [];
  }

  record(forMs: number, now: number): string {
    const { epoch, until } = this.#read();
    const current = until > now ? epoch : epoch + 1;
    this.#follow.run(current, Math.max(until, now + forMs));
    return cursorOf(current, this.#newestNumber());
  }

  page(cursor: { epoch: number; number: number }, limit: number, now: number): TransitionPage | null {
    // Before the check: reads have no transaction, so another process may delete these rows between the two statements.
    const rows = this.#after.all(cursor.number, limit) as (TransitionRecord & { n: number })[];
    const { epoch, until, deleted } = this.#read();
    if (cursor.epoch !== epoch || until <= now || cursor.number < deleted) return null;
    // The file is older than the cursor: a backup was restored.
    if (rows.length === 0 && cursor.number > this.#newestNumber()) return null;
    const transitions = rows.map(({ n: _n, ...transition }) => transition);
    return { transitions, cursor: cursorOf(epoch, rows.at(-1)?.n ?? cursor.number) };
  }

  purge(before: number, limit: number, now: number): number {
    const beyond = this.#newestNumber() - LIMITS.transitions;
    const oldest = this.#oldest.all(limit) as { n: number; at: number }[];
    const kept = oldest.findIndex(({ n, at }) => n > beyond && at >= before);
    const count = kept < 0 ? oldest.length : kept;
    const { until, deleted } = this.#read();
    const last = oldest[count - 1]?.n ?? deleted;
    if (count > 0) this.#delete.run(last);
    // Without followers, and nothing to delete, nothing is written.
    if (count > 0 || (until > 0 && until <= now)) this.#setDeleted.run(last, now);
    return count;
  }

  #newestNumber(): number {
    return (this.#newest.get() as number | undefined) ?? 0;
  }

  #read(): Following {
    return (this.#following.get() as Following | undefined) ?? { epoch: 0, until: 0, deleted: 0 };
  }
}

function cursorOf(epoch: number, number: number): string {
  return `${epoch}.${number}`;
}

/** Null: this store did not return it. */
export function readCursor(cursor: string): { epoch: number; number: number } | null {
  const [, epoch, number] = /^(\d{1,15})\.(\d{1,15})$/.exec(cursor) ?? [];
  return epoch === undefined ? null : { epoch: Number(epoch), number: Number(number) };
}
