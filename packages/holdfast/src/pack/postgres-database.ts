import { guardPool } from "../guard-pool.js";
import { quoteIdentifier } from "./identifier.js";
import type { Database, PostgresClient, PostgresPool, SqlRow, SqlValue, Steps, Transaction } from "./sql.js";

export function postgresDatabase(pool: PostgresPool, schema: string): Database {
  guardPool(pool);
  const prefix = `${quoteIdentifier(schema, "schema")}.`;
  return {
    dialect: "postgres",
    table: (name) => prefix + quoteIdentifier(name, "table"),
    query: (sql, values) => execute(pool, sql, values),
    async transaction(work, { signal } = {}) {
      const client = await pool.connect();
      let broken: Error | undefined;
      // The listener of the pool is for idle connections. Here the next statement fails too, and reports the error.
      client.on?.("error", ignore);
      try {
        await client.query("BEGIN");
        const result = await untilAbandoned(runSteps(work(transactionOn(client))), signal);
        const { command } = await client.query("COMMIT");
        // PostgreSQL returns this if a statement of the transaction had failed and the error was caught.
        if (command === "ROLLBACK")
          throw new Error("the transaction was rolled back, because one of its statements failed");
        return result;
      } catch (error) {
        if (error instanceof AbandonedError) {
          // What still runs may use the connection, so it must not return to the pool. The server rolls back when it is closed.
          broken = error;
          throw error;
        }
        await client.query("ROLLBACK").catch((cause: unknown) => {
          broken = cause instanceof Error ? cause : new Error(String(cause));
        });
        throw error;
      } finally {
        client.release(broken);
        client.off?.("error", ignore);
      }
    },
    within: (client, work) => runSteps(work(transactionOn(client as PostgresClient))),
  };
}

function ignore(): void {}

const ABANDON_MS = 30_000;

class AbandonedError extends Error {
  override readonly name = "AbandonedError";
}

async function untilAbandoned<Result>(work: Promise<Result>, signal: AbortSignal | undefined): Promise<Result> {
  if (signal === undefined) return work;
  let timer: NodeJS.Timeout | undefined;
  let start = (): void => {};
  const abandoned = new Promise<never>((_resolve, reject) => {
    start = () => {
      const message = "the transaction was rolled back, because its work did not end after its signal was aborted";
      timer = setTimeout(() => reject(new AbandonedError(message, { cause: signal.reason })), ABANDON_MS);
    };
  });
  if (signal.aborted) start();
  else signal.addEventListener("abort", start, { once: true });
  try {
    return await Promise.race([work, abandoned]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", start);
  }
}

function transactionOn(client: PostgresClient): Transaction {
  return {
    dialect: "postgres",
    handle: client,
    *query<Row = SqlRow>(sql: string, values?: readonly SqlValue[]): Steps<Row[]> {
      return (yield execute(client, sql, values)) as Row[];
    },
    *call<Result>(work: () => Result | PromiseLike<Result>): Steps<Result> {
      return (yield work()) as Result;
    },
    *effect<Result>(work: () => Result | PromiseLike<Result>): Steps<Result> {
      return (yield work()) as Result;
    },
  };
}

/** Awaits what each step yields. Never before the one before it has ended: a client executes one statement at a time. */
async function runSteps<Result>(steps: Steps<Result>): Promise<Result> {
  let step = steps.next();
  while (step.done !== true) {
    let value: unknown;
    try {
      value = await step.value;
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(value);
  }
  return step.value;
}

async function execute<Row>(client: PostgresClient, sql: string, values: readonly SqlValue[] = []): Promise<Row[]> {
  const { rows } = await client.query(numbered(sql), [...values]);
  return rows as Row[];
}

/** `?` becomes `$1`, `$2`, … outside of quotes. */
function numbered(sql: string): string {
  let n = 0;
  return sql.replaceAll(/"(?:[^"]|"")*"|'(?:[^']|'')*'|\?/g, (part) => (part === "?" ? `$${++n}` : part));
}
