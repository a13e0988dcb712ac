import { DEFAULTS, LIMITS } from "../../defaults.js";
import { durationMs, type Duration } from "../../duration.js";
import { describeError, redactError, type ErrorRecord } from "../../job/error-record.js";
import { isNotRetryable, retryAfterOf } from "../../errors.js";
import type { Redactor } from "../../redact.js";
import type { Backoff } from "../../job/retry.js";
import { EXPIRED_ERROR, STALE_ERROR } from "../../job/state.js";
import type { ClaimedJob, Outcome } from "../../store.js";

/**
 * Policy: what becomes of a lease. Functions of values; nothing here touches a store.
 */

/** A lease as these functions see it. */
export interface LeasedJob {
  job: ClaimedJob;
  worker: string;
  claimedAt: number;
  startedAt: number | null;
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
    ...more,
  };
}

/** Whether a claimed job may run; if not, the outcome that lays it down, unrun and without counting an attempt. */
export function triage(lease: LeasedJob, now: number): Outcome | null {
  const { job } = lease;
  const attempt = job.previous.attempt;
  if (job.cancelRequested) return outcome(lease, "cancelled", { attempt });
  if (job.previous.exhausted) return outcome(lease, "dead", { attempt, error: STALE_ERROR });
  if (job.expiresAt !== null && job.expiresAt <= now) {
    return outcome(lease, "dead", { attempt, error: EXPIRED_ERROR });
  }
  return null;
}

export function completed(lease: LeasedJob, output: string): Outcome {
  return outcome(lease, "completed", { output });
}

/** What is kept of the error of an attempt. */
const KEPT = {
  message: LIMITS.errorLength,
  stack: LIMITS.stackLength,
  causes: LIMITS.errorCauses,
  dataBytes: LIMITS.errorDataBytes,
};

export interface FailurePolicy {
  backoff: Backoff;
  random: () => number;
  now: number;
  /** False: whatever was thrown, it is final. */
  retry?: boolean;
  /** For what the error carries beside its message. */
  redact: Redactor;
  /** Told of a backoff function that gave no delay. */
  onBadBackoff: (error: unknown) => void;
}

/** The handler failed: wait for the retry, or give up. */
export function failed(lease: LeasedJob, thrown: unknown, policy: FailurePolicy): Outcome {
  const { job } = lease;
  const givenUp = isNotRetryable(thrown) || policy.retry === false || job.attempt >= job.maxAttempts;
  const error = redactError(policy.redact, describeError(thrown, KEPT));
  return outcome(lease, givenUp ? "dead" : "failed", {
    delayMs: givenUp ? 0 : retryDelay(job.attempt, thrown, policy),
    error: { message: error.message, code: error.code },
    attemptRecord: history(lease, error, policy.now),
  });
}

/** A backoff function or a RetryAfter that gives nonsense must not cost the job its retry. */
function retryDelay(attempt: number, thrown: unknown, { backoff, random, onBadBackoff }: FailurePolicy): number {
  try {
    const asked = retryAfterOf(thrown);
    if (asked !== undefined) return durationMs(asked as Duration, "RetryAfter");
    return backoff(attempt, thrown, random);
  } catch (error) {
    onBadBackoff(error);
    return DEFAULTS.backoff.base;
  }
}

function history(lease: LeasedJob, error: ErrorRecord, now: number): Outcome["attemptRecord"] {
  return {
    attempt: lease.job.attempt,
    worker: lease.worker,
    claimedAt: lease.claimedAt,
    startedAt: lease.startedAt,
    endedAt: now,
    error,
  };
}

/** The handler stopped because it was asked to, or never began: then no attempt is counted. */
export function cancelled(lease: LeasedJob): Outcome {
  const { attempt, previous } = lease.job;
  return outcome(lease, "cancelled", { attempt: lease.startedAt === null ? previous.attempt : attempt });
}

/** Handed back. A handler that had begun gives its attempt back only so often, or a job could go round for ever. */
export function released(lease: LeasedJob, delayMs = 0): Outcome {
  const { job } = lease;
  if (lease.startedAt === null) return unrun(lease, delayMs);
  if (job.releases >= LIMITS.freeReleases) {
    if (job.attempt >= job.maxAttempts) {
      return outcome(lease, "dead", {
        error: { message: "Released too often with no attempt left", code: "RELEASED" },
      });
    }
    return outcome(lease, "pending", { delayMs });
  }
  return outcome(lease, "pending", { delayMs, attempt: job.previous.attempt, releases: job.releases + 1 });
}

/** Handed back without having run: no attempt is counted. */
function unrun(lease: LeasedJob, delayMs: number): Outcome {
  return outcome(lease, "pending", { delayMs, attempt: lease.job.previous.attempt });
}

/** Code of the error of a job whose type nobody knows. */
export const NO_HANDLER = "NO_HANDLER";

/**
 * No handler here: laid aside, because another version may be rolling out; dead once the job has been seen without a
 * handler for long enough and no live worker lists the type.
 */
export function unknownType(
  lease: LeasedJob,
  now: number,
  policy: { atOnce: boolean; listedElsewhere: boolean },
): Outcome {
  const { job } = lease;
  const error = { message: `No handler registered for job_type: ${job.type}`, code: NO_HANDLER };
  const firstSeen = job.error?.code === NO_HANDLER ? job.error.at : now;
  if (policy.atOnce || (!policy.listedElsewhere && now - firstSeen >= DEFAULTS.unknownTypeMs)) {
    return outcome(lease, "dead", {
      error,
      attempt: job.previous.attempt,
      attemptRecord: history(lease, { ...error, stack: null }, now),
    });
  }
  return outcome(lease, "pending", {
    delayMs: DEFAULTS.unknownTypeDelayMs,
    attempt: job.previous.attempt,
    // Setting the error again would move its time; the first sighting is what counts.
    error: job.error?.code === NO_HANDLER ? null : error,
  });
}
