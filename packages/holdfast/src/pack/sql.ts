/** The databases that packs keep their own tables in. */
export type Dialect = "sqlite" | "postgres";

/** A value in a statement. A `Date` is stored as `timestamptz` on PostgreSQL, and as milliseconds since 1970 on SQLite. */
export type SqlValue = string | number | bigint | boolean | Date | Uint8Array | null;

/** A row by column name. */
export type SqlRow = Record<string, unknown>;

/**
 * Work inside a transaction: a generator function whose calls are written with `yield*`. On SQLite it runs from its beginning to
 * its end without a pause, so no other code on the same connection can take part in the transaction.
 */
export type Steps<Result> = Generator<unknown, Result, unknown>;

/** An open transaction. */
export interface Transaction {
  readonly dialect: Dialect;
  /** Pass it as `tx` to `enqueue` and to `completeIn`. */
  readonly handle: unknown;
  /** Executes one statement. `?` stands for a value. */
  query<Row = SqlRow>(sql: string, values?: readonly SqlValue[]): Steps<Row[]>;
  /**
   * Calls something that takes part in the transaction, such as `enqueue` with `tx`. On PostgreSQL its promise is awaited; on SQLite it must have
   * done its work when it returns, and its promise is returned as it is: await it after the transaction. Throws, so that the transaction is rolled
   * back, if the promise is not that of a client on this database: it could be rejected after the commit, when nothing would be done about it.
   */
  call<Result>(work: () => Result | PromiseLike<Result>): Steps<Result | PromiseLike<Result>>;
  /** Calls a function of the user in the transaction. On SQLite it must be synchronous: throws if it returns a promise. */
  effect<Result>(work: () => Result | PromiseLike<Result>): Steps<Result>;
}

/** Options of a transaction. */
export interface TransactionOptions {
  /**
   * The signal of a job. Work that has not ended 30 s after it was aborted, when the worker gives the attempt up, is rolled back on PostgreSQL:
   * an effect that never ends must not keep a connection and its locks.
   */
  signal?: AbortSignal;
}

/** A database of the user, the same on SQLite and PostgreSQL. */
export interface Database {
  readonly dialect: Dialect;
  /** The quoted name of a table, with its schema. */
  table(name: string): string;
  /** Executes one statement. `?` stands for a value. */
  query<Row = SqlRow>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>;
  /** Commits what `work` did, or nothing if it throws. */
  transaction<Result>(work: (tx: Transaction) => Steps<Result>, options?: TransactionOptions): Promise<Result>;
  /** Runs `work` in a transaction that the caller has open. */
  within<Result>(tx: unknown, work: (tx: Transaction) => Steps<Result>): Result | Promise<Result>;
}

/** The parts of a better-sqlite3 database that packs use. */
export interface SqliteDatabase {
  prepare(sql: string): {
    readonly reader: boolean;
    all(...values: unknown[]): unknown[];
    run(...values: unknown[]): unknown;
  };
  transaction<Result>(work: () => Result): { immediate(): Result };
  readonly inTransaction: boolean;
}

/** The parts of a `pg` client that packs use. */
export interface PostgresClient {
  query(sql: string, values?: unknown[]): Promise<{ rows: unknown[]; command?: string }>;
}

/** The parts of a client of a `pg` pool that packs use. */
interface PooledClient extends PostgresClient {
  release(error?: Error | boolean): void;
  on?(event: "error", listener: (error: Error) => void): unknown;
  off?(event: "error", listener: (error: Error) => void): unknown;
}

/** The parts of a `pg` pool that packs use. */
export interface PostgresPool extends PostgresClient {
  connect(): Promise<PooledClient>;
  on?(event: "error", listener: (error: Error) => void): unknown;
}

export interface DatabaseOptions {
  /** The PostgreSQL schema of the tables. Default `"public"`. */
  schema?: string;
}
