import { NotRetryable } from "holdfast";
import { quoteIdentifier, readCount, type Database, type SqlValue } from "holdfast/pack";
import { deleteChunk, type Chunk } from "./chunk.js";
import type { CheckedDeletion, TimeFormat } from "./rules.js";
import { findTable } from "./tables.js";

export interface DeleteOptions {
  /** Used instead of the condition's own age. */
  olderThanMs?: number;
  signal: AbortSignal;
  /** The present by the injected clock; PostgreSQL uses its own clock. */
  now: () => number;
  /** Called after each chunk with the rows deleted so far. */
  onProgress: (deleted: number) => void;
  /** Called with advice for the person who looks after the database. */
  onAdvice: (advice: string) => void;
}

/** Deletes rows in chunks, the oldest first, until none is left. */
export async function deleteRows(
  db: Database,
  deletion: CheckedDeletion,
  { olderThanMs, signal, now, onProgress, onAdvice }: DeleteOptions,
): Promise<void> {
  const { table, times, where } = deletion;
  const parts = await findTable(db, deletion);
  // One instant for the whole run: rows that expire meanwhile are left for the next one, so the run ends.
  const present = await presentOf(db, now);
  let deleted = 0;
  for (const part of parts) {
    for (const { column: name, olderThanMs: ownAge, and } of where) {
      const column = quoteIdentifier(name, "column");
      const limit = timeValue(present - (olderThanMs ?? ownAge), times);
      const time = times === "text" ? `julianday(t.${column})` : `t.${column}`;
      const condition = `${time} < ${limit.sql}${
        and === null ? "" : ` AND t.${quoteIdentifier(and.column, "column")} IS ${and.notNull ? "NOT NULL" : "NULL"}`
      }`;
      const chunk = { part, column, time, condition, value: limit.value };
      let last: Chunk = { deleted: 0, more: true, newest: null };
      let advised = times === "text" || part.indexed.includes(name);
      while (last.more) {
        signal.throwIfAborted();
        const began = performance.now();
        last = await deleteChunk(db, chunk, last.newest, (newest) => {
          if (times === "milliseconds") refuseSeconds(newest, `the column ${column} of ${db.table(table)}`);
        });
        deleted += last.deleted;
        onProgress(deleted);
        if (last.more && !advised) {
          advised = true;
          onAdvice(`Each chunk reads all rows of ${part.name}. Create an index on the column ${column}.`);
        }
        if (last.more && db.dialect === "sqlite") await pause(performance.now() - began);
      }
    }
  }
}

/**
 * SQLite has one lock for writes, no queue for it, and its calls block this process. So half of the time is left to others: without
 * it, other writers, such as the one that extends leases, waited for seconds.
 */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.ceil(ms)));
}

async function presentOf(db: Database, now: () => number): Promise<number> {
  if (db.dialect === "sqlite") return now();
  // As a number: a pool may have its own way to read times.
  const [row] = await db.query(
    "SELECT pg_catalog.floor(EXTRACT(EPOCH FROM pg_catalog.now()) * 1000)::pg_catalog.int8 AS now",
  );
  return readCount(row?.["now"]);
}

/** The parameter of a comparison with a time. Fractions are cut off: a row is rather deleted by the next run. */
function timeValue(at: number, times: TimeFormat): { sql: string; value: SqlValue } {
  switch (times) {
    // With the cast, a column without time zone is compared in the zone of the session, not in that of this process.
    case "native":
      return { sql: "?::timestamptz", value: new Date(at) };
    case "utc":
      return { sql: "(?::timestamptz AT TIME ZONE 'UTC')", value: new Date(at) };
    case "milliseconds":
      return { sql: "?", value: Math.floor(at) };
    case "seconds":
      return { sql: "?", value: Math.floor(at / 1_000) };
    case "text":
      return { sql: "julianday(?)", value: new Date(at).toISOString() };
  }
}

/** In milliseconds, these are times from 1970 to 1973; in seconds, from 1973 to 5138. */
const SECONDS = { from: 1e8, to: 1e11 };

/** Compared as milliseconds, a column of seconds would have expired in all rows. */
function refuseSeconds(newest: unknown, column: string): void {
  const time = Number(newest);
  if (time >= SECONDS.from && time < SECONDS.to) {
    throw new NotRetryable(`${column} holds seconds, not milliseconds: ${time}; set times: "seconds"`);
  }
}
