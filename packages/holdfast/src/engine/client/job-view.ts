import { LIMITS } from "../../defaults.js";
import { dateOf, dateOrNull } from "../../duration.js";
import type { ErrorRecord } from "../../job/error-record.js";
import type { AttemptError, Job, ScheduledSlot } from "../../job/job.js";
import { fromJson, isTooDeep } from "../../job/json.js";
import type { ScheduleSlot, StoredWorker, StoredJob } from "../../store.js";
import { givenKey } from "../enqueue/unique.js";
import { readCarrier } from "../events/telemetry.js";

/** What stands for a payload that is nested too deep to be shown. */
const TOO_DEEP = `(not shown: nested deeper than ${LIMITS.payloadDepth} levels)`;

/**
 * A payload that was damaged in the database reads as null: the rest of the record is still worth showing. So it is beside one
 * that is nested deeper than any that Holdfast takes, which few programs could write as JSON again.
 */
export function readable(text: string | null): unknown {
  try {
    if (text === null) return null;
    return isTooDeep(text) ? TOO_DEEP : fromJson(text);
  } catch {
    return null;
  }
}

/** The slot a job was made for, as people read it. */
export function readSlot(stored: ScheduleSlot | null): ScheduledSlot | null {
  return stored === null ? null : { name: stored.name, slot: dateOf(stored.slot) };
}

/** A stored record as people read it: dates for times, values for JSON. */
export function readJob(stored: StoredJob): Job {
  return {
    id: stored.id,
    type: stored.type,
    queue: stored.queue,
    state: stored.state,
    priority: stored.priority,
    user: stored.user,
    input: readable(stored.input),
    output: readable(stored.output),
    error: stored.error === null ? null : { ...stored.error, at: dateOf(stored.error.at) },
    attempt: stored.attempt,
    maxAttempts: stored.maxAttempts,
    fence: stored.fence,
    runAt: dateOf(stored.runAt),
    dueAt: dateOrNull(stored.dueAt),
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
    progress: stored.progress,
    attempts: stored.attempts.map((attempt) => ({
      ...attempt,
      claimedAt: dateOrNull(attempt.claimedAt),
      startedAt: dateOrNull(attempt.startedAt),
      endedAt: dateOf(attempt.endedAt),
      error: readError(attempt.error),
    })),
    log: stored.log.map(({ at, line }) => ({ at: dateOf(at), line })),
  };
}

/** Attempts of earlier versions have neither cause nor data. */
function readError({ message, code, stack, cause, data }: ErrorRecord): AttemptError {
  return { message, code, stack, cause: cause == null ? null : readError(cause), data: data ?? null };
}

/** A worker as people read it. */
export interface WorkerStatus extends Omit<StoredWorker, "startedAt" | "seenAt"> {
  startedAt: Date;
  /** When it was last heard of. */
  seenAt: Date;
}

export function readWorker(seen: StoredWorker): WorkerStatus {
  return { ...seen, startedAt: dateOf(seen.startedAt), seenAt: dateOf(seen.seenAt) };
}
