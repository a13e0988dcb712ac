import { existsSync, statSync } from "node:fs";
import type { Database } from "better-sqlite3";
import { StoreMovedError } from "../../../errors.js";
import { exclusivePragma } from "./exclusive-pragma.js";

/** Identifies a file independently of its name. While a file is open, no other file has the same identity. */
interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/** The file of a connection when it was opened. Can cross between threads. */
export interface OpenFile {
  /** The path as given, and as SQLite resolved it: symbolic links in it may change. */
  readonly paths: readonly string[];
  readonly identity: FileIdentity | null;
}

/** Whether its paths still lead to the file. */
export function isInPlace({ paths, identity }: OpenFile): boolean {
  return paths.every((path) => isSame(identityOf(path), identity));
}

/**
 * The file that a path leads to, through symbolic links; null if there is none. By `stat`, without opening it: closing a
 * second descriptor would drop the POSIX locks that SQLite holds on the file for this process.
 */
function identityOf(path: string): FileIdentity | null {
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? null;
  } catch {
    // A file that may not be read would not be found after a restart either.
    return null;
  }
}

function isSame(a: FileIdentity | null, b: FileIdentity | null): boolean {
  return a !== null && b !== null && a.ino === b.ino && a.dev === b.dev;
}

export function movedFile(file: string): StoreMovedError {
  return new StoreMovedError(
    `${file} was renamed, deleted or replaced while this process had it open; new writes would be lost. ` +
      "Move the original file back. Or, to use the file that now has this name, stop every process that uses it, delete the " +
      "-wal and -shm files next to it, and start again",
  );
}

/** The path as SQLite opened it, with symbolic links resolved: the write-ahead log is next to that file. */
export function realPathOf(db: Database): string {
  const [main] = db.pragma("database_list") as { file: string }[];
  return main?.file ?? db.name;
}

// How long a check of the log is trusted. After a `stat`, Linux updates the file's timestamps at the next write, which costs
// that write 50 microseconds.
const TRUSTED_MS = 100;

/**
 * Notices that the files of an open connection were renamed, deleted or replaced. SQLite never checks that in WAL mode: writes
 * succeed, callers receive ids, and the jobs are gone after the next restart. The check costs a single enqueue 5 %, and one in
 * a busy process nothing (docs/decisions/0010).
 */
export class FileGuard {
  readonly file: OpenFile;
  readonly #db: Database;
  readonly #walPath: string;
  /** Null if the file is not in WAL mode. */
  #wal: FileIdentity | null;
  /** Changes when another connection writes. */
  #version: number;
  #isMoved = false;
  #checkedAt = performance.now();

  /** Null where it is not needed: Windows does not let an open file be renamed or deleted. */
  static of(db: Database): FileGuard | null {
    return db.memory || process.platform === "win32" ? null : new FileGuard(db);
  }

  private constructor(db: Database) {
    const real = realPathOf(db);
    const identity = identityOf(real);
    this.#db = db;
    this.file = {
      paths: db.name === real ? [real] : [db.name, real],
      identity: identity && { dev: identity.dev, ino: identity.ino },
    };
    this.#walPath = `${real}-wal`;
    this.#wal = this.#openLog();
    this.#version = this.#dataVersion();
  }

  /** Throws StoreMovedError if the files are not in place. Trusts the last check for a moment. */
  check(): void {
    const isTrusted = !this.#isMoved && performance.now() - this.#checkedAt <= TRUSTED_MS;
    if (!isTrusted && !this.#areFilesInPlace()) throw this.#problem();
  }

  /** The same, but trusts no earlier check, and tries a repair first. Not inside a transaction. */
  verify(): void {
    if (!this.repair()) throw this.#problem();
  }

  /** Checks the files and repairs what it can. Returns whether they are in place. Not inside a transaction. */
  repair(): boolean {
    const isFirstNotice = !this.#isMoved;
    if (this.#areFilesInPlace()) return true;
    this.#isMoved = true;
    if (isInPlace(this.file)) return this.#renewLog(isFirstNotice);
    // If another file gets this name, SQLite would apply this log to it, so the log is checkpointed and emptied. Not if another
    // process has written to the log since: then it belongs to that file.
    if (isFirstNotice && (!existsSync(this.#db.name) || this.#dataVersion() === this.#version)) this.#checkpointLog();
    return false;
  }

  #areFilesInPlace(): boolean {
    const isLogInPlace = this.#wal === null || isSame(identityOf(this.#walPath), this.#wal);
    if (!isLogInPlace || !isInPlace(this.file)) return false;
    this.#isMoved = false;
    this.#version = this.#dataVersion();
    this.#checkedAt = performance.now();
    return true;
  }

  #problem(): StoreMovedError {
    if (!isInPlace(this.file)) return movedFile(this.#db.name);
    return new StoreMovedError(
      `${this.#walPath} was deleted or replaced while several connections had ${this.#db.name} open; new writes ` +
        "would be lost. Stop every process that uses it, then start them again",
    );
  }

  #dataVersion(): number {
    return this.#db.pragma("data_version", { simple: true }) as number;
  }

  /** SQLite opens the log at the first read. */
  #openLog(): FileIdentity | null {
    this.#db.pragma("schema_version");
    return identityOf(this.#walPath);
  }

  /**
   * The log was deleted or replaced. If this is the only connection, it writes the whole log into the file and starts a new
   * one: nothing is lost. With other connections, each would continue with a different log.
   */
  #renewLog(isFirstNotice: boolean): boolean {
    try {
      for (const mode of ["delete", "wal"]) exclusivePragma(this.#db, `journal_mode = ${mode}`);
      this.#wal = this.#openLog();
      return this.#areFilesInPlace();
    } catch {
      if (isFirstNotice) this.#checkpointLog();
      return false;
    }
  }

  /** Writes acknowledged data into the file itself, wherever it was moved: the log did not move with it. */
  #checkpointLog(): void {
    try {
      exclusivePragma(this.#db, "wal_checkpoint(TRUNCATE)");
    } catch {
      // Another process is reading, or the disk is full: the log stays.
    }
  }
}
