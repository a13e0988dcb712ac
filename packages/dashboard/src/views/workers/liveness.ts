import type { JobSummary, WorkerResult } from "holdfast/admin";
import { isLive } from "../../app/workers.js";

export type Liveness = "live" | "missing" | "stopped";

export function livenessOf({ left, seenAt }: Pick<WorkerResult, "left" | "seenAt">, now: number): Liveness {
  if (left) return "stopped";
  return isLive({ left, seenAt }, now) ? "live" : "missing";
}

/** The active jobs of each worker: running ones before those that are only claimed, and those that started first at the top. */
export function jobsByWorker(jobs: Iterable<JobSummary>): Map<string, JobSummary[]> {
  const groups = new Map<string, JobSummary[]>();
  for (const job of jobs) {
    if (job.worker === null || !isActive(job)) continue;
    const group = groups.get(job.worker);
    if (group === undefined) groups.set(job.worker, [job]);
    else group.push(job);
  }
  for (const group of groups.values())
    group.sort((one, other) => rank(one) - rank(other) || startOf(one) - startOf(other));
  return groups;
}

function rank({ state }: JobSummary): number {
  return state === "running" ? 0 : 1;
}

export function isActive({ state }: Pick<JobSummary, "state">): boolean {
  return state === "running" || state === "claimed";
}

export function startOf({ startedAt, claimedAt, updatedAt }: JobSummary): number {
  return Date.parse(startedAt ?? claimedAt ?? updatedAt);
}
