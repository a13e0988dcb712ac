import { InvalidOptionError, type Duration, type Holdfast, type JobType } from "holdfast";
import {
  checkTransactions,
  database,
  durationMs,
  show,
  type Database,
  type PostgresPool,
  type SqliteDatabase,
} from "holdfast/pack";

/** Reads an option that must be a function. */
export function readFunction<Given>(value: Given, field: string, example: string): Given {
  if (typeof value === "function") return value;
  throw new InvalidOptionError(field, `${show(value)} is not a function; for example ${example}`);
}

/** Reads an option that must be an object with these methods. */
export function readPort<Given>(value: Given, field: string, methods: readonly string[], advice: string): Given {
  const port = value as Readonly<Record<string, unknown>> | null | undefined;
  const isPort =
    (typeof port === "object" || typeof port === "function") &&
    port !== null &&
    methods.every((name) => typeof port[name] === "function");
  if (isPort) return value;
  throw new InvalidOptionError(field, `${show(value)} has not the method ${methods.join(", ")}; ${advice}`);
}

/** Reads a duration that must be longer than 0. */
export function readPositiveDuration(value: Duration, field: string): number {
  const ms = durationMs(value, field);
  if (ms === 0) throw new InvalidOptionError(field, "must be longer than 0");
  return ms;
}

/** Reads the client that a pack is installed in, or whose jobs it enqueues. */
export function readClient(hf: Holdfast): Holdfast {
  return readPort(hf, "hf", ["enqueue", "enqueueMany"], "pass what holdfast({ … }) returned");
}

/** A source of the wall clock. Pass the clock of a test that moves time. */
export interface WallClock {
  /** Milliseconds since 1970. */
  now(): number;
}

/** The options of packs with tables of their own. */
export interface StorageOptions<Records> {
  /** The database that holds the jobs: a better-sqlite3 database, or a pool of `pg`. */
  db?: SqliteDatabase | PostgresPool;
  /** Instead of `db`: your own storage, for example on DynamoDB. */
  records?: Records;
  /** The PostgreSQL schema of the tables. Default `"public"`. */
  schema?: string;
}

/** Where a pack stores its records. */
export interface Storage<Records> {
  readonly records: Records;
  /** Creates the tables. With `db`, checks that the jobs of the client are in the same database. */
  install(hf: Holdfast, type: JobType): Promise<void>;
}

/** Reads where a pack stores its records. */
export function readStorage<Records extends { install(): Promise<void> }>(
  { db, records, schema }: StorageOptions<Records>,
  { sql, methods }: { sql: (db: Database) => Records; methods: readonly string[] },
): Storage<Records> {
  if (db !== undefined && records !== undefined)
    throw new InvalidOptionError("records", "must not be combined with db; pass one of the two");
  if (db !== undefined) {
    const opened = database(db, schema === undefined ? {} : { schema });
    const stored = sql(opened);
    return {
      records: stored,
      async install(hf, type) {
        await checkTransactions(opened, hf, type);
        await stored.install();
      },
    };
  }
  if (records === undefined)
    throw new InvalidOptionError("db", "is missing; pass the database that holds the jobs, or your own records");
  if (schema !== undefined) throw new InvalidOptionError("schema", "needs db");
  readPort(records, "records", methods, "see the type of this option");
  return { records, install: () => records.install() };
}
