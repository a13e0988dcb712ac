import { InvalidOptionError } from "../../../errors.js";
import { guardPool } from "../../../guard-pool.js";
import { toStoreError, isConnectionLost, isServerFull, sqlState } from "./errors.js";
import { ConnectionLender } from "./connection-lender.js";
import { qualify, type Qualified } from "./qualify.js";

/**
 * A statement, with the name under which connections keep it prepared. A statement without a name is not prepared: it
 * runs rarely, and has no timeout.
 */
export interface Statement {
  name: string;
  text: Qualified;
  /** Without a name, but quick: it has the timeout of a named one. */
  brief?: true;
}

/** A statement that runs rarely. */
export function unnamed(text: string): Statement {
  return { name: "", text: qualify(text) };
}

/** One row as an array of columns, which costs half as much as an object. */
export type Row = readonly unknown[];

/** Runs statements: the pool, the store's own transaction, or the caller's. */
export interface Runner {
  run(statement: Statement, values: readonly unknown[]): Promise<Row[]>;
}

/** The store's own transaction. */
export interface Transaction extends Runner {
  /** Several statements without values. They are sent unchanged, so their names must not depend on the search path. */
  script(text: string): Promise<void>;
}

/** The part of a `pg` client or pool that is used here. */
export interface PgQueryable {
  query(config: PgQuery): Promise<{ rows: Row[]; rowCount?: number | null }>;
}
interface PgQuery {
  name?: string;
  text: string;
  values?: readonly unknown[];
  rowMode?: "array";
  types?: { getTypeParser(oid: number): (text: string) => unknown };
  query_timeout?: number;
}
export interface PgClient extends PgQueryable {
  release(destroy?: boolean | Error): void;
  on?(event: "error", listener: (error: Error) => void): unknown;
  off?(event: "error", listener: (error: Error) => void): unknown;
}
export interface PgPool extends PgQueryable {
  connect(): Promise<PgClient>;
  end(): Promise<void>;
  on?(event: "error", listener: (error: Error) => void): unknown;
  /** Whether `end` was called, and whether it has finished. Without these properties the pool is not watched. */
  readonly ending?: boolean;
  readonly ended?: boolean;
}

export interface DbOptions {
  /** False: the pool is the caller's and stays open. */
  owned?: boolean;
  /** Called when the caller has ended the pool: release what else uses it. */
  onEnded?: () => void;
  /** Timeout of named and brief statements. Their connection is then closed. */
  timeoutMs?: number;
}

const DEADLOCK = "40P01";
// Does not occur in READ COMMITTED, the isolation level that all statements here need.
const NOT_SERIALIZABLE = "40001";
// A savepoint outside of any transaction.
const NO_TRANSACTION = "25P01";
// A pooler in transaction mode sends each statement to any free connection, which has other statements prepared.
const NOT_PREPARED = new Set(["26000", "42P05"]);
const TRIES = 5;
// The first pause when the server has no free connection; it doubles with each try.
const FULL_MS = 50;
// Without it, a call on a silently cut connection would wait for a quarter of an hour.
const TIMEOUT_MS = 30_000;
const BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/** Runs statements on a pool. Uses one connection for a statement or transaction, and never waits for a second one. */
export class Db implements Runner {
  readonly #pool: PgPool;
  readonly #where: string;
  readonly #owned: boolean;
  readonly #timeoutMs: number;
  /** How statements are sent. Changes permanently when a statement fails because of it. */
  #mode: Mode = { prepare: true, begin: false };
  readonly #connections: ConnectionLender;

  constructor(pool: PgPool, where: string, { owned = true, onEnded, timeoutMs = TIMEOUT_MS }: DbOptions = {}) {
    this.#pool = pool;
    this.#connections = new ConnectionLender(pool, onEnded);
    this.#where = where;
    this.#owned = owned;
    this.#timeoutMs = timeoutMs;
    guardPool(pool);
  }

  async run(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    return this.#retrying((mode) => this.#connections.using((client) => this.#runOn(client, mode, statement, values)));
  }

