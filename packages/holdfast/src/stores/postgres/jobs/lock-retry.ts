import { HoldfastError, StoreUnavailableError } from "../../../errors.js";
import type { Row } from "../connection/db.js";
import { isLockTimeout } from "../connection/errors.js";

// How long to retry rows that other sessions have locked, and the pauses between the tries.
const RETRY_MS = 2_000;
const PAUSES_MS = [0, 25, 50, 100, 200] as const;

/**
 * A part of a statement that makes it wait only briefly for locks that it cannot skip: on a key that an open
 * transaction is about to take, or on a lane that one has created.
 */
export const SHORT_LOCK_WAIT = "lock_wait AS MATERIALIZED (SELECT pg_catalog.set_config('lock_timeout', '50', true))";

/** Statements that return the id and the result of each job; they return no row for a job that they could not lock. */
export interface LockingCalls {
  run: (ids: readonly string[]) => Promise<Row[]>;
  /** Called in addition for each job without a result. */
  runEach?: (id: string) => Promise<Row[]>;
  /** Returns the ids of the jobs that exist. */
  findExisting: (ids: readonly string[]) => Promise<Row[]>;
}

/**
 * Runs statements until every job has a result. `missing` is only returned for a job that `findExisting` does not find:
 * a job without a result may be locked, or may be moving between the tables.
 *
 * If a row stays locked, this throws, because no result would be true; the same if the database rejects a job. It
 * throws after all other jobs are done. A caller that retries gets `finished`, `not-retryable` or `missing` for those,
 * so nothing happens twice.
 */
export async function retryWhileLocked<Result extends string>(
  ids: readonly string[],
  { run, runEach, findExisting }: LockingCalls,
): Promise<(Result | "missing")[]> {
  const results = new Map<string, Result | "missing">();
  const failed = new Map<string, unknown>();
  const deadline = performance.now() + RETRY_MS;
  const open = (): string[] => [...new Set(ids)].filter((id) => !results.has(id) && !failed.has(id));
  const collect = (rows: readonly Row[]): void => {
    for (const [id, result] of rows) results.set(id as string, result as Result);
  };

  for (let round = 0; open().length > 0; round++) {
    collect(await splitOnLock(open(), run, deadline));
    if (runEach !== undefined) {
      for (const id of open()) {
        try {
          collect(await splitOnLock([id], () => runEach(id), deadline));
        } catch (error) {
          // The database rejected this job. Any other error concerns all jobs.
          if (!(error instanceof HoldfastError) || error.code !== "STORE_ERROR") throw error;
          failed.set(id, error);
        }
      }
    }
    const left = open();
    if (left.length === 0) break;
    const found = new Set((await findExisting(left)).map(([id]) => id));
    for (const id of left) if (!found.has(id)) results.set(id, "missing");
    if (performance.now() >= deadline) break;
    if (open().length > 0) await pause(PAUSES_MS[Math.min(round, PAUSES_MS.length - 1)] ?? 0);
  }

  for (const error of failed.values()) throw error;
  const locked = open();
  if (locked.length > 0) throw staysLocked(locked, results.size);
  return ids.map((id) => results.get(id) ?? "missing");
}

/**
 * On a lock timeout, runs the statement for each half of the jobs, down to single jobs. Locked ones have no row in the
 * result.
 */
async function splitOnLock(ids: readonly string[], run: LockingCalls["run"], deadline: number): Promise<Row[]> {
  try {
    return await run(ids);
  } catch (error) {
    if (!isLockTimeout(error)) throw error;
    if (ids.length === 1 || performance.now() >= deadline) return [];
    const middle = Math.ceil(ids.length / 2);
    return [
      ...(await splitOnLock(ids.slice(0, middle), run, deadline)),
      ...(await splitOnLock(ids.slice(middle), run, deadline)),
    ];
  }
}

function staysLocked([first, ...more]: readonly string[], done: number): StoreUnavailableError {
  const which = more.length === 0 ? `job ${first} is` : `job ${first} and ${more.length} more are`;
  const others = done === 0 ? "" : `; the other ${done} jobs of this call are done`;
  return new StoreUnavailableError(`${which} locked by an open transaction of another session${others}; retry later`);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
