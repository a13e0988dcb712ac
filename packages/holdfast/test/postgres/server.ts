import { randomBytes } from "node:crypto";
import pg from "pg";
import { afterAll, beforeAll, inject } from "vitest";
import { requestAddress } from "../shared-server.js";
import { startPostgres, type StartedPostgres } from "./start.js";

/** A PostgreSQL database for the tests of one file. */
export interface Server {
  /** Address of the database. */
  url(): string;
  /** A name that no other test has used. */
  newSchema(): string;
  /** Runs SQL next to the store, as an operator would. */
  query(text: string, values?: unknown[]): Promise<pg.QueryResult>;
  client(): Promise<pg.Client>;
  /** A pool as an application would have it. The caller ends it. */
  pool(options?: pg.PoolConfig): pg.Pool;
  /** Ends the server as a crash would, all connections with it, and starts it again on the same data. Needs `own`. */
  crash(): Promise<void>;
}

interface ServerOptions {
  own?: boolean;
  durable?: boolean;
}

/** Why tests that crash the server are skipped; null if they run. */
export const NOT_OURS: string | null =
  process.env["DATABASE_URL"] === undefined ? null : "DATABASE_URL names a server that tests must not crash";

/**
 * A database on the PostgreSQL server that all files of a run share, dropped after the tests of the file. With
 * `DATABASE_URL` the tests use that database instead.
 *
 * Databases share roles, settings, transaction ids and the list of connections. `own` is for tests that depend on those: it
 * starts a server for this file alone. `durable` does the same, on a server that waits for its disk.
 */
export function postgresServer({ durable = false, own = durable }: ServerOptions = {}): Server {
  let url = process.env["DATABASE_URL"] ?? "";
  let started: StartedPostgres | null = null;
  let sharedUrl: string | null = null;
  let schemas = 0;
  const name = `t_${randomBytes(4).toString("hex")}`;

  beforeAll(async () => {
    if (url !== "") return;
    const shared = own ? undefined : inject("sharedPostgres");
    if (shared === undefined) {
      started = await startPostgres({ durable });
      url = started.url;
      return;
    }
    sharedUrl = await requestAddress(shared);
    await queryOnce(sharedUrl, `CREATE DATABASE ${name}`);
    url = Object.assign(new URL(sharedUrl), { pathname: `/${name}` }).href;
  }, 60_000);
  afterAll(async () => {
    await started?.stop();
    if (sharedUrl !== null) await queryOnce(sharedUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    if (NOT_OURS !== null) await dropSchemas(url, name);
  }, 60_000);

  return {
    url: () => url,
    newSchema: () => `${name}_${++schemas}`,
    client: () => connect(url),
    pool(options = {}) {
      const made = new pg.Pool({ connectionString: url, ...options });
      // Connections that are cut when the server stops are no test's concern.
      made.on("error", () => {});
      return made;
    },
    crash: () =>
      started?.crash() ?? Promise.reject(new Error(NOT_OURS ?? "only a server of the file itself can crash")),
    query: (text, values = []) => queryOnce(url, text, values),
  };
}

/** Drops the schemas of a file in the database of `DATABASE_URL`, which stays. */
async function dropSchemas(url: string, prefix: string): Promise<void> {
  const { rows } = await queryOnce(url, "SELECT nspname AS name FROM pg_namespace WHERE starts_with(nspname, $1)", [
    prefix,
  ]);
  for (const { name } of rows as { name: string }[]) await queryOnce(url, `DROP SCHEMA IF EXISTS ${name} CASCADE`);
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  return client;
}

async function queryOnce(url: string, text: string, values: unknown[] = []): Promise<pg.QueryResult> {
  const client = await connect(url);
  try {
    return await client.query(text, values);
  } finally {
    await client.end();
  }
}
