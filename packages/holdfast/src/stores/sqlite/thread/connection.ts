import { accessSync, constants, existsSync, mkdirSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { Database } from "better-sqlite3";
import { DriverMissingError, HoldfastError, StoreReadOnlyError, StoreUnreadableError } from "../../../errors.js";
import { readOnly } from "./errors.js";
import { loadDriver } from "./driver.js";
import type { Durability } from "../durability.js";
import { isInPlace, movedFile, type OpenFile } from "./file-guard.js";

export interface ConnectionOptions {
  file: string;
  durability: Durability;
  /** How long to wait for another process's write lock. */
  busyMs: number;
  /** Do not create the file, and open a read-only file for reading. */
  mustExist: boolean;
  /** The file that was opened first. Later connections must open the same file. */
  expectedFile?: OpenFile | null;
}

// A little more than the log has at an automatic checkpoint. If a long-running reader made it grow, the next write shrinks it.
const WAL_BYTES = 20 * 1024 * 1024;

/** Opens the file (or `:memory:`) and sets the pragmas of every connection. */
export function connect(options: ConnectionOptions): Database {
  const Driver = loadDriver();
  const { file, busyMs, mustExist, expectedFile = null } = options;
  let db: Database | undefined;
  if (expectedFile !== null && !isInPlace(expectedFile)) throw movedFile(file);
  const fileMustExist = expectedFile !== null || mustExist;
  if (fileMustExist && !existsSync(file)) throw new StoreUnreadableError(`file ${file} does not exist; check the path`);
  if (file !== ":memory:" && !fileMustExist) createFolderOf(file);
  // Before opening: SQLite would create a log with the same permissions, and it would stay read-only.
  if (mustExist) refuseForeignLog(file);
  else refuseReadOnly(file);
  try {
    db = new Driver(file, { timeout: busyMs, fileMustExist });
    if (!mustExist) prepareFile(db, busyMs);
    db.pragma(`synchronous = ${options.durability === "full" ? "FULL" : "NORMAL"}`);
    db.pragma(`journal_size_limit = ${WAL_BYTES}`);
    db.pragma("wal_autocheckpoint = 4000");
    db.pragma("cache_size = -32000");
    return db;
  } catch (error) {
    db?.close();
    throw unreadable(file, error);
  }
}

function refuseReadOnly(file: string): void {
  try {
    accessSync(file, constants.W_OK);
  } catch (error) {
    // If the file does not exist or cannot be reached, opening it gives a better error.
    if (existsSync(file)) throw readOnly(file, error);
  }
}

/**
 * A user who may read but not write the file would create a log next to it that only this user can write. From then on no
 * one could use the database, not even its owner.
 */
function refuseForeignLog(file: string): void {
  const uid = process.getuid?.();
  if (uid === undefined || statSync(file).uid === uid || mayWrite(file)) return;
  const real = realpathSync(file);
  if (["-wal", "-shm"].every((end) => existsSync(real + end)) || !mayWrite(dirname(real))) return;
  throw new StoreReadOnlyError(
    `${file} belongs to another user, and no process has it open: SQLite would create a write-ahead log next to it that its ` +
      "owner cannot write; read it as its owner, through a running server (--url), or with write access to the file",
    null,
  );
}

function mayWrite(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Switches the file to WAL mode. Throws if it cannot be written. */
function prepareFile(db: Database, busyMs: number): void {
  // Lets retention return pages in small steps. It only works on a new file; on others it would just take the write lock.
  if (db.pragma("page_count", { simple: true }) === 0) db.pragma("auto_vacuum = INCREMENTAL");
  switchToWal(db, busyMs);
  checkWritable(db, busyMs);
}

/** SQLite opens a read-only log without an error and fails at the first write. So this tries a write that changes nothing. */
function checkWritable(db: Database, busyMs: number): void {
  const version = db.pragma("user_version", { simple: true }) as number;
  db.pragma("busy_timeout = 0");
  try {
    db.exec(`BEGIN; PRAGMA user_version = ${version}`);
  } catch (error) {
    // Another process is writing, so the file is writable.
    if (!isBusy(error)) throw error;
  } finally {
    if (db.inTransaction) db.exec("ROLLBACK");
    db.pragma(`busy_timeout = ${busyMs}`);
  }
}

/**
 * Inspects a file without creating or changing it. `inspect` receives null if the file does not exist. It is not opened
 * read-only: that would leave the files of the write-ahead log behind.
 */
export function inspectFile<Result>(
  { file, busyMs }: ConnectionOptions,
  inspect: (db: Database | null) => Result,
): Result {
  const Driver = loadDriver();
  let db: Database | undefined;
  try {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) return inspect(null);
    refuseForeignLog(file);
    db = new Driver(file, { fileMustExist: true, timeout: busyMs });
    db.pragma("query_only = ON");
    return inspect(db);
  } catch (error) {
    throw error instanceof HoldfastError ? error : unreadable(file, error);
  } finally {
    db?.close();
  }
}

function createFolderOf(file: string): void {
  const folder = dirname(file);
  try {
    createFolder(folder);
  } catch (error) {
    throw new StoreUnreadableError(`cannot create the folder ${folder}: ${(error as Error).message}`, error);
  }
}

/** One level at a time: where a folder cannot be created, as below /proc, Node's recursive mkdir retries forever. */
function createFolder(folder: string): void {
  const found = statSync(folder, { throwIfNoEntry: false });
  if (found?.isDirectory()) return;
  if (found !== undefined) throw new Error("a file with that name exists");
  createFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    // Another process may have created it meanwhile.
    if ((error as { code?: unknown }).code !== "EEXIST") throw error;
  }
}

/** Switching to WAL needs the file exclusively, and SQLite ignores the busy timeout there. So this retries. */
function switchToWal(db: Database, busyMs: number): void {
  const deadline = performance.now() + busyMs;
  for (;;) {
    try {
      db.pragma("journal_mode = WAL");
      return;
    } catch (error) {
      if (!isBusy(error) || performance.now() >= deadline) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

function isBusy(error: unknown): boolean {
  return String((error as { code?: unknown }).code).startsWith("SQLITE_BUSY");
}

function unreadable(file: string, error: unknown): Error {
  const message = error instanceof Error ? error.message : String(error);
  const code = String((error as { code?: unknown }).code);
  if (/bindings file|NODE_MODULE_VERSION|ERR_DLOPEN/.test(`${message} ${code}`)) {
    // Only the first sentence: the others list every path that was tried.
    const [reason = message] = message.replaceAll(/\s+/g, " ").split(/\.(?: |$)/);
    return new DriverMissingError(
      `better-sqlite3 is installed, but its native module cannot be loaded (${reason.slice(0, 200)}); ` +
        "allow its install script, from npm 11 on with: npm install-scripts approve better-sqlite3; " +
        "then run: npm rebuild better-sqlite3",
      error,
    );
  }
  // With a full disk or a lock, nothing is wrong with the file: a retry may succeed.
  if (/^SQLITE_(FULL|BUSY|LOCKED|IOERR|PROTOCOL|NOMEM)/.test(code)) return error as Error;
  if (code.startsWith("SQLITE_READONLY")) return readOnly(file, error);
  if (code === "SQLITE_NOTADB" || code === "SQLITE_CORRUPT") {
    return new StoreUnreadableError(
      `${file} is not a SQLite database, or is damaged; use another file, or restore a backup`,
      error,
    );
  }
  if (isFolder(file)) {
    return new StoreUnreadableError(`${file} is a folder; use a file in it`, error);
  }
  return new StoreUnreadableError(
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
