import { LIMITS } from "../defaults.js";
import type { StoreStats } from "../store.js";

/** The part of the stats about due jobs, from how long the oldest of each queue has been due. */
export function oldestDueOf(dueMs: ReadonlyMap<string, number>): Pick<StoreStats, "oldestDue" | "oldestDueMs"> {
  const longestFirst = [...dueMs].toSorted(([, one], [, other]) => other - one);
  return {
    oldestDueMs: longestFirst[0]?.[1] ?? null,
    oldestDue: longestFirst.slice(0, LIMITS.statsQueues).map(([queue, each]) => ({ queue, dueMs: each })),
  };
}
