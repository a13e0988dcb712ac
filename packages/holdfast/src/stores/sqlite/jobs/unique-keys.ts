import type { Database } from "better-sqlite3";
import { isFinished, isWaiting, type State } from "../../../job/state.js";
import type { StoredScope } from "../../stored-values.js";

/** The job that holds a key. Its state is null if the job was deleted. */
export interface KeyHolder {
  job: string;
  scope: StoredScope;
  until: number | null;
  acquiredAtFence: number;
  state: State | null;
  fence: number | null;
}

export interface Keys {
  holder(key: string): KeyHolder | undefined;
  acquire(key: string, job: string, record: Pick<KeyHolder, "scope" | "until" | "acquiredAtFence">): void;
  /** Frees the key if this job has it. */
  free(key: string, job: string): void;
  /** Deletes keys whose period has ended. */
  deleteExpired(now: number, limit: number): void;
}

/** Whether the key is still held, by the scope of the job that holds it. */
export function isKeyHeld(holder: KeyHolder, now: number): boolean {
  switch (holder.scope) {
    case "ever":
      return true;
    case "period":
      return holder.state !== null && holder.until !== null && holder.until > now;
    case "live":
      return holder.state !== null && !isFinished(holder.state);
    case "waiting":
      return holder.state !== null && isWaiting(holder.state) && holder.fence === holder.acquiredAtFence;
  }
}

export function keyStatements(db: Database): Keys {
  const holder = db
    .prepare(
      `SELECT k.job, k.scope, k.until, k.fence AS acquiredAtFence, j.state, j.fence FROM holdfast_keys k
       LEFT JOIN holdfast_jobs j ON j.id = k.job WHERE k.key = ?`,
    )
    // The connection may be the caller's, set to return BigInts.
    .safeIntegers(false);
  const acquire = db.prepare(
    `INSERT INTO holdfast_keys (key, job, scope, until, fence) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET job = excluded.job, scope = excluded.scope, until = excluded.until, fence = excluded.fence`,
  );
  const free = db.prepare("DELETE FROM holdfast_keys WHERE key = ? AND job = ?");
  const deleteExpired = db.prepare(
    "DELETE FROM holdfast_keys WHERE key IN (SELECT key FROM holdfast_keys WHERE until IS NOT NULL AND until <= ? LIMIT ?)",
  );
  return {
    holder: (key) => holder.get(key) as KeyHolder | undefined,
    acquire: (key, job, { scope, until, acquiredAtFence }) => void acquire.run(key, job, scope, until, acquiredAtFence),
    free: (key, job) => void free.run(key, job),
    deleteExpired: (now, limit) => void deleteExpired.run(now, limit),
  };
}
