import {
  DiskFull,
  DriverMissing,
  HoldfastError,
  SchemaTooNew,
  StoreUnavailable,
  StoreUnreadable,
} from "../../errors.js";

/** An error on its way between threads, where classes do not survive. */
export interface PackedError {
  kind: "full" | "unreadable" | "unavailable" | "driver" | "other";
  message: string;
  code: string;
}

export function packError(error: unknown): PackedError {
  const message = error instanceof Error ? error.message : String(error);
  const given = (error as { code?: unknown } | null)?.code;
  const code = typeof given === "string" ? given : "";
  return { kind: kindOf(error, code), message, code };
}

function kindOf(error: unknown, code: string): PackedError["kind"] {
  if (error instanceof DriverMissing) return "driver";
  if (error instanceof StoreUnreadable) return "unreadable";
  if (code === "SQLITE_FULL") return "full";
  if (/^SQLITE_(NOTADB|CORRUPT)/.test(code)) return "unreadable";
  // Locked, interrupted, an I/O error, a file that went away or became read-only: another try may do.
  if (/^SQLITE_(BUSY|LOCKED|IOERR|CANTOPEN|READONLY|PROTOCOL|NOMEM)/.test(code)) return "unavailable";
  return "other";
}

export function unpackError(packed: PackedError, file: string): HoldfastError {
  const cause = Object.assign(new Error(packed.message), { code: packed.code });
  switch (packed.kind) {
    case "full":
      return new DiskFull(cause);
    case "driver":
      return new DriverMissing(packed.message, cause);
    case "unreadable":
      return new StoreUnreadable(
        packed.code === "STORE_UNREADABLE" ? packed.message : `${file} is not a SQLite database, or is damaged`,
        cause,
      );
    case "unavailable":
      return new StoreUnavailable(`the database ${file} did not answer: ${packed.message}`, cause);
    case "other":
      if (packed.code === "SCHEMA_TOO_NEW") return new SchemaTooNew(packed.message);
      return new HoldfastError("STORE_ERROR", `the database ${file} refused a call: ${packed.message}`, { cause });
  }
}
