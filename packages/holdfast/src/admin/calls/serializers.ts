import { redactErrorData } from "../../job/error-record.js";
import type { WorkerStatus } from "../../engine/client/job-view.js";
import type { Schedule } from "../../engine/scheduler/schedules.js";
import type { AttemptError, Job } from "../../job/job.js";
import type { Redactor } from "../../redact.js";
import type { ApiToken } from "../../engine/client/tokens.js";
import type { QueueStatus } from "../../engine/client/queues.js";
import type {
  JobDetail,
  JobSummary,
  QueueResult,
  ScheduleResult,
  ScheduleSummary,
  TokenResult,
  WorkerResult,
} from "../contract/api-types.js";

const iso = (time: Date): string => time.toISOString();
const isoOrNull = (time: Date | null): string | null => (time === null ? null : time.toISOString());

/** A job in a list, without its payload. */
export function jobSummary(job: Job, redact: Redactor): JobSummary {
  const { id, type, queue, state, priority, user, attempt, maxAttempts, worker, key, tags, schedule } = job;
  const { parent, timeoutMs, progress } = job;
  return {
    id,
    type,
    queue,
    state,
    priority,
    user,
    attempt,
    maxAttempts,
    runAt: iso(job.runAt),
    dueAt: isoOrNull(job.dueAt),
    expiresAt: isoOrNull(job.expiresAt),
    createdAt: iso(job.createdAt),
    updatedAt: iso(job.updatedAt),
    claimedAt: isoOrNull(job.claimedAt),
    startedAt: isoOrNull(job.startedAt),
    finishedAt: isoOrNull(job.finishedAt),
    cancelRequestedAt: isoOrNull(job.cancelRequestedAt),
    worker,
    key,
    tags,
    schedule: schedule === null ? null : { name: schedule.name, slot: iso(schedule.slot) },
    parent,
    timeoutMs,
    progress: progress === null ? null : redactProgress(progress, redact),
    error: job.error === null ? null : { ...job.error, at: iso(job.error.at) },
  };
}

/** Redacts the object that a handler stored with its progress; paths name it `progress.data`. */
export function redactProgress<Progress extends { data: unknown }>(given: Progress, redact: Redactor): Progress {
  // A path may match any level, and the redactor replaces that level with a string.
  const { progress } = redact<{ progress: { data: unknown } | string }>({ progress: { data: given.data } });
  return { ...given, data: typeof progress === "object" ? progress.data : progress };
}

export function jobDetail(job: Job, redact: Redactor): JobDetail {
  const { input, output } = redact({ input: job.input, output: job.output });
  return {
    ...jobSummary(job, redact),
    input,
    output,
    fence: job.fence,
    trace: job.trace,
    attempts: job.attempts.map((attempt) => ({
      ...attempt,
      claimedAt: isoOrNull(attempt.claimedAt),
      startedAt: isoOrNull(attempt.startedAt),
      endedAt: iso(attempt.endedAt),
      error: attempt.error === null ? null : redactError(attempt.error, redact),
    })),
    log: job.log.map(({ at, line }) => ({ at: iso(at), line })),
  };
}

/** Errors are redacted when stored. Redact again: the rules of this client may differ. */
function redactError(error: AttemptError, redact: Redactor): AttemptError {
  const { cause, data } = error;
  return {
    ...error,
    cause: cause === null ? null : redactError(cause, redact),
    data: data === null ? null : redactErrorData(redact, data),
  };
}

export function scheduleResult(schedule: Schedule, redact: Redactor): ScheduleResult {
  return {
    ...schedule,
    input: redact({ input: schedule.input }).input,
    startAt: isoOrNull(schedule.startAt),
    endAt: isoOrNull(schedule.endAt),
    nextRunAt: isoOrNull(schedule.nextRunAt),
    lastSlot: isoOrNull(schedule.lastSlot),
    createdAt: iso(schedule.createdAt),
    updatedAt: iso(schedule.updatedAt),
    slots: schedule.slots.map((entry) => ({
      ...entry,
      slot: iso(entry.slot),
      through: isoOrNull(entry.through),
      at: iso(entry.at),
    })),
  };
}

/** A schedule in a list, without its input and without the slot history, which lists do not read. */
export function scheduleSummary(schedule: Schedule): ScheduleSummary {
  const { slots: _slots, input: _input, ...summary } = scheduleResult(schedule, (value) => value);
  return summary;
}

export function queueResult(queue: QueueStatus): QueueResult {
  return { ...queue, pausedAt: isoOrNull(queue.pausedAt) };
}

export function workerResult({ schedules: _schedules, version, jobs, ...worker }: WorkerStatus): WorkerResult {
  return {
    ...worker,
    version: version ?? null,
    jobs: jobs ?? [],
    startedAt: iso(worker.startedAt),
    seenAt: iso(worker.seenAt),
  };
}

export function tokenResult(token: ApiToken): TokenResult {
  return { ...token, createdAt: iso(token.createdAt), expiresAt: isoOrNull(token.expiresAt) };
}
