import { STATE_NAMES, type FinishedState, type State } from "../../job/state.js";
import type { StoreStats } from "../../store.js";

export interface Stats {
  /** Jobs by state. */
  states: Record<State, number>;
  queues: Record<string, Record<State, number>>;
  types: Record<string, Record<State, number>>;
  /** Jobs by queue, type and state, without combinations that have no jobs. */
  counts: readonly { queue: string; type: string; state: State; count: number }[];
  /** How long the oldest due job has been due; null if none is due. Jobs in paused queues are not counted. */
  oldestDueMs: number | null;
  /** The same for each queue with due jobs, at most 1,000. */
  oldestDue: readonly { queue: string; dueMs: number }[];
  /** Jobs that finished in the last minute. */
  lastMinute: Record<FinishedState, number>;
  /** Jobs completed per second, over the last minute. */
  completedPerSecond: number;
}

export function readStats(stored: StoreStats): Stats {
  const states = noJobs();
  // Maps, not objects: names come from callers, and "__proto__" would reach the prototype of all objects.
  const queues = new Map<string, Record<State, number>>();
  const types = new Map<string, Record<State, number>>();
  for (const { queue, type, state, count } of stored.counts) {
    states[state] += count;
    countsOf(queues, queue)[state] += count;
    countsOf(types, type)[state] += count;
  }
  return {
    states,
    queues: Object.fromEntries(queues),
    types: Object.fromEntries(types),
    counts: stored.counts,
    oldestDueMs: stored.oldestDueMs,
    oldestDue: stored.oldestDue,
    lastMinute: stored.lastMinute,
    completedPerSecond: stored.lastMinute.completed / 60,
  };
}

function countsOf(counts: Map<string, Record<State, number>>, name: string): Record<State, number> {
  let known = counts.get(name);
  if (known === undefined) counts.set(name, (known = noJobs()));
  return known;
}

function noJobs(): Record<State, number> {
  return Object.fromEntries(STATE_NAMES.map((state) => [state, 0])) as Record<State, number>;
}
