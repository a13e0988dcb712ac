import { existsSync, statSync } from "node:fs";
import type { Database } from "better-sqlite3";
import { StoreMovedError } from "../../../errors.js";
import { briefly } from "./exclusive-pragma.js";

/** What tells a file from all others, whatever its name. While a file is open no other gets the same. */
interface FileIdentity {
  readonly dev: number;
  readonly ino: number;
}

/** The file of a connection, as it was when that was opened. Can cross a thread. */
export interface OpenFile {
  /** As it was given, and as SQLite made of it: symbolic links on the way may change. */
  readonly paths: readonly string[];
  readonly identity: FileIdentity | null;
}

/** Whether the file is still found by its name. */
export function isInPlace({ paths, identity }: OpenFile): boolean {
  return paths.every((path) => isSame(identityOf(path), identity));
}

/**
 * The file that a path leads to, through symbolic links; null if there is none. By its name only: to open and close a
 * database file beside SQLite would drop the locks that this process has on it.
 */
function identityOf(path: string): FileIdentity | null {
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? null;
  } catch {
    // What may not be looked at would not be found by a restart either.
    return null;
  }
}

function isSame(a: FileIdentity | null, b: FileIdentity | null): boolean {
  return a !== null && b !== null && a.ino === b.ino && a.dev === b.dev;
}

export function movedFile(file: string): StoreMovedError {
  return new StoreMovedError(
    `${file} was renamed, deleted or replaced while this process had it open; what is written now would be lost. ` +
      "Move the original file back. Or, to use the file that is there now, stop every process that uses it, delete the " +
      "-wal and -shm files beside it, and start again",
  );
}

/** The path as SQLite opened it, with no symbolic links left: the write-ahead log stands beside that. */
export function realPathOf(db: Database): string {
  const [main] = db.pragma("database_list") as { file: string }[];
  return main?.file ?? db.name;
}

// For so long a check of the log holds. One costs the next write to it fifty microseconds: to a file whose times were asked for,
// Linux writes new ones.
const TRUSTED_MS = 100;

/**
 * Notices that the files of an open connection are no longer found by their names. SQLite does not: it would go on writing to
 * a file that nobody opens again.
 */
export class FileGuard {
  readonly file: OpenFile;
  readonly #db: Database;
  readonly #walPath: string;
  /** Null in a file that is not in WAL mode. */
  #wal: FileIdentity | null;
  /** Changes when another connection writes. */
  #version: number;
  #isMoved = false;
  #checkedAt = performance.now();

  /** Null where it would be of no use: Windows lets nobody rename or delete a file that is open. */
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

  /** Throws StoreMovedError if the files are not where they were. What was right a moment ago is trusted. */
  before(): void {
    const isTrusted = !this.#isMoved && performance.now() - this.#checkedAt <= TRUSTED_MS;
    if (!isTrusted && !this.#isWhole()) throw this.#problem();
  }

  /** The same, trusting nothing, and after doing what can be done about it. Not in a transaction. */
  verify(): void {
    if (!this.mend()) throw this.#problem();
  }

  /** Does what can be done about it, outside of a transaction, and returns whether all is well. */
  mend(): boolean {
    const isNew = !this.#isMoved;
    if (this.#isWhole()) return true;
    this.#isMoved = true;
    if (isInPlace(this.file)) return this.#renewLog(isNew);
    // Beside another file in its place the log would be taken for that file's; once somebody has written to it, it is.
    if (isNew && (!existsSync(this.#db.name) || this.#dataVersion() === this.#version)) this.#foldLog();
    return false;
  }

  #isWhole(): boolean {
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
      `${this.#walPath} was deleted or replaced while several connections had ${this.#db.name} open; what is written now ` +
        "would be lost. Stop every process that uses it, then start them again",
    );
  }

  #dataVersion(): number {
    return this.#db.pragma("data_version", { simple: true }) as number;
  }

  /** The first read opens it. */
  #openLog(): FileIdentity | null {
    this.#db.pragma("schema_version");
    return identityOf(this.#walPath);
  }

  /**
   * The log was deleted or replaced. Alone on the file, a connection brings all that it has written into the file and begins
   * a new log: nothing is lost. With others, each would go on with a log of its own.
   */
  #renewLog(isNew: boolean): boolean {
    try {
      for (const mode of ["delete", "wal"]) briefly(this.#db, `journal_mode = ${mode}`);
      this.#wal = this.#openLog();
      return this.#isWhole();
    } catch {
      if (isNew) this.#foldLog();
      return false;
    }
  }

  /** Brings what was acknowledged into the file itself, wherever that is now: the log does not go with it. */
  #foldLog(): void {
    try {
      briefly(this.#db, "wal_checkpoint(TRUNCATE)");
    } catch {
      // Another process reads, or there is no room: the log stays as it is.
    }
  }
}
