import type { Clock } from "../clock.js";
import type { JobType } from "../job/job.js";
import type { ClaimedJob, NewJob, Store } from "../store.js";
import type { Cursors } from "./client/cursors.js";
import type { Enqueuer } from "./enqueue/enqueuer.js";
import type { ErrorGroups } from "./events/error-groups.js";
import type { Emitter } from "./events/events.js";
import type { Logger } from "./events/logger.js";
import type { HistoryRecorder } from "./history/recorder.js";
import type { LeasedJob } from "./worker/decide-outcome.js";
import type { Redactor } from "../redact.js";
import type { Restorer } from "../restore.js";
import type { Reports } from "./events/reports.js";
import type { RetryDefaults } from "./worker/retry-defaults.js";
import type { Settler } from "./worker/settler.js";
import type { HandlerTrace, Traces } from "./events/telemetry.js";
import type { TransitionReader } from "./events/transition-reader.js";
import type { StepWriter } from "./steps/step-writer.js";

/** What the parts of one client share. */
export interface EngineContext {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: () => number;
  readonly types: ReadonlyMap<string, JobType>;
  readonly retry: RetryDefaults;
  readonly events: Emitter;
  readonly logger: Logger;
  readonly settler: Settler;
  /** Null: no telemetry is configured. */
  readonly traces: Traces | null;
  /** Null: no error reporter is configured. */
  readonly reports: Reports | null;
  readonly history: HistoryRecorder;
  readonly errorGroups: ErrorGroups;
  readonly transitions: TransitionReader;
  readonly enqueuer: Enqueuer;
  readonly stepWriter: StepWriter;
  readonly cursors: Cursors;
  readonly redact: Redactor;
  /** Restores the redacted values of a payload that a caller sends back. */
  readonly restore: Restorer;
  /** How long audit entries are stored; null: forever. */
  readonly auditRetentionMs: number | null;
  /** Names of the schedules that this process's code defines. */
  readonly definedSchedules: Set<string>;
  /** Called when this process's code defines another schedule. */
  readonly scheduleDefinedListeners: Set<() => void>;
  /** Queues of workers that neither a job type nor the store knows, and that were logged already. */
  readonly warnedQueues: Set<string>;
  /** Called in the same event-loop iteration as the insert, so that an idle worker's claim can share its transaction. */
  readonly insertListeners: Set<(jobs: readonly NewJob[]) => void>;
}

/** A lease held by this process. */
export interface HeldLease extends LeasedJob {
  /** Monotonic time until which this process surely holds the lease: counted from before the call that granted it. */
  deadline: number;
  /** Monotonic time of the claim, and how long after it the handler started. */
  readonly claimedMonotonic: number;
  startDelayMs: number;
  /** The telemetry trace of its handler. */
  trace: HandlerTrace | null;
  /** What the handler threw; null if it threw nothing. */
  thrown: { error: unknown } | null;
  /** The failure was already sent to the error reporter. */
  reported: boolean;
  /** The handler continues after a wait: the time since the job was due was no wait for a worker. */
  resumed: boolean;
}

export function newHeldLease(
  job: ClaimedJob,
  worker: string,
  claim: { at: number; sentAt: number; leaseMs: number },
): HeldLease {
  return {
    job,
    worker,
    claimedAt: claim.at,
    startedAt: null,
    fingerprint: null,
    // Measured from before the call: the store may have granted the lease at any time since then.
    deadline: claim.sentAt + claim.leaseMs,
    claimedMonotonic: claim.sentAt,
    startDelayMs: 0,
    trace: null,
    thrown: null,
    reported: false,
    resumed: false,
  };
}

/**
 * How long the job waited, from its due time until its handler started. Due time and claim time come from the store's clock,
 * the time since the claim from ours.
 */
export function queueWaitMs({ claimedAt, job, startDelayMs, resumed }: HeldLease): number {
  if (resumed) return startDelayMs;
  return Math.max(0, claimedAt - job.runAt) + startDelayMs;
}

export function leaseEvent(lease: LeasedJob): {
  id: string;
  type: string;
  queue: string;
  worker: string;
  attempt: number;
} {
  const { id, type, queue, attempt } = lease.job;
  return { id, type, queue, worker: lease.worker, attempt };
}
