import type { Clock } from "../clock.js";
import type { JobType } from "../job/job.js";
import type { ClaimedJob, NewJob, Store } from "../store.js";
import type { Cursors } from "./client/cursors.js";
import type { Emitter } from "./events/events.js";
import type { Logger } from "./events/logger.js";
import type { FailurePolicy, LeasedJob } from "./worker/outcome.js";
import type { Redactor } from "../redact.js";
import type { Restorer } from "../restore.js";
import type { Reports } from "./events/reports.js";
import type { RetryDefaults } from "./worker/retry-defaults.js";
import type { Settler } from "./worker/settler.js";
import type { HandlerTrace, Traces } from "./events/telemetry.js";

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
  /** Null: nobody traces. */
  readonly traces: Traces | null;
  /** Null: failures are kept with their jobs and logged, and that is all. */
  readonly reports: Reports | null;
  readonly cursors: Cursors;
  readonly redact: Redactor;
  /** The other way: for payloads that come back as they were shown. */
  readonly restore: Restorer;
  /** Schedules that this process's code defines. */
  readonly defined: Set<string>;
  /** Called when there is another. */
  readonly defining: Set<() => void>;
  /** Queues that a worker takes from and nobody knows, and that were told. */
  readonly toldQueues: Set<string>;
  /** Called in the turn in which jobs are sent to the store, so that an idle worker's claim can go with them. */
  readonly inserting: Set<(jobs: readonly NewJob[]) => void>;
}

/** A lease held by this process. */
export interface HeldLease extends LeasedJob {
  /** Monotonic time until which the lease is surely ours. */
  deadline: number;
  /** Monotonic time of the claim, and how long after it the handler began. */
  readonly claimedMonotonic: number;
  readyMs: number;
  /** Its handler as telemetry sees it. */
  trace: HandlerTrace | null;
  /** What made the attempt fail, as it was thrown; null if nothing was. */
  thrown: { error: unknown } | null;
  /** The failure is told already. */
  reported: boolean;
}

export function holdLease(
  job: ClaimedJob,
  worker: string,
  claim: { at: number; sentAt: number; leaseMs: number },
): HeldLease {
  return {
    job,
    worker,
    claimedAt: claim.at,
    startedAt: null,
    // The lease counts from before the call: the store may have granted it at any time since.
    deadline: claim.sentAt + claim.leaseMs,
    claimedMonotonic: claim.sentAt,
    readyMs: 0,
    trace: null,
    thrown: null,
    reported: false,
  };
}

/** How a failure of this lease is judged: by what the job type says, or else the client. */
export function failurePolicy(
  { clock, logger, random, redact, types, retry }: EngineContext,
  { job }: LeasedJob,
): FailurePolicy {
  const { backoff } = types.get(job.type) ?? retry;
  const onBadBackoff = (error: unknown): void =>
    void logger.error({ job: job.id, type: job.type, error }, "no delay could be computed; the retry waits for 30 s");
  return { backoff, random, redact, onBadBackoff, now: clock.now() };
}

/** From when the job was due until its handler began. Due time and claim are by the store's clock, the rest by ours. */
export function waitOf({ claimedAt, job, readyMs }: HeldLease): number {
  return Math.max(0, claimedAt - job.runAt) + readyMs;
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
