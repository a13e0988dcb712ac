import {
  DiskFullError,
  HoldfastError,
  InvalidOptionError,
  StoreUnavailableError,
  StoreUnreadableError,
} from "../../../errors.js";
import { FINISHED_MEANWHILE } from "../jobs/insert-sql.js";

/** PostgreSQL's message about a row, with a clearer text for our own foreign keys. */
export function rowError(error: unknown): string {
  const { message, constraint } = error as { message: string; constraint?: unknown };
  // The names of the foreign keys to the users' table.
  return sqlState(error) === "23503" && /^(?:live|schedules)_user$/.test(String(constraint))
    ? `no such user: ${message}`
    : message;
}

/** Converts an error of the driver or of PostgreSQL. `where` is the address without the password. */
export function toStoreError(error: unknown, where: string): Error {
  if (error instanceof HoldfastError) return error;
  const code = sqlState(error);
  const text = error instanceof Error ? rowError(error) : String(error);
  const message = text === "" ? code : text;
  switch (code) {
    case "28P01":
    case "28000":
      return new StoreUnreadableError(`PostgreSQL at ${where} rejected the user or password: ${message}`, error);
    case "3D000":
      return new StoreUnreadableError(`the database at ${where} does not exist: ${message}; create it first`, error);
    case "42501":
      return new StoreUnreadableError(`permission denied for the role used at ${where}: ${message}`, error);
    case "42P01":
    case "3F000":
      return new StoreUnreadableError(
        `the tables of Holdfast are missing at ${where}; call holdfast() or store.migrate() first`,
        error,
      );
    case "25006":
      return new StoreUnavailableError(
        `PostgreSQL at ${where} is read-only: it is a standby, or default_transaction_read_only is on; ` +
          `use the address of the primary: ${message}`,
        error,
      );
    case "53100":
      return new DiskFullError(error);
    default:
  }
  if (code === "ERR_INVALID_URL") {
    const signs = "# is %23, / is %2F, ? is %3F, @ is %40, : is %3A";
    return new InvalidOptionError(
      "url",
      `${where} is not a valid URL; percent-encode special characters in user and password: ${signs}`,
    );
  }
  if (isTransient(code)) return new StoreUnavailableError(`PostgreSQL at ${where} did not respond: ${message}`, error);
  if (isSqlState(code)) {
    return new HoldfastError("STORE_ERROR", `PostgreSQL at ${where} rejected a statement: ${message}`, {
      cause: error,
    });
  }
  // Without a code of PostgreSQL it is a connection error: refused, cut, timed out, or an unknown host.
  return new StoreUnavailableError(`PostgreSQL at ${where} cannot be reached: ${message}`, error);
}

/** Shutting down, starting up, out of connections, memory or time, or a lock timeout: a retry may succeed. */
function isTransient(code: string): boolean {
  return /^(?:08|57P|57014|53|40|55P03|25P03|58030|XX)/.test(code) && isSqlState(code);
}

/**
 * The connection must be closed: an error without a code of PostgreSQL is a connection error, some codes end the
 * connection, and after a failover the new primary must be found.
 */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof HoldfastError) return false;
  const code = sqlState(error);
  return !isSqlState(code) || /^(?:08|57P|25P03|25006)/.test(code);
}

/** The server accepts no more connections, of this role or at all. */
export function isServerFull(error: unknown): boolean {
  return sqlState(error) === "53300";
}

/** A lock timeout: another transaction holds the lock. */
export function isLockTimeout(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "55P03";
}

/** The role lacks a privilege. */
export function isPermissionDenied(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "42501";
}

/** The function does not exist: the schema has an older version. */
export function isMissingFunction(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "42883";
}

/**
 * PostgreSQL has no class that starts with E, or with P and a digit other than 0; Node has `EPIPE`, Prisma has `P2010`.
 */
function isSqlState(code: string): boolean {
  return /^(?!E|P[1-9])[0-9A-Z]{5}$/.test(code);
}

/** The data of a row is invalid: a retry will not help. */
export function isDataError(error: unknown): boolean {
  return /^(?:22|23)/.test(sqlState(error instanceof HoldfastError ? error.cause : error));
}

/**
 * One of the rows is rejected, by PostgreSQL or by a trigger; server, connection, transaction and tables are fine.
 * Every code that is not known to mean something else counts as this.
 */
export function isRowError(error: unknown): boolean {
  const code = sqlState(error instanceof HoldfastError ? error.cause : error);
  return isSqlState(code) && !isTransient(code) && !/^(?:0A|2[568D]|3|42|55|57|58|F0)/.test(code);
}

/** A unique constraint is violated. */
export function isDuplicate(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "23505";
}

/** Raised on purpose too: SQL has no other way to fail a statement. */
export function isDivisionByZero(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "22012";
}

/** A concurrent transaction changed what the statement saw; the next try will see it. */
export function isRace(error: unknown): boolean {
  return (
    isDivisionByZero(error) || sqlState(error instanceof HoldfastError ? error.cause : error) === FINISHED_MEANWHILE
  );
}

/** PostgreSQL's code of an error, also of one that a library has wrapped; otherwise the system's code. */
export function sqlState(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  const own = typeof code === "string" ? code : "";
  if (isSqlState(own) || error instanceof HoldfastError) return own;
  const cause = (error as { cause?: unknown } | null)?.cause;
  const wrapped = typeof cause === "object" && cause !== null ? sqlState(cause) : "";
  return isSqlState(wrapped) ? wrapped : own;
}
