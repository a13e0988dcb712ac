import { InvalidOptionError } from "../errors.js";
import { show } from "../options.js";
import { postgresDatabase } from "./postgres-database.js";
import type { Database, DatabaseOptions, PostgresPool, SqliteDatabase } from "./sql.js";
import { sqliteDatabase } from "./sqlite-database.js";

/**
 * The user's database: a database of better-sqlite3, or a pool of `pg`. A transaction that also enqueues or completes jobs must be on
 * the database that holds the jobs.
 *
 * ```ts
 * const db = database(new pg.Pool());
 * const [order] = await db.query(`SELECT * FROM ${db.table("orders")} WHERE id = ?`, [id]);
 * ```
 */
export function database(given: SqliteDatabase | PostgresPool, { schema = "public" }: DatabaseOptions = {}): Database {
  if (isSqlite(given)) return sqliteDatabase(given);
  if (isPool(given)) return postgresDatabase(given, schema);
  throw new InvalidOptionError("db", `${show(given)} is neither a better-sqlite3 database nor a pool of pg`);
}

function isSqlite(given: unknown): given is SqliteDatabase {
  return hasFunctions(given, ["prepare", "transaction", "exec"]);
}

function isPool(given: unknown): given is PostgresPool {
  return hasFunctions(given, ["query", "connect"]);
}

function hasFunctions(given: unknown, names: readonly string[]): boolean {
  return (
    typeof given === "object" &&
    given !== null &&
    names.every((name) => typeof (given as Record<string, unknown>)[name] === "function")
  );
}
