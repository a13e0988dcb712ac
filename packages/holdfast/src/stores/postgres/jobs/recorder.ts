import type { Row, Runner, Statement } from "../connection/db.js";
import { isDivisionByZero } from "../connection/errors.js";
import type { Sql } from "../connection/sql.js";
import { followedUntil, type StateStatement } from "./recording.js";

// How long a process uses the statements that record before it asks whether that is still needed.
const ASK_EVERY_MS = 5_000;

/**
 * Runs statements that change states. Hardly any job is followed, and a part that inserts transitions makes each statement 15 to
 * 20 µs slower even if it inserts none (5 % of a statement for one job; 4 µs with the guard). So a process uses statements that
 * fail if jobs are followed, and after the first failure those that record. Either way no transition is missed.
 *
 * Not for the caller's transactions, which an error would abort: those always record.
 */
export class Recorder {
  readonly #isFollowed: Statement;
  #recordsUntil = Number.NEGATIVE_INFINITY;
  #hasRecorded = false;

  constructor(sql: Sql) {
    this.#isFollowed = sql.statement("is_followed", `SELECT coalesce(${followedUntil(sql.s)} > 0, false)`);
  }

  async run(runner: Runner, statement: StateStatement, values: readonly unknown[]): Promise<Row[]> {
    if (performance.now() >= this.#recordsUntil && this.#hasRecorded) await this.#ask(runner);
    if (this.#hasRecorded) return runner.run(statement.recorded, values);
    try {
      return await runner.run(statement.guarded, values);
    } catch (error) {
      if (!isDivisionByZero(error)) throw error;
      this.#record(true);
      return runner.run(statement.recorded, values);
    }
  }

  async #ask(runner: Runner): Promise<void> {
    const [row] = await runner.run(this.#isFollowed, []);
    this.#record(row?.[0] === true);
  }

  #record(isFollowed: boolean): void {
    this.#hasRecorded = isFollowed;
    this.#recordsUntil = performance.now() + ASK_EVERY_MS;
  }
}
