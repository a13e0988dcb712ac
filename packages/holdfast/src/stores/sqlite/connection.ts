import { mkdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname } from "node:path";
import type { Database, Options } from "better-sqlite3";
import { DriverMissing, HoldfastError, StoreUnreadable } from "../../errors.js";
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
  if (options.file !== ":memory:") makeFolderOf(options.file);
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

/**
 * Looks at a file without making or changing it; null is handed over where there is none. Not opened read-only: that would
 * leave the files of the write-ahead log behind.
 */
export function lookInto<Answer>({ file, busyMs }: ConnectionOptions, look: (db: Database | null) => Answer): Answer {
  const Driver = loadDriver();
  let db: Database | undefined;
  try {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) return look(null);
    db = new Driver(file, { fileMustExist: true, timeout: busyMs });
    db.pragma("query_only = ON");
    return look(db);
  } catch (error) {
    throw error instanceof HoldfastError ? error : unreadable(file, error);
  } finally {
    db?.close();
  }
}

function makeFolderOf(file: string): void {
  const folder = dirname(file);
  try {
    makeFolder(folder);
  } catch (error) {
    throw new StoreUnreadable(`the folder ${folder} cannot be made: ${(error as Error).message}`, error);
  }
}

/** Step by step: where a folder cannot be made, as below /proc, Node's recursive mkdir tries again for ever. */
function makeFolder(folder: string): void {
  const there = statSync(folder, { throwIfNoEntry: false });
  if (there?.isDirectory()) return;
  if (there !== undefined) throw new Error("there is a file of that name");
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process may have been quicker.
    if ((error as { code?: unknown }).code !== "EEXIST") throw error;
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
