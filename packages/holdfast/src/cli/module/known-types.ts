import type { WorkerResult } from "../../admin/contract/api-types.js";
import { isLive } from "../../live-worker.js";

/** The job types that live workers have handlers for; null if no worker is live. */
export function knownTypes(workers: readonly WorkerResult[], now: number): readonly string[] | null {
  const live = workers.filter((worker) => isLive(worker, now));
  return live.length === 0 ? null : [...new Set(live.flatMap(({ types }) => types))];
}
