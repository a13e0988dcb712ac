import { Changes, type BulkOptions } from "../../engine/client/changes.js";
import { readFilter, type Filter } from "../../engine/client/filter.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { checkInput, readUpdate } from "../../engine/client/job-updates.js";
import type { EngineContext } from "../../engine/context.js";
import { isWaiting, type State } from "../../job/state.js";
import type { Calls, JobChanges, JobConditions, ManyJobs, OperationResult } from "../contract/api-types.js";
import { shownFilter } from "./audit-entry.js";
import { filterOf, invalidField, visibleInput, withRestoredInput, type CallContext } from "./call-context.js";
import type { Lane } from "./lane-limit.js";
import type { RunOptions } from "./operations.js";

// The signal is checked after each chunk.
const CHUNK = 100;

type Target = { ids: readonly string[] } | { filter: JobConditions };

/** Either ids or a filter. */
function targetOf({ ids, filter }: ManyJobs): Target {
  if ((ids === undefined) === (filter === undefined)) {
    throw invalidField("ids", "set either ids or filter");
  }
  if (ids !== undefined) return { ids };
  if (Object.keys(filter ?? {}).length === 0) {
    // Otherwise a forgotten condition would select every job.
    throw invalidField("filter", "must contain at least one condition");
  }
  return { filter: filter as JobConditions };
}

/** Both return how many jobs they changed. */
interface Bulk {
  byIds: (ids: readonly string[], options: RunOptions) => Promise<number>;
  byFilter: (filter: Filter, options: RunOptions) => Promise<number>;
}

const RETRY = (changes: Changes): Bulk => ({
  byIds: async (ids, options) => counted(ids, await changes.retry(ids, {}), options, "retried"),
  byFilter: async (filter, options) => Number(await changes.retry(filter, {}, bulkOf(options))),
});
const CANCEL = (changes: Changes): Bulk => ({
  byIds: async (ids, options) =>
    counted(ids, await changes.cancel(ids, {}, {}, options.onRequested), options, "cancelled", "requested"),
  byFilter: async (filter, options) => Number(await changes.cancel(filter, {}, bulkOf(options), options.onRequested)),
});
const REMOVE = (changes: Changes): Bulk => ({
  byIds: async (ids, options) => counted(ids, await changes.remove(ids, {}), options, "removed"),
  byFilter: async (filter, options) => Number(await changes.remove(filter, {}, bulkOf(options))),
});
const updateTo =
  (change: JobChanges) =>
  (changes: Changes): Bulk => ({
    byIds: async (ids, { onUnchanged }) => Number(await changes.update({ id: ids }, change, {}, { onUnchanged })),
    byFilter: async (filter, options) => Number(await changes.update(filter, change, {}, bulkOf(options))),
  });

function bulkOf({ signal, onProgress }: RunOptions): BulkOptions {
  return { signal, onProgress };
}

/** How many of the results are one of these. Reports the ids of the others. */
function counted(ids: readonly string[], results: unknown, { onUnchanged }: RunOptions, ...statuses: string[]): number {
  const unchanged = ids.filter((_, at) => !statuses.includes((results as readonly string[])[at] as string));
  onUnchanged(unchanged.map((id) => ({ id })));
  return ids.length - unchanged.length;
}

/** Starts a change of many jobs in the background. */
async function start(
  context: CallContext,
  action: OperationResult["action"],
  target: Target,
  bulk: (changes: Changes) => Bulk,
): Promise<OperationResult> {
  const { hf, identity, operations, redact } = context;
  const { byIds, byFilter } = bulk(new Changes(() => engineOf(hf), visibleInput(context)));
  // Checked now: the caller would not see why a running operation failed.
  if ("filter" in target) readFilter(filterOf(target.filter), engineOf(hf).clock.now());
  return operations.start({
    action,
    actor: identity.name,
    total: "ids" in target ? target.ids.length : await countOf(hf, target.filter),
    async run(options) {
      if ("filter" in target) return byFilter(filterOf(target.filter), options);
      let changed = 0;
      for (let from = 0; from < target.ids.length; from += CHUNK) {
        options.signal.throwIfAborted();
        const ids = target.ids.slice(from, from + CHUNK);
        changed += await byIds(ids, options);
        options.onProgress({ examined: from + ids.length, changed });
      }
      return changed;
    },
    onEnd: (result) =>
      context.recordEnd(result, "filter" in target ? { filter: shownFilter(target.filter, redact) } : target),
  });
}

