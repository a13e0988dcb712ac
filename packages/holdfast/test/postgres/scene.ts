import { holdfast, type Holdfast, type JobType, type Store } from "holdfast";
import { postgres, type PostgresOptions, type PostgresStore } from "holdfast/postgres";
import type pg from "pg";
import { beforeAll, onTestFinished } from "vitest";
import { schemaPool } from "./schema-pool.js";
import type { Server } from "./server.js";

export interface OpenOptions extends Omit<PostgresOptions, "pool"> {
  by?: string;
  isNew?: boolean;
}

export interface Opened {
  store: PostgresStore;
  schema: string;
  /** Address of the store: the database and the schema. */
  address: string;
}

/** Options that change what `migrate` creates. */
const SCHEMA_OPTIONS = ["userType", "users", "access"] as const;

/**
 * A store on an empty, migrated schema, closed at the end of the test. `by` is another address of the server. The schema is
 * one that earlier tests used, except with `isNew` or with options that change it. Tests that measure pages or plans, or that
 * cut connections while a statement runs, need a new one.
 */
export async function openStore(
  server: Server,
  { by = server.url(), isNew = by !== server.url(), ...options }: OpenOptions = {},
): Promise<Opened> {
  const mustMigrate = isNew || SCHEMA_OPTIONS.some((name) => options[name] !== undefined);
  const schema = mustMigrate ? ownSchema(server) : await reusedSchema(server);
  const address = addressOf(by, schema);
  const store = postgres(address, options);
  onTestFinished(() => store.close());
  await store.migrate();
  return { store, schema, address };
}

/** A store on the only connection of a pool, which can be looked into beside it. */
export async function openOnOne(server: Server): Promise<{ store: PostgresStore; schema: string; pool: pg.Pool }> {
  const schema = ownSchema(server);
  const pool = server.pool({ max: 1 });
  const store = postgres({ pool, schema, notify: false });
  onTestFinished(async () => {
    await store.close();
    await pool.end();
  });
  await store.migrate();
  return { store, schema, pool };
}

/** The name of a migrated schema that other tests may have used before; see SchemaPool. */
async function reusedSchema(server: Server): Promise<string> {
  const pool = schemaPool(server);
  const schema = await pool.acquire();
  onTestFinished(() => pool.release(schema));
  return schema;
}

/**
 * The name of an empty schema for a client that migrates it where needed: one that other tests of the file have used, if there
 * is one. Needs `prepareSchema`; without it every schema is new.
 */
export function clientSchema(server: Server): string {
  const pool = schemaPool(server);
  const schema = pool.acquireIdle();
  if (schema === null) return ownSchema(server);
  onTestFinished(() => pool.release(schema));
  return schema;
}

/** Migrates a schema before the tests of the file, for `clientSchema`. */
export function prepareSchema(server: Server): void {
  beforeAll(async () => {
    const pool = schemaPool(server);
    await pool.release(await pool.acquire());
  }, 60_000);
}

/** The name of a schema that does not exist yet. It is dropped after the test. */
export function ownSchema(server: Server): string {
  const schema = server.newSchema();
  onTestFinished(async () => void (await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)));
  return schema;
}

export function addressOf(url: string, schema: string): string {
  return `${url}?schema=${schema}`;
}

/** A client that is closed when the test is over. */
export async function openClient(store: string | Store, ...jobs: JobType[]): Promise<Holdfast> {
  const hf = await holdfast({ store, jobs, logger: false });
  onTestFinished(() => hf.close());
  return hf;
}

export type RunSql = <Row extends object = Record<string, unknown>>(text: string, values?: unknown[]) => Promise<Row[]>;

/** A store on a schema of its own, and SQL beside it. */
export interface Scene extends Opened {
  /** Runs SQL, in which `$s` stands for the schema; gives rows as objects. */
  sql: RunSql;
  /** A session of its own, closed after the test. */
  session: () => Promise<{ sql: RunSql; client: pg.Client }>;
}

export async function openScene(server: Server, options: OpenOptions = {}): Promise<Scene> {
  const { schema, address, store } = await openStore(server, options);
  const on =
    (query: (text: string, values: unknown[]) => Promise<pg.QueryResult>): RunSql =>
    async <Row extends object>(text: string, values: unknown[] = []) =>
      (await query(text.replaceAll("$s", schema), values)).rows as Row[];
  return {
    schema,
    address,
    store,
    sql: on((text, values) => server.query(text, values)),
    async session() {
      const client = await server.client();
      onTestFinished(() => client.end());
      return { client, sql: on((text, values) => client.query(text, values)) };
    },
  };
}

/** Jobs written at once, all due. The lane must be there: insert a plain job first. */
export async function fill(server: Server, schema: string, count: number, type = "mail"): Promise<void> {
  await server.query(
    `INSERT INTO ${schema}.live (id, type, queue, priority, state, input, input_bytes, attempt, max_attempts, losses, releases,
       fence, run_at, created_at, updated_at, due_at)
     SELECT gen_random_uuid(), $2, 'default', 0, 'pending', '{}', 2, 0, 4, 0, 0, 0, 1, 1, 1, 1 FROM generate_series(1, $1::integer)`,
    [count, type],
  );
}
