import { createRequire } from "node:module";
import type { Database, Options } from "better-sqlite3";
import { DriverMissing, StoreUnreadable } from "../../errors.js";

export type Durability = "full" | "normal";

export interface ConnectionOptions {
  file: string;
  durability: Durability;
  /** How long to wait for another process's write lock. */
  busyMs: number;
}

// About 64 MB: large enough never to matter in use, small enough that a forgotten reader does not fill the disk.
const WAL_BYTES = 64 * 1024 * 1024;

type Driver = new (file: string, options?: Options) => Database;

/** Opens the file (or `:memory:`) and sets what every connection of ours needs. */
export function connect(options: ConnectionOptions): Database {
  const Driver = loadDriver();
  let db: Database | undefined;
  try {
    db = new Driver(options.file, { timeout: options.busyMs });
    // Only takes effect on a new file; there it lets retention give pages back in small steps.
    db.pragma("auto_vacuum = INCREMENTAL");
    db.pragma("journal_mode = WAL");
    db.pragma(`synchronous = ${options.durability === "full" ? "FULL" : "NORMAL"}`);
    db.pragma(`journal_size_limit = ${WAL_BYTES}`);
    db.pragma("wal_autocheckpoint = 4000");
    db.pragma("cache_size = -32000");
    return db;
  } catch (error) {
    db?.close();
    throw unreadable(options.file, error);
  }
}

function loadDriver(): Driver {
  try {
    return createRequire(import.meta.url)("better-sqlite3") as Driver;
  } catch (error) {
    throw new DriverMissing("better-sqlite3", error);
  }
}

function unreadable(file: string, error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  const code = (error as { code?: unknown }).code;
  if (/bindings file|NODE_MODULE_VERSION|ERR_DLOPEN/.test(`${message} ${String(code)}`)) {
    return new DriverMissing("better-sqlite3", error);
  }
  if (code === "SQLITE_NOTADB" || code === "SQLITE_CORRUPT") {
    return new StoreUnreadable(`${file} is not a SQLite database, or is damaged`, error);
  }
  return new StoreUnreadable(`${file} cannot be opened as a SQLite database: ${message}`, error);
}
