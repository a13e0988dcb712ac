import { basename, dirname } from "node:path";
import {
  DiskFullError,
  DriverMissingError,
  DriverUnsupportedError,
  HoldfastError,
  SchemaTooNewError,
  StoreMovedError,
  StoreReadOnlyError,
  StoreUnavailableError,
  StoreUnreadableError,
} from "../../../errors.js";

/** An error as it crosses between threads: the structured clone loses its class. */
export interface PackedError {
  kind: "full" | "unreadable" | "read-only" | "moved" | "unavailable" | "driver" | "other";
  message: string;
  code: string;
  /** The cause of one of our own errors. */
  cause?: { message: string; code: string };
}

export function packError(error: unknown): PackedError {
  const packed = textOf(error);
  const cause = error instanceof HoldfastError && error.cause instanceof Error ? textOf(error.cause) : null;
  return { kind: kindOf(error, packed.code), ...packed, ...(cause !== null && { cause }) };
}

function textOf(error: unknown): { message: string; code: string } {
  const message = error instanceof Error ? error.message : String(error);
  const code = (error as { code?: unknown } | null)?.code;
  return { message, code: typeof code === "string" ? code : "" };
}

function kindOf(error: unknown, code: string): PackedError["kind"] {
  if (error instanceof DriverMissingError) return "driver";
  if (error instanceof StoreUnreadableError) return "unreadable";
  if (error instanceof StoreMovedError) return "moved";
  if (error instanceof StoreReadOnlyError || code.startsWith("SQLITE_READONLY")) return "read-only";
  // SHMSIZE means a full disk too: the index of the write-ahead log cannot grow.
  if (code === "SQLITE_FULL" || code === "SQLITE_IOERR_SHMSIZE") return "full";
  if (/^SQLITE_(NOTADB|CORRUPT)/.test(code)) return "unreadable";
  // Locked, an I/O error, a file that cannot be opened: a retry may succeed.
  if (/^SQLITE_(BUSY|LOCKED|IOERR|CANTOPEN|PROTOCOL|NOMEM)/.test(code)) return "unavailable";
  return "other";
}

export function unpackError(packed: PackedError, file: string): HoldfastError {
  // An error of our own keeps its cause. Otherwise its message would be printed twice.
  const { message, code } = packed.cause ?? packed;
  const cause = Object.assign(new Error(message), { code });
  switch (packed.kind) {
    case "full":
      return new DiskFullError(cause);
    case "driver":
      return new DriverMissingError(packed.message, cause);
    case "unreadable":
      return new StoreUnreadableError(
        packed.code === "STORE_UNREADABLE" ? packed.message : `${file} is not a SQLite database, or is damaged`,
        cause,
      );
    case "read-only":
      return packed.code === "STORE_READ_ONLY" ? new StoreReadOnlyError(packed.message, cause) : readOnly(file, cause);
    case "moved":
      return new StoreMovedError(packed.message);
    case "unavailable":
      return new StoreUnavailableError(`the database ${file} did not respond: ${packed.message}`, cause);
    case "other":
      if (packed.code === "DRIVER_UNSUPPORTED") return new DriverUnsupportedError(packed.message);
      if (packed.code === "SCHEMA_TOO_NEW") return new SchemaTooNewError(packed.message);
      return new HoldfastError("STORE_ERROR", `the database ${file} rejected a request: ${packed.message}`, { cause });
  }
}

/** The error for files that SQLite cannot write, with what to do about it. */
export function readOnly(file: string, cause: unknown): StoreReadOnlyError {
  const isFolder = (cause as { code?: unknown }).code === "SQLITE_READONLY_DIRECTORY";
  const name = basename(file);
  return new StoreReadOnlyError(
    isFolder
      ? `the folder ${dirname(file)} is read-only for this process, and SQLite must create ${name}-wal and ${name}-shm in it, even ` +
          "to read; give this user write access to it, or copy the database to another folder"
      : `${file} is read-only for this process: the file itself, or ${name}-wal or ${name}-shm next to it; give this user write ` +
          "access to all of them and to their folder, or use another file",
    cause,
  );
}
