import { statSync } from "node:fs";
import { createRequire } from "node:module";
import type { Database, Options } from "better-sqlite3";
import { DriverMissing, StoreUnreadable } from "../../errors.js";
import type { Durability } from "./durability.js";

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
    // Lets retention give pages back in small steps. On a file that is not new it would only take the write lock.
    if (db.pragma("page_count", { simple: true }) === 0) db.pragma("auto_vacuum = INCREMENTAL");
    turnToWal(db, options.busyMs);
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
    throw DriverMissing.notInstalled("better-sqlite3", error);
  }
}

/** A new file must be alone for a moment to turn to WAL, and SQLite does not wait for that by itself. */
function turnToWal(db: Database, busyMs: number): void {
  const deadline = performance.now() + busyMs;
  for (;;) {
    try {
      db.pragma("journal_mode = WAL");
      return;
    } catch (error) {
      if ((error as { code?: unknown }).code !== "SQLITE_BUSY" || performance.now() >= deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

function unreadable(file: string, error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  const code = String((error as { code?: unknown }).code);
  if (/bindings file|NODE_MODULE_VERSION|ERR_DLOPEN/.test(`${message} ${code}`)) {
    const [reason = message] = message.split("\n");
    return new DriverMissing(
      `better-sqlite3 is installed, but its native part cannot be loaded (${reason.slice(0, 120)}); ` +
        "run: npm rebuild better-sqlite3, and allow its install script",
      error,
    );
  }
  // A full disk or a lock says nothing against the file: another try may do.
  if (/^SQLITE_(FULL|BUSY|LOCKED|IOERR|PROTOCOL|NOMEM)/.test(code)) return error as Error;
  if (code === "SQLITE_NOTADB" || code === "SQLITE_CORRUPT") {
    return new StoreUnreadable(
      `${file} is not a SQLite database, or is damaged; name another file, or put a backup in its place`,
      error,
    );
  }
  if (isFolder(file)) {
    return new StoreUnreadable(`${file} is a folder; name a file in it`, error);
  }
  return new StoreUnreadable(
    `${file} cannot be opened as a SQLite database: ${message}; check the path and its permissions`,
    error,
  );
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
