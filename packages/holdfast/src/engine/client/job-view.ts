import { LIMITS } from "../../defaults.js";
import { dateOf, dateOrNull } from "../../duration.js";
import type { ErrorRecord } from "../../job/error-record.js";
import type { AttemptError, Job, JobAttempt, ScheduledSlot } from "../../job/job.js";
import { fromJson, isTooDeep } from "../../job/json.js";
import { STALE_ERROR } from "../../job/state.js";
import { PARKED_AT } from "../../job/stored-step.js";
import type { AttemptRecord, ScheduleSlot, StoredJob, StoredProgress, StoredWorker } from "../../store.js";
import { givenKey } from "../enqueue/unique.js";
import { readCarrier } from "../events/telemetry.js";

/** Shown in place of a payload that is nested too deep. */
const TOO_DEEP = `(not shown: nested deeper than ${LIMITS.payloadDepth} levels)`;

/**
 * Parses a stored payload without throwing, so that the job can still be shown: a damaged one is null. One that is nested deeper
 * than Holdfast accepts is replaced by a note, because few programs could serialize it again.
 */
export function parseStored(text: string | null): unknown {
  try {
    if (text === null) return null;
    return isTooDeep(text) ? TOO_DEEP : fromJson(text);
  } catch {
    return null;
  }
}

/** Whether `parseStored` returns what the text says. */
export function isShownWhole(text: string): boolean {
  try {
    return !isTooDeep(text) && (fromJson(text), true);
  } catch {
    return false;
  }
}

/** The slot of a job, with its time as a `Date`. */
export function readSlot(stored: ScheduleSlot | null): ScheduledSlot | null {
  return stored === null ? null : { name: stored.name, slot: dateOf(stored.slot) };
}

/** A stored record as callers see it: times as dates, JSON as values. */
export function readJob(stored: StoredJob, { hasHistory }: { hasHistory: boolean }): Job {
  return {
    id: stored.id,
    type: stored.type,
    queue: stored.queue,
    state: stored.state,
    priority: stored.priority,
    user: stored.user,
    input: parseStored(stored.input),
    output: parseStored(stored.output),
    error: stored.error === null ? null : { ...stored.error, at: dateOf(stored.error.at) },
    attempt: stored.attempt,
    maxAttempts: stored.maxAttempts,
    fence: stored.fence,
    runAt: dateOf(stored.runAt),
    dueAt: dateOrNull(stored.dueAt === PARKED_AT ? null : stored.dueAt),
    expiresAt: dateOrNull(stored.expiresAt),
    createdAt: dateOf(stored.createdAt),
    updatedAt: dateOf(stored.updatedAt),
    claimedAt: dateOrNull(stored.claimedAt),
    startedAt: dateOrNull(stored.startedAt),
    finishedAt: dateOrNull(stored.finishedAt),
    cancelRequestedAt: dateOrNull(stored.cancelRequestedAt),
    worker: stored.worker,
    key: stored.key === null ? null : givenKey(stored.key),
    tags: stored.tags,
    schedule: readSlot(stored.schedule),
    trace: readCarrier(stored.trace),
    parent: stored.parent,
    timeoutMs: stored.settings?.timeoutMs ?? null,
    progress: readProgress(stored.progress),
    attempts: hasHistory ? [...stored.attempts.map(readAttempt), ...lastAttempt(stored)] : [],
    log: stored.log.map(({ at, line }) => ({ at: dateOf(at), line })),
  };
}

function readProgress(stored: StoredProgress | null): Job["progress"] {
  return stored === null ? null : { ...stored, data: parseStored(stored.data) };
}

function readAttempt(stored: AttemptRecord): JobAttempt {
  const { attempt, worker, fence = null, error } = stored;
  return {
    attempt,
    fence,
    end: stored.end ?? (error?.code === STALE_ERROR.code ? "expired" : "failed"),
    worker,
    claimedAt: dateOrNull(stored.claimedAt),
    startedAt: dateOrNull(stored.startedAt),
    endedAt: dateOf(stored.endedAt),
    error: error === null ? null : readError(error),
  };
}

/** The attempt that completed the job is not in the stored history: the record of the job has it. */
function lastAttempt(stored: StoredJob): JobAttempt[] {
  const { state, attempt, fence, worker, startedAt, finishedAt } = stored;
  if ((state !== "completed" && state !== "cancelled") || startedAt === null || finishedAt === null) return [];
  // A job that was cancelled while it waited: its last attempt is in the history. Releases and retries change the number of the
  // attempt, but not the fencing token. Earlier versions stored no token, and no record of an attempt that was cancelled.
  if (stored.attempts.some((known) => (known.fence === undefined ? known.attempt === attempt : known.fence === fence)))
    return [];
  return [
    {
      attempt,
      fence,
      end: state,
      worker,
      claimedAt: dateOrNull(stored.claimedAt),
      startedAt: dateOrNull(startedAt),
      endedAt: dateOf(finishedAt),
      error: null,
    },
  ];
}

/** Attempts stored by earlier versions have neither cause nor data. */
function readError({ message, code, stack, cause, data }: ErrorRecord): AttemptError {
  return { message, code, stack, cause: cause == null ? null : readError(cause), data: data ?? null };
}

/** A worker, as `hf.workers()` returns it. */
export interface WorkerStatus extends Omit<StoredWorker, "startedAt" | "seenAt"> {
  startedAt: Date;
  /** Time of its last heartbeat. */
  seenAt: Date;
}

export function readWorker(stored: StoredWorker): WorkerStatus {
  return { ...stored, startedAt: dateOf(stored.startedAt), seenAt: dateOf(stored.seenAt) };
}
