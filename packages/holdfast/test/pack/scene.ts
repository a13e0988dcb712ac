import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { postgres } from "holdfast/postgres";
import type pg from "pg";
import { afterAll, beforeAll, describe, onTestFinished } from "vitest";
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

/** Runs the same tests on SQLite and on PostgreSQL. `open` creates a database for one test, and closes it after the test. */
export function describeDatabases(tests: (open: () => Promise<PackDatabase>) => void): void {
  describe("on SQLite", () => {
    tests(openSqlite);
  });
  describe("on PostgreSQL", () => {
    const server = postgresServer();
    const template = `pack_${randomBytes(4).toString("hex")}`;
    beforeAll(() => migrateTemplate(server, template), 30_000);
    afterAll(async () => void (await server.query(`DROP DATABASE IF EXISTS ${template} WITH (FORCE)`)));
    tests(() => openPostgres(server, template));
  });
}

async function openSqlite(): Promise<PackDatabase> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-pack-test-"));
  const file = join(folder, "app.db");
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

const addressOf = (server: Server, database: string): string =>
  Object.assign(new URL(server.url()), { pathname: `/${database}` }).href;

/** Creates a database with the tables for jobs, to be copied: that takes a tenth of the time that migrating takes. */
async function migrateTemplate(server: Server, name: string): Promise<void> {
  await server.query(`CREATE DATABASE ${name}`);
  const store = postgres(addressOf(server, name));
  await store.migrate();
  await store.close();
}

async function openPostgres(server: Server, template: string): Promise<PackDatabase> {
  const name = `pack_${randomBytes(4).toString("hex")}`;
  await server.query(`CREATE DATABASE ${name} TEMPLATE ${template}`);
  const url = addressOf(server, name);
  const pool = server.pool({ connectionString: url });
  onTestFinished(async () => {
    await pool.end();
    await server.query(`DROP DATABASE ${name} WITH (FORCE)`);
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
