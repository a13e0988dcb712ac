import type { Database } from "better-sqlite3";

const BUSY_MS = 20;

/** Runs a pragma that needs the file for itself, and gives up soon: writers and readers are kept out while it waits. */
export function briefly(db: Database, pragma: string): void {
  const busyMs = db.pragma("busy_timeout", { simple: true }) as number;
  db.pragma(`busy_timeout = ${BUSY_MS}`);
  try {
    db.pragma(pragma);
  } finally {
    db.pragma(`busy_timeout = ${busyMs}`);
  }
}