type Handler<Input> = (context: CallContext, input: Input) => Promise<OperationResult>;

export const retryMany: Handler<ManyJobs> = (context, many) => start(context, "retry", targetOf(many), RETRY);
export const cancelMany: Handler<ManyJobs> = (context, many) => start(context, "cancel", targetOf(many), CANCEL);
export const removeMany: Handler<ManyJobs> = (context, many) => start(context, "delete", targetOf(many), REMOVE);
export const promoteMany: Handler<ManyJobs> = (context, many) =>
  start(context, "promote", targetOf(many), updateTo({ delay: 0 }));

export const updateMany: Handler<Calls["jobs.updateMany"]["input"]> = async (context, { ids, filter, ...given }) => {
  const target = targetOf({ ...(ids !== undefined && { ids }), ...(filter !== undefined && { filter }) });
  const change = withRestoredInput(context.restore, given, {});
  const engine = engineOf(context.hf);
  const update = readUpdate(change, engine.clock.now());
  // All ids at once: they are changed in chunks, and a chunk must not fail after others were changed.
  if ("ids" in target)
    await checkInput(engine, update, readFilter({ id: target.ids }, engine.clock.now()), visibleInput(context));
  const { queue, priority } = change;
  if (queue !== undefined || priority !== undefined)
    await context.lanes.admitAll(await lanesAfter(engine, target, { queue, priority }));
  return start(context, "update", target, updateTo(change));
};

/**
 * The lanes that waiting jobs may be in after an update. For a filter, those of all queues and priorities that the counters of the store
 * allow; its other conditions may match fewer.
 */
async function lanesAfter(
  { store }: EngineContext,
  target: Target,
  change: { queue: string | undefined; priority: number | undefined },
): Promise<Lane[]> {
  const { queue, priority } = change;
  if (queue !== undefined && priority !== undefined) return [{ queue, priority }];
  if ("ids" in target) {
    const page = { limit: target.ids.length, cursor: null, payloads: false };
    const { jobs } = await store.list({ ids: target.ids }, page);
    return jobs.map((job) => ({ queue: queue ?? job.queue, priority: priority ?? job.priority }));
  }
  const { filter } = target;
  const { counts } = await store.stats();
  const from = new Set<string>();
  for (const count of counts) {
    const matches =
      isWaiting(count.state) &&
      (filter.state?.includes(count.state) ?? true) &&
      (filter.type?.includes(count.type) ?? true) &&
      (filter.queue?.includes(count.queue) ?? true);
    if (matches) from.add(count.queue);
  }
  if (priority !== undefined) return [...from].map((name) => ({ queue: name, priority }));
  const to = queue as string;
  if (filter.priority !== undefined) return from.size === 0 ? [] : [{ queue: to, priority: filter.priority }];
  const lanes = (await store.queues()).filter((each) => from.has(each.queue));
  return lanes.flatMap(({ priorities }) => priorities.map((each) => ({ queue: to, priority: each })));
}

/** How many jobs match, if the stored counts can show it; otherwise null. */
async function countOf(hf: Holdfast, filter: JobConditions): Promise<number | null> {
  const isCounted = Object.keys(filter).every((name) => name === "state" || name === "type" || name === "queue");
  if (!isCounted || (filter.type !== undefined && filter.queue !== undefined)) return null;
  const stats = await hf.stats();
  const by =
    filter.type !== undefined ? stats.types : filter.queue !== undefined ? stats.queues : { all: stats.states };
  const names = filter.type ?? filter.queue ?? Object.keys(by);
  const states = filter.state ?? (Object.keys(stats.states) as State[]);
  let count = 0;
  for (const name of names) {
    const counts = Object.hasOwn(by, name) ? by[name] : undefined;
    for (const state of states) count += counts?.[state] ?? 0;
  }
  return count;
}
