import { STATE_NAMES, type FinishedState, type State } from "../state.js";
import type { StoreStats } from "../store.js";

export interface Stats {
  /** Jobs by state. */
  states: Record<State, number>;
  queues: Record<string, Record<State, number>>;
  types: Record<string, Record<State, number>>;
  /** How long the job that has been due longest has waited; null if none is due. */
  oldestDueMs: number | null;
  /** Jobs that ended in the last minute. */
  lastMinute: Record<FinishedState, number>;
  /** Jobs completed a second, over the last minute. */
  completedPerSecond: number;
}

export function readStats(stored: StoreStats): Stats {
  const states = noJobs();
  const queues: Record<string, Record<State, number>> = {};
  const types: Record<string, Record<State, number>> = {};
  for (const { queue, type, state, count } of stored.counts) {
    states[state] += count;
    (queues[queue] ??= noJobs())[state] += count;
    (types[type] ??= noJobs())[state] += count;
  }
  return {
    states,
    queues,
    types,
    oldestDueMs: stored.oldestDueMs,
    lastMinute: stored.lastMinute,
    completedPerSecond: stored.lastMinute.completed / 60,
  };
}

function noJobs(): Record<State, number> {
  return Object.fromEntries(STATE_NAMES.map((state) => [state, 0])) as Record<State, number>;
}
