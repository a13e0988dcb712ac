import { HoldfastError, StoreUnavailableError } from "../../../errors.js";
import type { Row } from "../connection/db.js";
import { isLockTimeout } from "../connection/errors.js";

// How long rows that others have locked are asked for again, and the pauses between.
const PATIENCE_MS = 2_000;
const PAUSES_MS = [0, 25, 50, 100, 200] as const;

/**
 * A part by which a statement waits only for a moment for what it cannot pass over: a key that an open transaction is about
 * to take, or a lane that one has made.
 */
export const BRIEFLY = "briefly AS MATERIALIZED (SELECT pg_catalog.set_config('lock_timeout', '50', true))";

/** Statements that answer rows of a job's id and what came of it; none for a job whose row they could not lock. */
export interface Questions {
  ask: (ids: readonly string[]) => Promise<Row[]>;
  /** Asked besides, of each job that `ask` has no answer for. */
  askEach?: (id: string) => Promise<Row[]>;
  /** The ids of those that exist. */
  look: (ids: readonly string[]) => Promise<Row[]>;
}

/**
 * Asks until every job has an answer. `missing` is only said of a job that a look does not find: one without an answer may
 * be locked, or on its way from one table to the other.
 *
 * A row that stays locked is an error, since no answer would be true; so is a job that the database refuses. Both are
 * thrown when everything else is done. Who asks again is told of what was done then (`finished`, `not-retryable`,
 * `missing`), so nothing happens twice.
 */
export async function answersOf<Answer extends string>(
  ids: readonly string[],
  questions: Questions,
): Promise<(Answer | "missing")[]> {
  const { ask, askEach, look } = questions;
  const answers = new Map<string, Answer | "missing">();
  const failed = new Map<string, unknown>();
  const deadline = performance.now() + PATIENCE_MS;
  const open = (): string[] => [...new Set(ids)].filter((id) => !answers.has(id) && !failed.has(id));
  const take = (rows: readonly Row[]): void => {
    for (const [id, answer] of rows) answers.set(id as string, answer as Answer);
  };

  for (let round = 0; open().length > 0; round++) {
    take(await passingOver(open(), ask, deadline));
    if (askEach !== undefined) {
      for (const id of open()) {
        try {
          take(await passingOver([id], () => askEach(id), deadline));
        } catch (error) {
          // Refused because of this job; anything else would meet the others as well.
          if (!(error instanceof HoldfastError) || error.code !== "STORE_ERROR") throw error;
          failed.set(id, error);
        }
      }
    }
    const left = open();
    if (left.length === 0) break;
    const found = new Set((await look(left)).map(([id]) => id));
    for (const id of left) if (!found.has(id)) answers.set(id, "missing");
    if (performance.now() >= deadline) break;
    if (open().length > 0) await pause(PAUSES_MS[Math.min(round, PAUSES_MS.length - 1)] ?? 0);
  }

  for (const error of failed.values()) throw error;
  const locked = open();
  if (locked.length > 0) throw staysLocked(locked, answers.size);
  return ids.map((id) => answers.get(id) ?? "missing");
}

/** The answers of those who need not wait for a lock of somebody else's: halves are asked until the others stand alone. */
async function passingOver(ids: readonly string[], ask: Questions["ask"], deadline: number): Promise<Row[]> {
  try {
    return await ask(ids);
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    if (ids.length === 1 || performance.now() >= deadline) return [];
    const middle = Math.ceil(ids.length / 2);
    return [
      ...(await passingOver(ids.slice(0, middle), ask, deadline)),
      ...(await passingOver(ids.slice(middle), ask, deadline)),
    ];
  }
}

function staysLocked([first, ...more]: readonly string[], done: number): StoreUnavailableError {
  const others = more.length === 0 ? "" : ` and ${more.length} more are`;
  const rest = done === 0 ? "" : `; the other ${done} of this call are done`;
  return new StoreUnavailableError(
    `job ${first}${others === "" ? " is" : others} locked by another session, in a transaction that is still open${rest}; try again when it is over`,
  );
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
