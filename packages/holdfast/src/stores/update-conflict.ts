import type { JobUpdate, UpdateConflict } from "../store.js";

/** What an update is checked against. */
export interface CheckedJob {
  type: string;
  attempt: number;
  dueAt: number | null;
  expiresAt: number | null;
}

/** Why an update contradicts a job; null if it does not. The PostgreSQL store does the same in SQL. */
export function updateConflict(update: JobUpdate, job: CheckedJob, now: number): UpdateConflict | null {
  const { inputType, maxAttempts, due } = update;
  if (inputType !== undefined && inputType !== job.type) return "type";
  if (maxAttempts !== undefined && maxAttempts <= job.attempt) return "attempts";
  if (due === undefined && update.expiresAt === undefined) return null;
  const expiresAt = update.expiresAt === undefined ? job.expiresAt : update.expiresAt;
  const dueAt = due === undefined ? job.dueAt : (due.runAt ?? now) + due.delayMs;
  return expiresAt !== null && dueAt !== null && expiresAt <= dueAt ? "expiry" : null;
}
