import type { EngineContext } from "../context.js";
import type { WorkerSettings } from "../worker/worker.js";

/** A misspelt type would wait for ever for jobs that never come. */
export function warnOfTypes({ types, logger }: EngineContext, settings: WorkerSettings): void {
  const unknown = (settings.types ?? []).filter((type) => !types.has(type));
  if (unknown.length === 0) return;
  logger.warn(
    { types: list(unknown), known: list(types.keys()) },
    "no handler here for types that this worker takes. Misspelt, or missing from holdfast({ jobs })?",
  );
}

/** The same for a queue. Told once for each; the worker works meanwhile, and nothing fails if nobody can say. */
export async function warnOfQueues(
  { types, logger, store, toldQueues }: EngineContext,
  settings: WorkerSettings,
): Promise<void> {
  const known = new Set([...types.values()].map(({ queue }) => queue));
  const isNew = (queue: string): boolean => !known.has(queue) && !toldQueues.has(queue);
  if (!settings.queues?.some(isNew)) return;
  try {
    for (const { queue } of await store.queues()) known.add(queue);
    // A store forgets queues whose jobs have all finished; its counts still have them.
    if (settings.queues.some(isNew)) for (const { queue } of (await store.stats()).counts) known.add(queue);
  } catch {
    return;
  }
  const unknown = settings.queues.filter(isNew);
  if (unknown.length === 0) return;
  for (const queue of unknown) toldQueues.add(queue);
  logger.warn(
    { queues: list(unknown), known: list(known) },
    "this worker takes from queues that no job type here uses and the store does not know. Misspelt?",
  );
}

function list(names: Iterable<string>): string {
  const text = [...names].join(", ");
  return text === "" ? "none" : text;
}
