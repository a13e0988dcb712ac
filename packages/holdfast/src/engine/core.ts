import type { Clock } from "../clock.js";
import type { JobType } from "../job.js";
import type { ClaimedJob, NewJob, Store } from "../store.js";
import type { Emitter } from "./events.js";
import type { Logger } from "./logger.js";
import type { LeasedJob } from "./outcome.js";
import type { Settler } from "./settler.js";

/** What the parts of one client share. */
export interface Core {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: () => number;
  readonly types: ReadonlyMap<string, JobType>;
  readonly events: Emitter;
  readonly logger: Logger;
  readonly settler: Settler;
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
}

export function holdLease(job: ClaimedJob, worker: string, claimedAt: number, deadline: number): HeldLease {
  return { job, worker, claimedAt, startedAt: null, deadline };
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
