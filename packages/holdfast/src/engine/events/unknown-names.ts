import type { EngineContext } from "../context.js";
import type { WorkerSettings } from "../worker/work-options.js";

/** Warns of types that this worker claims but has no handler for. A worker with a misspelled type would wait forever, silently. */
export function warnOfUnknownTypes({ types, logger }: EngineContext, settings: WorkerSettings): void {
  if (types.size === 0) {
    logger.warn({}, "this worker has no handler for any job type; pass holdfast({ jobs: [ … ] })");
    return;
  }
  const unknown = (settings.types ?? []).filter((type) => !types.has(type));
  if (unknown.length === 0) return;
  logger.warn(
    { types: joined(unknown), known: joined(types.keys()) },
    "no handler here for types that this worker claims. Misspelt, or missing from holdfast({ jobs })?",
  );
}

/** The same for queues, logged once for each. The worker does not wait for it, and nothing fails if the store cannot be read. */
export async function warnOfUnknownQueues(
  { types, logger, store, warnedQueues }: EngineContext,
  settings: WorkerSettings,
): Promise<void> {
  const known = new Set([...types.values()].map(({ queue }) => queue));
  const isUnknown = (queue: string): boolean => !known.has(queue) && !warnedQueues.has(queue);
  if (!settings.queues?.some(isUnknown)) return;
  try {
    for (const { queue } of await store.queues()) known.add(queue);
    // A store does not list queues in which all jobs are finished; its counts still contain them.
    if (settings.queues.some(isUnknown)) for (const { queue } of (await store.stats()).counts) known.add(queue);
  } catch {
    return;
  }
  const unknown = settings.queues.filter(isUnknown);
  if (unknown.length === 0) return;
  for (const queue of unknown) warnedQueues.add(queue);
  logger.warn(
    { queues: joined(unknown), known: joined(known) },
    "this worker claims from queues that no job type here uses and the store does not know. Misspelt?",
  );
}

function joined(names: Iterable<string>): string {
  const text = [...names].join(", ");
  return text === "" ? "none" : text;
}
