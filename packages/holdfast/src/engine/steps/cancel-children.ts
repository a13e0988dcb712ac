import { LIMITS } from "../../defaults.js";
import type { EngineContext } from "../context.js";

// A tree of jobs that is deeper or larger is cancelled in part: each job that a worker cancels cancels its own children.
const MAX_LEVELS = 10;
const MAX_CHILDREN = 1_000;

/** Cancels jobs, and the children that waiting ones among them wait for. A worker does it for a job that it runs. */
export async function cancelJobs(engine: EngineContext, ids: readonly string[]): Promise<void> {
  const cancelled: string[] = [];
  for (let from = 0; from < ids.length; from += LIMITS.batchJobs) {
    const batch = ids.slice(from, from + LIMITS.batchJobs);
    const results = await engine.store.cancel(batch);
    for (const [at, id] of batch.entries()) if (results[at] === "cancelled") cancelled.push(id);
  }
  await cancelChildren(engine, cancelled);
}

/** Cancels the child jobs that steps of these cancelled jobs wait for, and their children. */
export async function cancelChildren(engine: EngineContext, parents: readonly string[]): Promise<void> {
  let level = parents;
  for (let depth = 0; level.length > 0 && depth < MAX_LEVELS; depth++) {
    const children = await engine.store.openChildren(level, MAX_CHILDREN);
    if (children.length === 0) return;
    const results = await engine.store.cancel(children);
    level = children.filter((_, at) => results[at] === "cancelled");
  }
}
