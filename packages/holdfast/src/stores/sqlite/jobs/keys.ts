import type { Database } from "better-sqlite3";
import { isFinished, isWaiting, type State } from "../../../job/state.js";
import type { UniqueKey } from "../../../store.js";

/** The job that holds a key. Its state is null if the job was deleted. */
export interface KeyHolder {
  job: string;
  scope: UniqueKey["scope"];
  until: number | null;
  takenAtFence: number;
  state: State | null;
  fence: number | null;
}

export interface Keys {
  holder(key: string): KeyHolder | undefined;
  take(key: string, job: string, hold: Pick<KeyHolder, "scope" | "until" | "takenAtFence">): void;
  /** Frees the key if this job has it. */
  free(key: string, job: string): void;
  /** Deletes keys whose period has ended. */
  deletePast(now: number, limit: number): void;
}

/** Whether the key is still held, by the scope of the job that holds it. */
export function isHeld(holder: KeyHolder, now: number): boolean {
  switch (holder.scope) {
    case "forever":
      return true;
    case "period":
      return holder.state !== null && holder.until !== null && holder.until > now;
    case "live":
      return holder.state !== null && !isFinished(holder.state);
    case "waiting":
      return holder.state !== null && isWaiting(holder.state) && holder.fence === holder.takenAtFence;
  }
}

export function keyStatements(db: Database): Keys {
  const holder = db
    .prepare(
      `SELECT k.job, k.scope, k.until, k.fence AS takenAtFence, j.state, j.fence FROM holdfast_keys k
       LEFT JOIN holdfast_jobs j ON j.id = k.job WHERE k.key = ?`,
    )
    // The connection may be the caller's, set to return BigInts.
    .safeIntegers(false);
  const take = db.prepare(
    `INSERT INTO holdfast_keys (key, job, scope, until, fence) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT DO UPDATE SET job = excluded.job, scope = excluded.scope, until = excluded.until, fence = excluded.fence`,
  );
  const free = db.prepare("DELETE FROM holdfast_keys WHERE key = ? AND job = ?");
  const deletePast = db.prepare(
    "DELETE FROM holdfast_keys WHERE key IN (SELECT key FROM holdfast_keys WHERE until IS NOT NULL AND until <= ? LIMIT ?)",
  );
  return {
    holder: (key) => holder.get(key) as KeyHolder | undefined,
    take: (key, job, { scope, until, takenAtFence }) => void take.run(key, job, scope, until, takenAtFence),
    free: (key, job) => void free.run(key, job),
    deletePast: (now, limit) => void deletePast.run(now, limit),
  };
}
