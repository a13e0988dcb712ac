import type { ErrorRecord } from "../error-record.js";
import type { AttemptError, Job, JobSlot } from "../job.js";
import { fromJson } from "../json.js";
import type { ScheduleSlot, SeenWorker, StoredJob } from "../store.js";
import { givenKey } from "./unique.js";
import { readCarrier } from "./telemetry.js";

const date = (ms: number): Date => new Date(ms);
const dateOrNull = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

/** A payload that was damaged in the database reads as null: the rest of the record is still worth showing. */
export function readable(text: string | null): unknown {
  try {
    return text === null ? null : fromJson(text);
  } catch {
    return null;
  }
}

/** The slot a job was made for, as people read it. */
export function readSlot(stored: ScheduleSlot | null): JobSlot | null {
  return stored === null ? null : { name: stored.name, slot: date(stored.slot) };
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
    error: stored.error === null ? null : { ...stored.error, at: date(stored.error.at) },
    attempt: stored.attempt,
    maxAttempts: stored.maxAttempts,
    fence: stored.fence,
    runAt: date(stored.runAt),
    dueAt: dateOrNull(stored.dueAt),
    expiresAt: dateOrNull(stored.expiresAt),
    createdAt: date(stored.createdAt),
    updatedAt: date(stored.updatedAt),
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
      endedAt: date(attempt.endedAt),
      error: readError(attempt.error),
    })),
    log: stored.log.map(({ at, line }) => ({ at: date(at), line })),
  };
}

/** Attempts of earlier versions have neither cause nor data. */
function readError({ message, code, stack, cause, data }: ErrorRecord): AttemptError {
  return { message, code, stack, cause: cause == null ? null : readError(cause), data: data ?? null };
}

/** A worker as people read it. */
export interface ListedWorker extends Omit<SeenWorker, "startedAt" | "seenAt"> {
  startedAt: Date;
  /** When it was last heard of. */
  seenAt: Date;
}

export function readWorker(seen: SeenWorker): ListedWorker {
  return { ...seen, startedAt: date(seen.startedAt), seenAt: date(seen.seenAt) };
}
