import { DEFAULTS, LIMITS } from "../../defaults.js";
import { durationMs, type Duration } from "../../duration.js";
import { describeError, redactError, type ErrorRecord } from "../../job/error-record.js";
import { isCancel, isNotRetryable, retryAfterOf } from "../../errors.js";
import { fingerprintOf, STALE_FINGERPRINT, type Fingerprint } from "../../job/fingerprint.js";
import type { Redactor } from "../../redact.js";
import type { Backoff } from "../../job/retry.js";
import { EXPIRED_ERROR, STALE_ERROR } from "../../job/state.js";
import type { AttemptRecord, ClaimedJob, Outcome } from "../../store.js";

/**
 * Decides the outcome of an attempt: completed, failed with a retry delay, dead, cancelled or released. Pure functions; nothing
 * here calls a store.
 */

/** The part of a lease that these functions use. */
export interface LeasedJob {
  job: ClaimedJob;
  worker: string;
  claimedAt: number;
  startedAt: number | null;
  /** The group of the error with which the attempt ends, set by these functions. */
  fingerprint: Fingerprint | null;
}

function outcome(lease: LeasedJob, to: Outcome["to"], more: Partial<Outcome> = {}): Outcome {
  return {
    id: lease.job.id,
    fence: lease.job.fence,
    to,
    output: null,
    delayMs: 0,
    attempt: lease.job.attempt,
    releases: lease.job.releases,
    error: null,
    startedAt: lease.startedAt,
    attemptRecord: null,
    keep: true,
    keepMs: null,
    purgeMs: null,
    ...more,
  };
}

/** The outcome of a claimed job that must not run (no attempt is counted); null if it may run. */
export function rejectUnrun(lease: LeasedJob, now: number): Outcome | null {
  const { job } = lease;
  const attempt = job.previous.attempt;
  if (job.cancelRequested) return outcome(lease, "cancelled", { attempt });
  if (job.previous.exhausted) {
    return outcome(lease, "dead", { attempt, error: { ...STALE_ERROR, fingerprint: STALE_FINGERPRINT } });
  }
  if (job.expiresAt !== null && job.expiresAt <= now) {
    return outcome(lease, "dead", { attempt, error: EXPIRED_ERROR });
  }
  return null;
}

interface ParkedRun {
  until: number | null;
  wakes: number;
  storeNow: number;
  /** It stored the end of a step. */
  hasProgressed: boolean;
}

/**
 * The job waits for its steps, until a time of the store or without limit. Its attempt is given back; if the run stored the end of a
 * step, attempts start again at 0.
 */
export function parked(lease: LeasedJob, { until, wakes, storeNow, hasProgressed }: ParkedRun): Outcome {
  const { job } = lease;
  return outcome(lease, "pending", {
    // Whole milliseconds, for stores with integers: the monotonic clock has fractions.
    delayMs: until === null ? LIMITS.durationMs : Math.max(0, Math.ceil(until - storeNow)),
    attempt: hasProgressed ? 0 : job.previous.attempt,
    releases: hasProgressed ? 0 : job.releases,
    park: { until: until === null ? null : Math.ceil(until), wakes },
  });
}

export function completed(lease: LeasedJob, output: string): Outcome {
  return outcome(lease, "completed", { output });
}

/** How much of an attempt's error is stored. */
const STORED_ERROR_LIMITS = {
  message: LIMITS.errorLength,
  stack: LIMITS.stackLength,
  causes: LIMITS.errorCauses,
  dataBytes: LIMITS.errorDataBytes,
};

export interface RetrySettings {
  backoff: Backoff;
  random: () => number;
  now: number;
  /** False: the job is dead, whatever was thrown. */
  retry?: boolean;
  /** False: the stack is not stored. The engine threw the error, so its stack shows nothing of the application. */
  storeStack?: boolean;
  /** Applied to the fields that the error carries besides its message. */
  redact: Redactor;
  /** Called if the backoff function returns no valid delay. */
  onInvalidBackoff: (error: unknown) => void;
}

/**
 * The attempt failed: the job waits for a retry, or is dead. If the handler threw `Cancel`, the job is cancelled. A promise if
 * the backoff function returns one.
 */
