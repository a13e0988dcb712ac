import { randomBytes } from "node:crypto";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { postgres } from "holdfast/postgres";
import type pg from "pg";
import { afterAll, beforeAll, describe, onTestFinished } from "vitest";
import { openStore } from "#src/engine/open-store.js";
import { schemaPool } from "../postgres/schema-pool.js";
import { postgresServer, type Server } from "../postgres/server.js";

/** A database that holds both jobs and the tables of a pack; without rows. */
export interface PackDatabase {
  /** For `holdfast({ store })`. A client closes the store that it was given, so each call returns a new one. */
  store(): ReturnType<typeof postgres> | string;
  /** What a user passes to a pack. */
  db: Sqlite.Database | pg.Pool;
  dialect: "sqlite" | "postgres";
  /** Runs SQL with `?` for values, and returns the rows. */
  query(sql: string, ...values: unknown[]): Promise<Record<string, unknown>[]>;
}

type Open = () => Promise<PackDatabase>;
type Dialect = PackDatabase["dialect"];

/** Runs tests on SQLite and on PostgreSQL, or on one of them. `open` returns an empty database, and closes it after the test. */
export function describeDatabases(tests: (open: Open) => void, on: readonly Dialect[] = ["sqlite", "postgres"]): void {
  for (const dialect of on) SUITES[dialect](tests);
}

const SUITES: Readonly<Record<Dialect, (tests: (open: Open) => void) => void>> = {
  sqlite: (tests) =>
    describe("on SQLite", () => {
      const folder = mkdtempSync(join(tmpdir(), "holdfast-pack-test-"));
      const migrated = join(folder, "migrated.db");
      beforeAll(() => migrateFile(migrated));
      afterAll(() => rmSync(folder, { recursive: true, force: true }));
      tests(() => openSqlite(migrated));
    }),
  postgres: (tests) =>
    describe("on PostgreSQL", () => {
      const database = reusedDatabase(postgresServer());
      tests(() => openPostgres(database));
    }),
};

async function migrateFile(file: string): Promise<void> {
  const store = await openStore(`sqlite:${file}`);
  await store.migrate();
  await store.close();
}

async function openSqlite(migrated: string): Promise<PackDatabase> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-pack-test-"));
  const file = join(folder, "app.db");
  copyFileSync(migrated, file);
  const db = new Sqlite(file);
  db.pragma("journal_mode = WAL");
  onTestFinished(() => {
    db.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return {
    dialect: "sqlite",
    db,
    store: () => `sqlite:${file}`,
    async query(sql, ...values) {
      const statement = db.prepare<unknown[], Record<string, unknown>>(sql);
      if (statement.reader) return statement.all(...values);
      statement.run(...values);
      return [];
    },
  };
}

interface ReusedDatabase {
  pool(): pg.Pool;
  /** Empties the schema of Holdfast, or creates it if a test changed its structure. */
  prepare(): Promise<void>;
  /** Drops what a test created. */
  clear(): Promise<void>;
}

/** A database for the tests of one file: to empty it takes less time than to create one for each test. */
function reusedDatabase(server: Server): ReusedDatabase {
  const name = `pack_${randomBytes(4).toString("hex")}`;
  const url = (): string => Object.assign(new URL(server.url()), { pathname: `/${name}` }).href;
  let admin: pg.Pool;
  beforeAll(async () => {
    await server.query(`CREATE DATABASE ${name}`);
    admin = server.pool({ connectionString: url(), max: 1 });
  });
  afterAll(async () => {
    await admin.end();
    await server.query(`DROP DATABASE ${name} WITH (FORCE)`);
  });
  const schemas = schemaPool({ url, newSchema: () => SCHEMA, query: (text, values) => admin.query(text, values) });
  return {
    pool: () => server.pool({ connectionString: url() }),
    prepare: async () => void (await schemas.acquire()),
    async clear() {
      await admin.query(CLEAR);
      await schemas.release(SCHEMA);
    },
  };
}

const SCHEMA = "holdfast";

/** Ends the sessions that a killed process left open, and drops every schema but that of Holdfast. */
const CLEAR = `
  SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
  DO $$
  DECLARE name text;
  BEGIN
    FOR name IN
      SELECT nspname FROM pg_namespace
      WHERE nspname <> '${SCHEMA}' AND nspname !~ '^pg_' AND nspname <> 'information_schema'
    LOOP
      EXECUTE format('DROP SCHEMA %I CASCADE', name);
    END LOOP;
  END $$;
  CREATE SCHEMA public;
  GRANT USAGE ON SCHEMA public TO PUBLIC;`;

async function openPostgres(database: ReusedDatabase): Promise<PackDatabase> {
  await database.prepare();
  const pool = database.pool();
  onTestFinished(async () => {
    await pool.end();
    await database.clear();
  });
  return {
    dialect: "postgres",
    db: pool,
    store: () => postgres({ pool }),
    async query(sql, ...values) {
      let n = 0;
      const { rows } = await pool.query<Record<string, unknown>>(
        sql.replaceAll("?", () => `$${++n}`),
        values,
      );
      return rows;
    },
  };
}
