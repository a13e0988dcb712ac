import type { Dialect } from "./sql.js";

/** The column types of a dialect. Values that a column returns are read with {@link readTime}, {@link readCount} and {@link readJson}. */
export interface ColumnTypes {
  readonly text: string;
  readonly integer: string;
  readonly boolean: string;
  readonly time: string;
  readonly json: string;
}

export const COLUMN_TYPES: Readonly<Record<Dialect, ColumnTypes>> = {
  sqlite: { text: "TEXT", integer: "INTEGER", boolean: "INTEGER", time: "INTEGER", json: "TEXT" },
  postgres: { text: "text", integer: "bigint", boolean: "boolean", time: "timestamptz", json: "jsonb" },
};

/** A time from a column: `Date` on PostgreSQL, milliseconds on SQLite. */
export function readTime(value: unknown): Date {
  if (value instanceof Date) return value;
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "string") {
    const time = new Date(typeof value === "bigint" ? Number(value) : value);
    if (!Number.isNaN(time.getTime())) return time;
  }
  throw new TypeError(`${String(value)} is not a time`);
}

export function readTimeOrNull(value: unknown): Date | null {
  return value === null || value === undefined ? null : readTime(value);
}

/** An integer from a column. `pg` returns a bigint as a string. */
export function readCount(value: unknown): number {
  return Number(value);
}

/** JSON from a column: parsed on PostgreSQL, text on SQLite. */
export function readJson(value: unknown): unknown {
  return typeof value === "string" ? JSON.parse(value) : value;
}

/** A boolean from a column: 0 or 1 on SQLite. */
export function readBoolean(value: unknown): boolean {
  return value === true || value === 1 || value === 1n;
}