export function failed(lease: LeasedJob, thrown: unknown, policy: RetrySettings): Outcome | Promise<Outcome> {
  const { job } = lease;
  const isDead = isNotRetryable(thrown) || policy.retry === false || job.attempt >= job.maxAttempts;
  const described = redactError(policy.redact, describeError(thrown, STORED_ERROR_LIMITS));
  const error = policy.storeStack === false ? { ...described, stack: null } : described;
  const shown = { message: error.message, code: error.code };
  if (isCancel(thrown)) return { ...cancelled(lease, policy.now), error: shown };
  lease.fingerprint = fingerprintOf(job.type, thrown, { stack: policy.storeStack !== false });
  const grouped = { ...shown, fingerprint: lease.fingerprint.id };
  const attempted = { error: grouped, attemptRecord: attemptRecord(lease, "failed", error, policy.now) };
  if (isDead) return outcome(lease, "dead", attempted);
  const delay = retryDelay(job.attempt, thrown, policy);
  const retried = (delayMs: number): Outcome => outcome(lease, "failed", { ...attempted, delayMs });
  return typeof delay === "number" ? retried(delay) : delay.then(retried);
}

/** A backoff function or `RetryAfter` with an invalid delay must not cost the job its retry. */
function retryDelay(
  attempt: number,
  thrown: unknown,
  { backoff, random, onInvalidBackoff }: RetrySettings,
): number | Promise<number> {
  const invalid = (error: unknown): number => {
    onInvalidBackoff(error);
    return DEFAULTS.backoff.base;
  };
  try {
    const requested = retryAfterOf(thrown);
    if (requested !== undefined) return durationMs(requested as Duration, "RetryAfter");
    const delay = backoff(attempt, thrown, random);
    return typeof delay === "number" ? delay : delay.catch(invalid);
  } catch (error) {
    return invalid(error);
  }
}

function attemptRecord(
  lease: LeasedJob,
  end: AttemptRecord["end"] & string,
  error: ErrorRecord | null,
  now: number,
): AttemptRecord {
  return {
    attempt: lease.job.attempt,
    fence: lease.job.fence,
    end,
    worker: lease.worker,
    claimedAt: lease.claimedAt,
    startedAt: lease.startedAt,
    endedAt: now,
    error,
  };
}

/** The job was cancelled. An attempt is counted only if its handler had started. */
export function cancelled(lease: LeasedJob, now: number): Outcome {
  if (lease.startedAt === null) return outcome(lease, "cancelled", { attempt: lease.job.previous.attempt });
  // The record of the job shows the attempt only until the job is retried.
  return outcome(lease, "cancelled", { attemptRecord: attemptRecord(lease, "cancelled", null, now) });
}

/**
 * The job is released for another worker. If its handler had started, the attempt is counted from the fourth release on:
 * otherwise a job that stops its worker every time would run forever.
 */
export function released(lease: LeasedJob, now: number, delayMs = 0): Outcome {
  const { job } = lease;
  const attempted = { delayMs, attemptRecord: attemptRecord(lease, "released", null, now) };
  if (lease.startedAt === null) return outcome(lease, "pending", { delayMs, attempt: job.previous.attempt });
  if (job.releases >= LIMITS.freeReleases) {
    if (job.attempt >= job.maxAttempts) {
      return outcome(lease, "dead", { ...attempted, error: groupedError(lease, RELEASED_ERROR) });
    }
    return outcome(lease, "pending", attempted);
  }
  return outcome(lease, "pending", { ...attempted, attempt: job.previous.attempt, releases: job.releases + 1 });
}

const RELEASED_ERROR = { message: "Released too often with no attempt left", code: "RELEASED" };

/** An error of the engine itself, in a group of its own for each type. */
function groupedError(lease: LeasedJob, error: { message: string; code: string }): NonNullable<Outcome["error"]> {
  lease.fingerprint = fingerprintOf(lease.job.type, error);
  return { ...error, fingerprint: lease.fingerprint.id };
}

/** Error code of a job whose type has no handler. */
export const NO_HANDLER = "NO_HANDLER";

/**
 * No handler for the type here. The job is deferred, because a new version may be rolling out. It is dead once no worker has had
 * a handler for 10 minutes, or immediately with `deadLetterNow`.
 */
export function deferUnknownType(
  lease: LeasedJob,
  now: number,
  policy: { deadLetterNow: boolean; hasRecentHandler: boolean },
): Outcome {
  const { job } = lease;
  const error = { message: `No handler registered for job_type: ${job.type}`, code: NO_HANDLER };
  const unknownSince = job.error?.code === NO_HANDLER ? job.error.at : now;
  if (policy.deadLetterNow || (!policy.hasRecentHandler && now - unknownSince >= DEFAULTS.unknownTypeMs)) {
    return outcome(lease, "dead", {
      error: groupedError(lease, error),
      attempt: job.previous.attempt,
      attemptRecord: attemptRecord(lease, "failed", { ...error, stack: null }, now),
    });
  }
  return outcome(lease, "pending", {
    delayMs: DEFAULTS.unknownTypeDelayMs,
    attempt: job.previous.attempt,
    // Set only once: the error's time says since when the job has had no handler.
    error: job.error?.code === NO_HANDLER ? null : error,
  });
}
