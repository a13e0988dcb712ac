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
  /** The file is used as it is: none is made, and one that is read-only can be read. */
  mustExist: boolean;
  /** The file that was opened first: any later connection must be to the same. */
  known?: OpenFile | null;
}

// A little more than the log has when it is folded by itself: what a forgotten reader made of it is given back with the next write.
const WAL_BYTES = 20 * 1024 * 1024;

/** Opens the file (or `:memory:`) and sets what every connection of ours needs. */
export function connect(options: ConnectionOptions): Database {
  const Driver = loadDriver();
  const { file, busyMs, mustExist, known = null } = options;
  let db: Database | undefined;
  if (known !== null && !isInPlace(known)) throw movedFile(file);
  const fileMustExist = known !== null || mustExist;
  if (fileMustExist && !existsSync(file)) throw new StoreUnreadableError(`there is no file ${file}; check the path`);
  if (file !== ":memory:" && !fileMustExist) makeFolderOf(file);
  // Before it is opened: SQLite would make a log beside it that is read-only too, and stays so.
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
    // Of what is not there, or cannot be reached, opening it says more.
    if (existsSync(file)) throw readOnly(file, error);
  }
}

/**
 * A user who may read but not write the file would make a log beside it that only this user can write: nobody could use the
 * database from then on, not even its owner.
 */
function refuseForeignLog(file: string): void {
  const us = process.getuid?.();
  if (us === undefined || statSync(file).uid === us || mayWrite(file)) return;
  const real = realpathSync(file);
  if (["-wal", "-shm"].every((end) => existsSync(real + end)) || !mayWrite(dirname(real))) return;
  throw new StoreReadOnlyError(
    `${file} belongs to another user, and no process has it open: SQLite would leave a write-ahead log beside it that its owner ` +
      "cannot write; read it as its owner, through a running server (--url), or with write access to the file",
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

/** Makes the file one that can be worked on, or throws where it cannot be written. */
function prepareFile(db: Database, busyMs: number): void {
  // Lets retention give pages back in small steps. On a file that is not new it would only take the write lock.
  if (db.pragma("page_count", { simple: true }) === 0) db.pragma("auto_vacuum = INCREMENTAL");
  turnToWal(db, busyMs);
  tryToWrite(db, busyMs);
}

/** A read-only log is opened without a word, and refuses the first write. Here that is one that changes nothing. */
function tryToWrite(db: Database, busyMs: number): void {
  const version = db.pragma("user_version", { simple: true }) as number;
  db.pragma("busy_timeout = 0");
  try {
    db.exec(`BEGIN; PRAGMA user_version = ${version}`);
  } catch (error) {
    // Whoever has to wait for another writer may write.
    if (!isBusy(error)) throw error;
  } finally {
    if (db.inTransaction) db.exec("ROLLBACK");
    db.pragma(`busy_timeout = ${busyMs}`);
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
    refuseForeignLog(file);
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
    throw new StoreUnreadableError(`the folder ${folder} cannot be made: ${(error as Error).message}`, error);
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

/** A new file must be alone for a moment to turn to WAL, and SQLite does not wait for that by itself. */
function turnToWal(db: Database, busyMs: number): void {
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
    // The sentences after the first list every path that was tried.
    const [reason = message] = message.replaceAll(/\s+/g, " ").split(/\.(?: |$)/);
    return new DriverMissingError(
      `better-sqlite3 is installed, but its native part cannot be loaded (${reason.slice(0, 200)}); ` +
        "allow its install script, from npm 11 on with: npm install-scripts approve better-sqlite3; " +
        "then run: npm rebuild better-sqlite3",
      error,
    );
  }
  // A full disk or a lock says nothing against the file: another try may do.
  if (/^SQLITE_(FULL|BUSY|LOCKED|IOERR|PROTOCOL|NOMEM)/.test(code)) return error as Error;
  if (code.startsWith("SQLITE_READONLY")) return readOnly(file, error);
  if (code === "SQLITE_NOTADB" || code === "SQLITE_CORRUPT") {
    return new StoreUnreadableError(
      `${file} is not a SQLite database, or is damaged; name another file, or put a backup in its place`,
      error,
    );
  }
  if (isFolder(file)) {
    return new StoreUnreadableError(`${file} is a folder; name a file in it`, error);
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
