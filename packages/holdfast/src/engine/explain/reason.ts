/**
 * Why a job does not run. Later versions add kinds, so handle those you do not know by showing their text.
 *
 * - `completed`, `dead`, `cancelled`: it has ended. `key-held`: it cannot be retried, because another job has its unique key.
 * - `leased`: a worker has it. `worker-lost`: that worker is not live any more. `cancelling`: cancellation was requested.
 * - `due-later`, `retry`, `no-handler`: it waits for a time. `expired`: it waited too long.
 * - `waits-for-event`, `waits-for-job`, `sleeps`, `step-retry`: its steps wait.
 * - `paused`: its queue is paused, or all queues are. `no-worker`: no live worker takes it. `ahead`: other jobs come first.
 * - `busy`: all workers that take it are busy. `ready`: nothing holds it back.
 */
export type ReasonKind =
  | "completed"
  | "dead"
  | "cancelled"
  | "key-held"
  | "leased"
  | "worker-lost"
  | "cancelling"
  | "expired"
  | "due-later"
  | "retry"
  | "no-handler"
  | "waits-for-event"
  | "waits-for-job"
  | "sleeps"
  | "step-retry"
  | "paused"
  | "no-worker"
  | "ahead"
  | "busy"
  | "ready"
  | (string & {});

/** One reason why a job does not run, or what it does instead. */
export interface Reason {
  kind: ReasonKind;
  text: string;
  /** What would change it; null if nothing can. */
  change: string | null;
  /** When it changes by itself, if that is known. */
  until: Date | null;
  /** Other jobs that come first, for `ahead`. */
  jobs?: number;
  /** The worker that has the job, for `leased` and `worker-lost`; those that could take it, for `busy`. */
  workers?: readonly string[];
  /** The job that holds the unique key, for `key-held`; the child, for `waits-for-job`. */
  job?: string;
  /** The event, for `waits-for-event`. */
  event?: string;
  /** The paused queue, for `paused`; null: all queues are. */
  queue?: string | null;
}

/** Without milliseconds: it is for people. */
export function timeText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
