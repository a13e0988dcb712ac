import { isThenable } from "../callbacks.js";
import { InvalidOptionError } from "../errors.js";
import { quoteIdentifier } from "./identifier.js";
import type { Database, SqliteDatabase, SqlValue, Steps, Transaction } from "./sql.js";

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
    call: (work) => immediately(work),
    effect: (work) => immediately(() => syncResult(work())),
  };
  const inTransaction = <Result>(work: (tx: Transaction) => Steps<Result>): Result =>
    db.transaction(() => runSteps(work(tx))).immediate();
  return {
    dialect: "sqlite",
    table: (name) => quoteIdentifier(name, "table"),
    query: async (sql, values) => run(sql, values),
    transaction: async (work) => inTransaction(work),
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

function syncResult<Result>(result: Result | PromiseLike<Result>): Result {
  if (!isThenable(result)) return result;
  // The transaction is rolled back. What the function does afterwards must not end the process.
  void Promise.resolve(result).catch(() => {});
  throw new InvalidOptionError(
    "the function",
    "returned a promise; on SQLite, a function in a transaction must be synchronous: use the better-sqlite3 database without await",
  );
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
