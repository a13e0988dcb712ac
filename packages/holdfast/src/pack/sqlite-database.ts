import { setTimeout as sleep } from "node:timers/promises";
import { isThenable, watchResult } from "../callbacks.js";
import { isDone } from "../done-promise.js";
import { InvalidOptionError } from "../errors.js";
import { quoteIdentifier } from "./identifier.js";
import type { Database, SqliteDatabase, SqlValue, Steps, Transaction } from "./sql.js";

type Work<Result> = (tx: Transaction) => Steps<Result>;

/** How long SQLite itself waits for the write lock, which blocks the process, before other code may run. */
const BLOCK_MS = 3;
const RETRY_MS = 1;

export function sqliteDatabase(db: SqliteDatabase): Database {
  const run = <Row>(sql: string, values: readonly SqlValue[] = []): Row[] => {
    const statement = db.prepare(sql);
    const given = values.map(storedValue);
    if (statement.reader) return statement.all(...given) as Row[];
    statement.run(...given);
    return [];
  };
  const tx: Transaction = {
    dialect: "sqlite",
    handle: db,
    query: (sql, values) => immediately(() => run(sql, values)),
    call: (work) => immediately(() => doneResult(work())),
    effect: (work) => immediately(() => syncResult(work())),
  };
  const setBusyMs = (ms: number): void => void run(`PRAGMA busy_timeout = ${ms}`);

  /** Returns the error if another connection has the write lock. Afterwards the connection waits for locks as long as before. */
  function tryTransaction<Result>(work: Work<Result>, busyMs: number): { result: Result } | { busy: Error } {
    let hasBegun = false;
    setBusyMs(Math.min(BLOCK_MS, busyMs));
    const transaction = db.transaction(() => {
      hasBegun = true;
      setBusyMs(busyMs);
      return runSteps(work(tx));
    });
    try {
      return { result: transaction.immediate() };
    } catch (error) {
      if (hasBegun) throw error;
      setBusyMs(busyMs);
      if (isBusy(error)) return { busy: error };
      throw error;
    }
  }

  /**
   * Waits for the write lock as long as the connection would, but without blocking the process, and asks for it more often than
   * SQLite, which sleeps for up to 100 ms in between: while a worker is busy, the lock is free only for moments.
   */
  async function transaction<Result>(work: Work<Result>): Promise<Result> {
    if (db.inTransaction) return db.transaction(() => runSteps(work(tx))).immediate();
    const busyMs = run<{ timeout: number }>("PRAGMA busy_timeout")[0]?.timeout ?? 0;
    const until = performance.now() + busyMs;
    for (;;) {
      const tried = tryTransaction(work, busyMs);
      if ("result" in tried) return tried.result;
      if (performance.now() >= until) throw tried.busy;
      await sleep(RETRY_MS);
    }
  }

  return {
    dialect: "sqlite",
    table: (name) => quoteIdentifier(name, "table"),
    query: async (sql, values) => run(sql, values),
    transaction,
    within: (given, work) => {
      if (given !== db) throw new InvalidOptionError("tx", "must be the better-sqlite3 database of this pack");
      return runSteps(work(tx));
    },
  };
}

/** A step that waits for nothing. */
function* immediately<Result>(work: () => Result): Steps<Result> {
  yield* [];
  return work();
}

/** The transaction commits before a promise could reject: so a call that is not done by then would be lost without an error. */
function doneResult<Result>(result: Result | PromiseLike<Result>): Result | PromiseLike<Result> {
  if (!isThenable(result) || isDone(result)) return result;
  watchResult(result, () => {});
  throw new InvalidOptionError(
    "db",
    "is a better-sqlite3 database, and the call in its transaction was not done when it returned: the jobs are not in this database, " +
      'or an async function calls the client. Pass the database that holds the jobs, with the client itself: holdfast({ store: "sqlite:…" }) on the same file',
  );
}

function syncResult<Result>(result: Result | PromiseLike<Result>): Result {
  if (!isThenable(result)) return result;
  // The transaction is rolled back. What the function does afterwards must not end the process.
  void Promise.resolve(result).catch(() => {});
  throw new InvalidOptionError(
    "the function",
    "returned a promise; on SQLite, a function in a transaction must be synchronous: use the better-sqlite3 database without await",
  );
}

function isBusy(error: unknown): error is Error {
  return error instanceof Error && String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY");
}

function runSteps<Result>(steps: Steps<Result>): Result {
  const step = steps.next();
  if (step.done === true) return step.value;
  throw new Error("a transaction yielded something else than a step; write yield* before each call");
}

/** better-sqlite3 accepts neither booleans nor dates. */
function storedValue(value: SqlValue): string | number | bigint | Uint8Array | null {
  if (typeof value === "boolean") return value ? 1 : 0;
  return value instanceof Date ? value.getTime() : value;
}
