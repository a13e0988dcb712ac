import type { ErrorRecord } from "./error-record.js";
import type { FinishedState, State } from "./state.js";

/** A job to insert. Times are milliseconds since 1970, payloads are JSON strings. */
export interface NewJob {
  id: string;
  type: string;
  queue: string;
  priority: number;
  user: string | null;
  /** JSON. */
  input: string;
  maxAttempts: number;
  /** When the job is due; null means now. `delayMs` is added to it. */
  runAt: number | null;
  delayMs: number;
  expiresAt: number | null;
  tags: readonly string[];
  unique: UniqueKey | null;
  /** The schedule and slot that created it. */
  schedule: ScheduleSlot | null;
  /** The id of the job whose handler enqueued it. */
  parent: string | null;
  settings: JobSettings | null;
  /**
   * The trace context of the enqueue call as JSON, such as `{"traceparent":"00-…"}`, at most `LIMITS.traceBytes`. Stores do not
   * interpret it. A retry does not change it.
   */
  trace: string | null;
  /** A step of another job waits for its end. */
  awaited?: boolean | undefined;
}

/** Settings of a single job. Most jobs have none. Stored and returned unchanged. */
export interface JobSettings {
  /** The maximum duration of an attempt; 0: none. */
  timeoutMs?: number;
  /**
   * How long the finished job is kept, by state. This sets its purge time. `purgeDue` deletes the job after that time; `purge`
   * never deletes it.
   */
  keepMs?: Partial<Record<FinishedState, number>>;
}

/** One instant of a schedule. */
export interface ScheduleSlot {
  name: string;
  slot: number;
}

/**
 * At most one job holds a unique key. How long it holds the key depends on its scope:
 * - `waiting`: until its first claim. A retry does not acquire the key again.
 * - `live`: until it is finished. A retry acquires the key again, or is refused if another job holds it.
 * - `period`: until `periodMs` after the enqueue, whatever the outcome.
 * - `forever`: even after retention has deleted the job. Only `remove` frees the key.
 *
 * Except for `forever`, deleting the job frees its key, whatever deleted it: an enqueue is never a duplicate of a job that does
 * not exist. The scope of the holder applies, not the scope of the new job.
 */
export interface UniqueKey {
  key: string;
  scope: "waiting" | "live" | "period" | "forever";
  periodMs: number;
  /** `replace` overwrites a waiting holder, which keeps its id. A leased or finished holder is not changed. */
  onConflict: "keep" | "replace" | "reject";
}

export interface StoredError {
  message: string;
  code: string | null;
  at: number;
  /** The group of errors that it belongs to; null if it is not grouped. See fingerprint.ts. */
  fingerprint: string | null;
}

/** `data` is JSON, at most `LIMITS.progressBytes`. */
export interface StoredProgress {
  fraction: number;
  note: string | null;
  data: string | null;
}

export interface StoredJob {
  id: string;
  type: string;
  queue: string;
  state: State;
  priority: number;
  user: string | null;
  input: string;
  output: string | null;
  error: StoredError | null;
  attempt: number;
  maxAttempts: number;
  /** Leases of this job that expired without an outcome. */
  losses: number;
  /** Releases that did not use up an attempt. */
  releases: number;
  fence: number;
  /** When it may run, as enqueued or as set by the last retry. */
  runAt: number;
  /** When it may be claimed. For a leased job, the end of its lease; for a finished job, null. */
  dueAt: number | null;
  expiresAt: number | null;
  createdAt: number;
  updatedAt: number;
  claimedAt: number | null;
  startedAt: number | null;
  finishedAt: number | null;
  cancelRequestedAt: number | null;
  /** The worker that holds the lease, or held it when the job finished. Null for a waiting job. */
  worker: string | null;
  key: string | null;
  tags: readonly string[];
  schedule: ScheduleSlot | null;
  parent: string | null;
  settings: JobSettings | null;
  trace: string | null;
  progress: StoredProgress | null;
  /** Attempts that have ended, except the one that completed the job, oldest first; empty in lists. */
  attempts: readonly AttemptRecord[];
  /** Empty in lists. */
  log: readonly { at: number; line: string }[];
}

/**
 * An attempt in a job's history: it failed, its lease expired, its worker released the job, or the job was cancelled while it ran.
 * A completed attempt has none: the job's own record shows it.
 */
export interface AttemptRecord {
  attempt: number;
  /** The fencing token of its claim. Missing in records of earlier versions, like `end`. */
  fence?: number;
  end?: "failed" | "expired" | "released" | "cancelled";
  worker: string | null;
  claimedAt: number | null;
  startedAt: number | null;
  endedAt: number;
  /** Null unless it failed or its lease expired. Stored and returned unchanged, including fields that the store does not know. */
  error: ErrorRecord | null;
}
