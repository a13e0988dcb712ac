import type { WorkerResult } from "../../admin/contract/api-types.js";
import { isLive } from "../../live-worker.js";

/** The types that live workers have handlers for; null where no worker is live, and nothing can be said. */
export function knownTypes(workers: readonly WorkerResult[], now: number): readonly string[] | null {
  const live = workers.filter((worker) => isLive(worker, now));
  return live.length === 0 ? null : [...new Set(live.flatMap(({ types }) => types))];
}
