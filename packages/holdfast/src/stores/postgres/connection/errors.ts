import {
  DiskFullError,
  HoldfastError,
  InvalidOptionError,
  StoreUnavailableError,
  StoreUnreadableError,
} from "../../../errors.js";
import { FINISHED_MEANWHILE } from "../jobs/insert-sql.js";

/** What is wrong with a row, as PostgreSQL tells it, or plainer where the reason is one of ours. */
export function rowsFault(error: unknown): string {
  const { message, constraint } = error as { message: string; constraint?: unknown };
  // The foreign keys to the table of users, by the names that we give them.
  return sqlState(error) === "23503" && /^(?:live|schedules)_user$/.test(String(constraint))
    ? `no such user: ${message}`
    : message;
}

/** An error of the driver or of PostgreSQL as Holdfast tells it. `where` is the address without the password. */
export function fault(error: unknown, where: string): Error {
  if (error instanceof HoldfastError) return error;
  const code = sqlState(error);
  const text = error instanceof Error ? rowsFault(error) : String(error);
  const message = text === "" ? code : text;
  switch (code) {
    case "28P01":
    case "28000":
      return new StoreUnreadableError(`PostgreSQL at ${where} refused user or password: ${message}`, error);
    case "3D000":
      return new StoreUnreadableError(`there is no such database at ${where}: ${message}; create it first`, error);
    case "42501":
      return new StoreUnreadableError(`the user of ${where} has not the rights for this: ${message}`, error);
    case "42P01":
    case "3F000":
      return new StoreUnreadableError(
        `the tables of Holdfast are missing at ${where}; start with holdfast(), or call store.migrate()`,
        error,
      );
    case "25006":
      return new StoreUnavailableError(
        `PostgreSQL at ${where} takes no writes: it is a standby, or default_transaction_read_only is on; ` +
          `give Holdfast the address of the primary: ${message}`,
        error,
      );
    case "53100":
      return new DiskFullError(error);
    default:
  }
  if (code === "ERR_INVALID_URL") {
    const signs = "# as %23, / as %2F, ? as %3F, @ as %40, : as %3A";
    return new InvalidOptionError("url", `${where} cannot be read; in user and password write ${signs}`);
  }
  if (isPassing(code)) return new StoreUnavailableError(`PostgreSQL at ${where} did not answer: ${message}`, error);
  if (isSqlState(code)) {
    return new HoldfastError("STORE_ERROR", `PostgreSQL at ${where} refused a call: ${message}`, { cause: error });
  }
  // Without a code of PostgreSQL's it is the connection: refused, cut, timed out, or a name that leads nowhere.
  return new StoreUnavailableError(`PostgreSQL at ${where} cannot be reached: ${message}`, error);
}

/** Shutting down, starting up, out of connections, memory or time, a lock that nobody let go of: another try may do. */
function isPassing(code: string): boolean {
  return /^(?:08|57P|57014|53|40|55P03|25P03|58030|XX)/.test(code) && isSqlState(code);
}

/**
 * The connection is of no more use: an error without a code of PostgreSQL's is the connection's own, some codes come with
 * its end, and a server that became a standby is to be looked for again.
 */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof HoldfastError) return false;
  const code = sqlState(error);
  return !isSqlState(code) || /^(?:08|57P|25P03|25006)/.test(code);
}

/** The server takes no more connections, of this user or at all. */
export function isServerFull(error: unknown): boolean {
  return sqlState(error) === "53300";
}

/** Somebody's transaction holds a lock for longer than was waited. */
export function isLockTimeout(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "55P03";
}

/** The login may not do this. */
export function isNoRights(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "42501";
}

/** There is no such function: the database is of an older version. */
export function isNoFunction(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "42883";
}

/** No class of PostgreSQL's begins with E or with P and a digit but 0: the system has an `EPIPE`, Prisma a `P2010`. */
function isSqlState(code: string): boolean {
  return /^(?!E|P[1-9])[0-9A-Z]{5}$/.test(code);
}

/** A row that can never be stored, whatever is tried: its data is at fault, and not its neighbours. */
export function isDataError(error: unknown): boolean {
  return /^(?:22|23)/.test(sqlState(error instanceof HoldfastError ? error.cause : error));
}

/**
 * Says nothing of server, connection, transaction or tables: what is wrong is one of the rows, in PostgreSQL's own eyes or
 * those of a trigger. Any code that is not known for something else is taken for that.
 */
export function isRowsFault(error: unknown): boolean {
  const code = sqlState(error instanceof HoldfastError ? error.cause : error);
  return isSqlState(code) && !isPassing(code) && !/^(?:0A|2[568D]|3|42|55|57|58|F0)/.test(code);
}

/** Something that there can be one of is there already. */
export function isTwice(error: unknown): boolean {
  return sqlState(error instanceof HoldfastError ? error.cause : error) === "23505";
}

/**
 * Somebody else did the same in this moment, and what the statement saw is no longer so: asked again, it sees that. The
 * first is what a statement fails by on purpose, for want of anything milder that SQL has.
 */
export function isRace(error: unknown): boolean {
  return ["22012", FINISHED_MEANWHILE].includes(sqlState(error instanceof HoldfastError ? error.cause : error));
}

/** PostgreSQL's code of an error, also where a library has wrapped it, or else the system's. */
export function sqlState(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  const own = typeof code === "string" ? code : "";
  if (isSqlState(own) || error instanceof HoldfastError) return own;
  const cause = (error as { cause?: unknown } | null)?.cause;
  const wrapped = typeof cause === "object" && cause !== null ? sqlState(cause) : "";
  return isSqlState(wrapped) ? wrapped : own;
}
