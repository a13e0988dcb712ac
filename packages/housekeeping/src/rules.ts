import { InvalidOptionError } from "holdfast";
import { durationMs, optionKeys, quoteIdentifier, refuseUnknownIn, type Dialect, type Duration } from "holdfast/pack";

/** How a column stores times. */
export type TimeFormat = "native" | "utc" | "milliseconds" | "seconds" | "text";

/** Which rows to delete: those whose time in `column` is older than `olderThan`, and strictly so. */
export interface Condition {
  column: string;
  /** `0` or omitted: those whose time has passed, as in a column `expires_at`. */
  olderThan?: Duration;
  /** Only rows in which this column also has a value, or also has none. */
  and?: { column: string; notNull: boolean };
}

/** Rows to delete from one table: those for which at least one of the conditions holds. */
export interface Deletion {
  table: string;
  where: readonly Condition[];
  /**
   * How the columns store times. Default: `native` on PostgreSQL (timestamptz, timestamp or date), `milliseconds` since 1970 on SQLite.
   * A timestamp without time zone is read in the time zone of the session; `utc`: in UTC.
   * `text`: dates that SQLite's functions read, such as `2026-01-31 08:00:00`; an index on the column is not used then.
   */
  times?: TimeFormat;
}

/** A deletion whose options were checked. */
export interface CheckedDeletion {
  table: string;
  times: TimeFormat;
  where: readonly { column: string; olderThanMs: number; and: { column: string; notNull: boolean } | null }[];
}

const DELETION_KEYS = optionKeys<Deletion>({ table: true, where: true, times: true });
const CONDITION_KEYS = optionKeys<Condition>({ column: true, olderThan: true, and: true });
const AND_KEYS = optionKeys<NonNullable<Condition["and"]>>({ column: true, notNull: true });
const FORMATS: readonly TimeFormat[] = ["native", "utc", "milliseconds", "seconds", "text"];
const MAX_CONDITIONS = 20;

/** Checks names, durations and formats at once: a wrong rule must not wait for its first run. */
export function readDeletion(given: Deletion, field: string, dialect: Dialect): CheckedDeletion {
  refuseUnknownIn(given, DELETION_KEYS, field);
  refuseMissing(given, field);
  const { table, where, times = dialect === "postgres" ? "native" : "milliseconds" } = given;
  checkName(table, `${field}.table`);
  // The output has a key for each table; JSON of jobs never has this one.
  if (table === "__proto__") throw new InvalidOptionError(`${field}.table`, "must not be __proto__");
  if (!FORMATS.includes(times)) {
    throw new InvalidOptionError(`${field}.times`, `must be one of ${FORMATS.join(", ")}`);
  }
  if ((times === "native" || times === "utc") && dialect === "sqlite") {
    throw new InvalidOptionError(
      `${field}.times`,
      "must be milliseconds, seconds or text on SQLite, which has no type for times",
    );
  }
  if (times === "text" && dialect === "postgres") {
    throw new InvalidOptionError(`${field}.times`, "must not be text on PostgreSQL; use a column of type timestamptz");
  }
  if (!Array.isArray(where) || where.length === 0 || where.length > MAX_CONDITIONS) {
    throw new InvalidOptionError(`${field}.where`, `must be a list of 1 to ${MAX_CONDITIONS} conditions`);
  }
  return { table, times, where: where.map((condition, at) => readCondition(condition, `${field}.where.${at}`)) };
}

function readCondition(given: Condition, field: string): CheckedDeletion["where"][number] {
  refuseUnknownIn(given, CONDITION_KEYS, field);
  refuseMissing(given, field);
  checkName(given.column, `${field}.column`);
  const { and = null } = given;
  if (and !== null) {
    refuseUnknownIn(and, AND_KEYS, `${field}.and`);
    checkName(and.column, `${field}.and.column`);
    if (typeof and.notNull !== "boolean") throw new InvalidOptionError(`${field}.and.notNull`, "must be true or false");
  }
  return { column: given.column, olderThanMs: durationMs(given.olderThan ?? 0, `${field}.olderThan`), and };
}

/** A value that is missing by mistake must not select other rows than the rule says: without `olderThan`, all rows of the past. */
export function refuseMissing(options: object, field: string): void {
  for (const [key, value] of Object.entries(options)) {
    if (value !== undefined && value !== null) continue;
    throw new InvalidOptionError(`${field}.${key}`, `is ${String(value)}; give it a value, or leave it out`);
  }
}

function checkName(name: string, field: string): void {
  quoteIdentifier(name, field);
}
