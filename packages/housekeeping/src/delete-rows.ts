import { quoteIdentifier, readTime, type Database, type SqlValue } from "holdfast/pack";
import type { CheckedDeletion, TimeFormat } from "./rules.js";
import { deletionFrom, findTable } from "./tables.js";

/** Rows that one statement deletes: a large table is neither locked for long, nor its write-ahead log filled by one transaction. */
const CHUNK = 500;

export interface DeleteOptions {
  /** Used instead of the condition's own age. */
  olderThanMs?: number;
  signal: AbortSignal;
  /** The present by the injected clock; PostgreSQL uses its own clock. */
  now: () => number;
  /** Called after each chunk with the rows deleted so far. */
  onProgress: (deleted: number) => void;
}

/** Deletes rows in chunks, the oldest first, until none is left. */
export async function deleteRows(
  db: Database,
  { table, times, where }: CheckedDeletion,
  { olderThanMs, signal, now, onProgress }: DeleteOptions,
): Promise<void> {
  const columns = where.flatMap(({ column, and }) => (and === null ? [column] : [column, and.column]));
  const parts = await findTable(db, table, columns);
  // One instant for the whole run: rows that expire meanwhile are left for the next one, so the run ends.
  const present = await presentOf(db, now);
  let deleted = 0;
  for (const part of parts) {
    for (const { column, olderThanMs: ownAge, and } of where) {
      const value = timeValue(present - (olderThanMs ?? ownAge), times);
      const time = times === "text" ? `julianday(${quoted(column)})` : quoted(column);
      const condition = `${time} < ${value.sql}${
        and === null ? "" : ` AND ${quoted(and.column)} IS ${and.notNull ? "NOT NULL" : "NULL"}`
      }`;
      const statement = deletionFrom(part, `WHERE ${condition} ORDER BY ${time} LIMIT ${CHUNK}`);
      for (;;) {
        signal.throwIfAborted();
        const rows = (await db.query(statement, [value.parameter])).length;
        deleted += rows;
        onProgress(deleted);
        if (rows < CHUNK) break;
        // On SQLite a query does not wait: other work of this process must be able to run between two chunks.
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }
}

const quoted = (name: string): string => quoteIdentifier(name, "column");

async function presentOf(db: Database, now: () => number): Promise<number> {
  if (db.dialect === "sqlite") return now();
  const [row] = await db.query("SELECT pg_catalog.now() AS now");
  return readTime(row?.["now"]).getTime();
}

/** The parameter of a comparison with a time. */
function timeValue(at: number, times: TimeFormat): { sql: string; parameter: SqlValue } {
  switch (times) {
    // With the cast, a column without time zone is compared in the zone of the session, not in that of this process.
    case "native":
      return { sql: "?::timestamptz", parameter: new Date(at) };
    case "milliseconds":
      return { sql: "?", parameter: Math.floor(at) };
    case "seconds":
      return { sql: "?", parameter: at / 1_000 };
    case "text":
      return { sql: "julianday(?)", parameter: new Date(at).toISOString() };
  }
}
