import { existsSync } from "node:fs";
import { hideSecret, showPath, toHoldfastOptions, type Config } from "../../config/index.js";
import { storeKindOf } from "../../store-address.js";
import type { PendingMigration, Store } from "../../store.js";
import { readSqliteFile } from "../../stores/sqlite/file-path.js";
import { CommandError } from "../errors.js";
import type { Context } from "../parse/command.js";
import { connectionFlags, describeStoreSource } from "./open.js";

/** The migrations that the store still needs, without those that it works without. Changes nothing. */
export async function pendingMigrationsOf(store: Store): Promise<PendingMigration[]> {
  return ((await store.pendingMigrations?.()) ?? []).filter(({ optional }) => optional !== true);
}

/** Why a store cannot be read. */
export interface SchemaProblem {
  code: "NO_DATABASE" | "NO_TABLES" | "MIGRATIONS_PENDING";
  message: string;
  hint: string;
}

/**
 * For commands that read or change existing data. They neither create a store nor migrate it: in the wrong folder they
 * would create an empty file, and a newer version of the command would migrate a database that older workers use.
 */
export async function requireCurrentSchema({ config }: Context, store: Store): Promise<void> {
  if (sqliteFileOf(config) === MEMORY) return;
  const problem = schemaProblemOf(config, await pendingMigrationsOf(store));
  if (problem !== null) throw new CommandError(problem.message, problem);
}

/** What is missing: the database, all tables, or some migrations. Null if the schema is up to date. */
export function schemaProblemOf(config: Config, pending: readonly PendingMigration[]): SchemaProblem | null {
  if (pending.length === 0) return null;
  const migrate = `holdfast migrate${connectionFlags(config)}`;
  const sqliteFile = sqliteFileOf(config);
  const file = sqliteFile === MEMORY ? null : sqliteFile;
  if (file !== null && !existsSync(file)) {
    return {
      code: "NO_DATABASE",
      message: `the database ${showPath(file, config.cwd)} does not exist`,
      hint: `${describeStoreSource(config)}; to create it, run: ${migrate}`,
    };
  }
  if (!pending.some(({ createsTables }) => createsTables)) {
    return {
      code: "MIGRATIONS_PENDING",
      message: `the schema is out of date; pending migrations: ${pending.map(({ title }) => title).join(", ")}`,
      hint: `run: ${migrate}`,
    };
  }
  const where = file === null ? hideSecret(config.values.store) : showPath(file, config.cwd);
  // The newest rows, or all of them, may still be in the -wal file next to the database.
  const copy =
    "if this is a copy of a database in use, its -wal file is missing: copy with VACUUM INTO or .backup of sqlite3; ";
  return {
    code: "NO_TABLES",
    message: `no Holdfast tables in ${where}`,
    hint: `${describeStoreSource(config)}; ${file === null ? "" : copy}to create the tables, run: ${migrate}`,
  };
}

const MEMORY = ":memory:";

/** The file of a SQLite store; null for another store. */
function sqliteFileOf(config: Config): string | null {
  const { store } = toHoldfastOptions(config);
  return storeKindOf(store) === "sqlite" ? readSqliteFile(store.slice("sqlite:".length)) : null;
}
