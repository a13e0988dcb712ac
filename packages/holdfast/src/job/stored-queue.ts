import type { FinishedState, State } from "./state.js";

export interface StoreStats {
  /** Jobs by queue, type and state. Combinations without jobs are omitted. */
  counts: { queue: string; type: string; state: State; count: number }[];
  /** How long the oldest due job has waited for a worker; null if none is due. Paused queues do not count. */
  oldestDueMs: number | null;
  /** The same for each queue with due jobs, at most `LIMITS.statsQueues`. */
  oldestDue: { queue: string; dueMs: number }[];
  /** Jobs that ended in the last 60 seconds. */
  lastMinute: Record<FinishedState, number>;
  /** Some jobs were not counted: the store stopped at `atMost`, or after as many requests as it makes for a count with a limit. */
  partial?: boolean;
}

/** Which counts are needed. A store that charges for requests may leave out everything else; others may ignore this. */
export interface StatsRequest {
  states?: readonly State[] | undefined;
  types?: readonly string[] | undefined;
  queues?: readonly string[] | undefined;
  /** More jobs than these need not be counted. */
  atMost?: number;
}

/** Whether jobs of this queue, type and state are to be counted. */
export function isRequested(
  { states, types, queues }: StatsRequest,
  { queue, type, state }: { queue: string; type: string; state: State },
): boolean {
  return (states?.includes(state) ?? true) && (types?.includes(type) ?? true) && (queues?.includes(queue) ?? true);
}

export interface QueueRecord {
  queue: string;
  paused: boolean;
  /** Null: not paused, or paused by an earlier version. */
  pausedAt: number | null;
  pausedBy: string | null;
  priorities: number[];
}

/** The place of a waiting job in the order of claims. */
export interface QueuePosition {
  id: string;
  queue: string;
  priority: number;
  dueAt: number;
}
