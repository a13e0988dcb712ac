import type { Database } from "better-sqlite3";

const BUSY_MS = 20;

/**
 * Runs a pragma that needs the file exclusively. With a short busy timeout: readers and writers are blocked while it waits.
 */
export function exclusivePragma(db: Database, pragma: string): void {
  const busyMs = db.pragma("busy_timeout", { simple: true }) as number;
  db.pragma(`busy_timeout = ${BUSY_MS}`);
  try {
    db.pragma(pragma);
  } finally {
    db.pragma(`busy_timeout = ${busyMs}`);
  }
}