  /** Like `run`, but resolves to null without running if no connection is free within `waitMs`. */
  async runIfFree(waitMs: number, statement: Statement, values: readonly unknown[]): Promise<Row[] | null> {
    return this.#retrying((mode) =>
      this.#connections.usingIfFree(waitMs, (client) => this.#runOn(client, mode, statement, values)),
    );
  }

  /**
   * Runs a single statement without timeout, outside any transaction, and once: what it leaves behind when it fails may
   * block another try. When `signal` is aborted, its connection is closed and this rejects; the server continues the
   * statement.
   */
  async runLong(text: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#connections.using((client) => {
        signal.throwIfAborted();
        return Promise.race([client.query({ text }), abortOf(signal)]);
      });
    } catch (error) {
      throw toStoreError(error, this.#where);
    }
  }

  /** Runs work in a transaction, and repeats it on a deadlock. */
  async transaction<Result>(work: (runner: Transaction) => Promise<Result>): Promise<Result> {
    return this.#retrying((mode) => this.#connections.using((client) => this.#transact(client, mode, work)));
  }

  /** Runs reads in one snapshot. */
  async snapshot<Result>(work: (runner: Runner) => Promise<Result>): Promise<Result> {
    return this.#retrying((mode) =>
      this.#connections.using((client) => this.#transact(client, mode, work, BEGIN_SNAPSHOT)),
    );
  }

  async end(): Promise<void> {
    if (this.#owned) await this.#pool.end();
  }

  async #runOn(client: PgClient, mode: Mode, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    if (mode.begin) return this.#transact(client, mode, (runner) => runner.run(statement, values));
    return this.#query(client, mode, statement, values);
  }

  async #transact<Result>(
    client: PgClient,
    mode: Mode,
    work: (runner: Transaction) => Promise<Result>,
    begin = BEGIN,
  ): Promise<Result> {
    const send = async (text: string): Promise<void> =>
      void (await client.query({ text, query_timeout: this.#timeoutMs }));
    await send(begin);
    try {
      const result = await work({
        run: (statement, values) => this.#query(client, mode, statement, values),
        // Without timeout: it may change the schema.
        script: async (text) => void (await client.query({ text })),
      });
      await send("COMMIT");
      return result;
    } catch (error) {
      // Report the first error, not that a lost connection cannot roll back.
      if (!isConnectionLost(error)) await send("ROLLBACK");
      throw error;
    }
  }

  async #query(client: PgClient, mode: Mode, statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const { name, text, brief = false } = statement;
    const config: PgQuery = { text, values, rowMode: "array", types: TYPES };
    if (name !== "" || brief) config.query_timeout = this.#timeoutMs;
    if (name !== "" && mode.prepare) config.name = name;
    return (await client.query(config)).rows;
  }

  async #retrying<Result>(work: (mode: Mode) => Promise<Result>): Promise<Result> {
    for (let attempt = 1; ; attempt++) {
      const mode = this.#mode;
      try {
        return await work(mode);
      } catch (error) {
        const code = sqlState(error);
        // Compared with the mode of this call: a concurrent call may have changed it already.
        if (mode.prepare && NOT_PREPARED.has(code)) this.#mode = { ...this.#mode, prepare: false };
        else if (!mode.begin && code === NOT_SERIALIZABLE) this.#mode = { ...this.#mode, begin: true };
        else if (attempt >= TRIES) throw toStoreError(error, this.#where);
        else if (isServerFull(error)) await pause(FULL_MS * 2 ** attempt);
        else if (code !== DEADLOCK) throw toStoreError(error, this.#where);
      }
    }
  }
}

interface Mode {
  /** Named statements are prepared. */
  prepare: boolean;
  /** Single statements run in a transaction that sets the isolation level, because the database has another default. */
  begin: boolean;
}

function abortOf(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
  });
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

const READERS = new Map<number, (text: string) => unknown>([
  [16, (text) => text === "t"],
  [21, Number],
  [23, Number],
  [701, Number],
]);
/** Parsers for the types in results, independent of those that the application has set. */
const TYPES = { getTypeParser: (oid: number) => READERS.get(oid) ?? ((text: string): string => text) };

/** Anything with `query(text, values)`: a `pg` client, or an adapter for another library. */
export interface CallersTransaction {
  query(text: string, values: unknown[]): Promise<{ rows: readonly unknown[] }>;
}

/** Runs statements in the caller's transaction. */
export function callersRunner(tx: CallersTransaction, where: string): Runner {
  return {
    async run({ text }, values) {
      try {
        const result = (await tx.query(text, [...values])) as Partial<{ rows: readonly unknown[] }> | undefined;
        if (!Array.isArray(result?.rows)) throw new InvalidOptionError("tx.query", "must resolve to { rows }");
        return result.rows.map((row) => (Array.isArray(row) ? (row as Row) : Object.values(row as object)));
      } catch (error) {
        // The caller, who can repeat the transaction, checks for these codes.
        const code = sqlState(error);
        if ([DEADLOCK, NOT_SERIALIZABLE].includes(code)) throw error;
        if (code === NO_TRANSACTION)
          throw new InvalidOptionError("tx", "has no open transaction; run BEGIN on it first");
        throw toStoreError(error, where);
      }
    },
  };
}

/**
 * Runs the work of one transaction sequentially, because savepoints of two jobs must not interleave. Between two pieces
 * of work the caller of the first gets a chance to act on its result: if a ROLLBACK arrived in the middle of the
 * second, its writes would be outside any transaction. If it arrives before, the savepoint fails.
 */
export class TransactionQueue {
  readonly #last = new WeakMap<object, Promise<unknown>>();

  async run<Result>(tx: object, work: () => Promise<Result>): Promise<Result> {
    const result = (this.#last.get(tx) ?? Promise.resolve()).then(work);
    const nextIteration = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
    this.#last.set(tx, result.then(nextIteration, nextIteration));
    return result;
  }
}
