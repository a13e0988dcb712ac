import { redactErrorData } from "../../job/error-record.js";
import type { WorkerStatus } from "../../engine/client/job-view.js";
import type { Schedule } from "../../engine/scheduler/schedules.js";
import type { AttemptError, Job } from "../../job/job.js";
import type { Redactor } from "../../redact.js";
import type { JobDetail, JobSummary, ScheduleResult, ScheduleSummary, WorkerResult } from "../contract/api-types.js";

const text = (time: Date): string => time.toISOString();
const textOrNull = (time: Date | null): string | null => (time === null ? null : time.toISOString());

/** A job as lists have it: without its payload. */
export function jobSummary(job: Job): JobSummary {
  const { id, type, queue, state, priority, user, attempt, maxAttempts, worker, key, tags, schedule, progress } = job;
  return {
    id,
    type,
    queue,
    state,
    priority,
    user,
    attempt,
    maxAttempts,
    runAt: text(job.runAt),
    dueAt: textOrNull(job.dueAt),
    expiresAt: textOrNull(job.expiresAt),
    createdAt: text(job.createdAt),
    updatedAt: text(job.updatedAt),
    claimedAt: textOrNull(job.claimedAt),
    startedAt: textOrNull(job.startedAt),
    finishedAt: textOrNull(job.finishedAt),
    cancelRequestedAt: textOrNull(job.cancelRequestedAt),
    worker,
    key,
    tags,
    schedule: schedule === null ? null : { name: schedule.name, slot: text(schedule.slot) },
    progress,
    error: job.error === null ? null : { ...job.error, at: text(job.error.at) },
  };
}

export function jobDetail(job: Job, redact: Redactor): JobDetail {
  const { input, output } = redact({ input: job.input, output: job.output });
  return {
    ...jobSummary(job),
    input,
    output,
    trace: job.trace,
    attempts: job.attempts.map((attempt) => ({
      ...attempt,
      claimedAt: textOrNull(attempt.claimedAt),
      startedAt: textOrNull(attempt.startedAt),
      endedAt: text(attempt.endedAt),
      error: shownError(attempt.error, redact),
    })),
    log: job.log.map(({ at, line }) => ({ at: text(at), line })),
  };
}

/** Redacted when it was stored, and by the rules of this client, which may be others. */
function shownError(error: AttemptError, redact: Redactor): AttemptError {
  const { cause, data } = error;
  return {
    ...error,
    cause: cause === null ? null : shownError(cause, redact),
    data: data === null ? null : redactErrorData(redact, data),
  };
}

export function scheduleAnswer(schedule: Schedule, redact: Redactor): ScheduleResult {
  return {
    ...schedule,
    input: redact({ input: schedule.input }).input,
    startAt: textOrNull(schedule.startAt),
    endAt: textOrNull(schedule.endAt),
    nextRunAt: textOrNull(schedule.nextRunAt),
    lastSlot: textOrNull(schedule.lastSlot),
    createdAt: text(schedule.createdAt),
    updatedAt: text(schedule.updatedAt),
    slots: schedule.slots.map((kept) => ({
      ...kept,
      slot: text(kept.slot),
      through: textOrNull(kept.through),
      at: text(kept.at),
    })),
  };
}

/** A schedule as lists have it: without its input, and what became of its slots is not read for those. */
export function scheduleSummary(schedule: Schedule): ScheduleSummary {
  const { slots: _slots, input: _input, ...summary } = scheduleAnswer(schedule, (value) => value);
  return summary;
}

export function workerAnswer({ schedules: _schedules, ...worker }: WorkerStatus): WorkerResult {
  return { ...worker, startedAt: text(worker.startedAt), seenAt: text(worker.seenAt) };
}
