import { countJobs } from "../../engine/client/count-jobs.js";
import { readFilter } from "../../engine/client/filter.js";
import { engineOf } from "../../engine/client/holdfast.js";
import { checkInput, readUpdate } from "../../engine/client/job-updates.js";
import type { EngineContext } from "../../engine/context.js";
import { durationMs } from "../../duration.js";
import { readId } from "../../job/uuid.js";
import { isFinished, isWaiting, STATE_NAMES, type State } from "../../job/state.js";
import type {
  Calls,
  CountResult,
  JobChanges,
  JobConditions,
  ManyJobs,
  OperationResult,
  PreviewInput,
  PreviewResult,
} from "../contract/api-types.js";
import { MAX_COUNT } from "../contract/schemas.js";
import { filterOf, invalidField, visibleInput, withRestoredInput, type CallContext } from "./call-context.js";
import type { Lane } from "./lane-limit.js";
import { actorOf, type OperationPlan } from "./operation-plan.js";

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

/** Starts a change of many jobs in the background. */
async function start(
  context: CallContext,
  action: OperationPlan["action"],
  many: ManyJobs,
  changes?: JobChanges,
): Promise<OperationResult> {
  const { hf, operations, caller, startRecorded } = context;
  const target = targetOf(many);
  const { rate = null, limit = null } = many;
  // Checked now: the caller would not see why a running operation failed.
  if ("filter" in target) readFilter(filterOf(target.filter), engineOf(hf).clock.now());
  const ids = "ids" in target ? target.ids.slice(0, limit ?? target.ids.length).map((id) => readId(id)) : null;
  return operations.start({
    plan: {
      action,
      ...(ids === null ? target : { ids }),
      ...(changes !== undefined && { changes }),
      rate,
      limit,
      ...actorOf(caller),
    },
    total: ids === null ? await countOf(context, (target as { filter: JobConditions }).filter) : ids.length,
    startRecorded,
  });
}

type Handler<Input> = (context: CallContext, input: Input) => Promise<OperationResult>;

export const retryMany: Handler<ManyJobs> = (context, many) => start(context, "retry", many);
export const cancelMany: Handler<ManyJobs> = (context, many) => start(context, "cancel", many);
export const removeMany: Handler<ManyJobs> = (context, many) => start(context, "delete", many);
export const promoteMany: Handler<ManyJobs> = (context, many) => start(context, "promote", many);

export const updateMany: Handler<Calls["jobs.updateMany"]["input"]> = async (context, input) => {
  const { ids, filter, rate, limit, ...given } = input;
  const many = withoutUndefined({ ids, filter, rate, limit });
  const target = targetOf(many);
  const changes = withRestoredInput(context.restore, given, {});
  const engine = engineOf(context.hf);
  const update = readUpdate(changes, engine.clock.now());
  // All ids at once: they are changed in chunks, and a chunk must not fail after others were changed.
  if ("ids" in target)
    await checkInput(engine, update, readFilter({ id: target.ids }, engine.clock.now()), {
      inputView: visibleInput(context),
    });
  const { queue, priority } = changes;
  if (queue !== undefined || priority !== undefined)
    await context.lanes.admitAll(await lanesAfter(engine, target, { queue, priority }));
  return start(context, "update", many, changes);
};

export const purge: Handler<Calls["jobs.purge"]["input"]> = (context, { state, olderThan }) => {
  const { hf, operations, caller, startRecorded } = context;
  const before = engineOf(hf).clock.now() - durationMs(olderThan, "olderThan");
  const plan = { action: "purge", purge: { state, olderThan, before }, rate: null, limit: null } as const;
  return operations.start({ plan: { ...plan, ...actorOf(caller) }, total: null, startRecorded });
};

/** Which jobs a change of many would change, by their states. */
const CHANGEABLE: Readonly<Record<PreviewInput["action"], { changes: (state: State) => boolean; skipped: string }>> = {
  retry: { changes: (state) => ["failed", "dead", "cancelled"].includes(state), skipped: "not-retryable" },
  cancel: { changes: (state) => !isFinished(state), skipped: "finished" },
  delete: { changes: (state) => isWaiting(state) || isFinished(state), skipped: "leased" },
  update: { changes: isWaiting, skipped: "not-waiting" },
  promote: { changes: isWaiting, skipped: "not-waiting" },
};

/** `jobs.preview`. Two counts, each limited as that of `jobs.count`. */
export async function preview(context: CallContext, { action, ...many }: PreviewInput): Promise<PreviewResult> {
  const engine = engineOf(context.hf);
  const target = targetOf(many);
  const given = readFilter("ids" in target ? { id: target.ids } : filterOf(target.filter), engine.clock.now());
  const { changes, skipped } = CHANGEABLE[action];
  const among = given.stored.states ?? STATE_NAMES;
  const countIn = async (states: readonly State[]): Promise<CountResult> => {
    if (states.length === 0) return { count: 0, exact: true };
    const filter = { ...given, stored: { ...given.stored, states } };
    return countJobs(engine, filter, { atMost: MAX_COUNT.all }, visibleInput(context));
  };
  const [changing, others] = await Promise.all([
    countIn(among.filter((state) => changes(state))),
    countIn(among.filter((state) => !changes(state))),
  ]);
  const exact = changing.exact && others.exact;
  const missing = "ids" in target && exact ? new Set(target.ids).size - changing.count - others.count : 0;
  return {
    changes: changing.count,
    skipped: {
      ...(others.count > 0 && { [skipped]: others.count }),
      ...(missing > 0 && { missing }),
    },
    exact,
  };
}

function withoutUndefined(many: { [Key in keyof ManyJobs]: ManyJobs[Key] | undefined }): ManyJobs {
  return Object.fromEntries(Object.entries(many).filter(([, value]) => value !== undefined));
}

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

/** How many jobs match, if that can be found quickly; otherwise null. */
async function countOf(context: CallContext, filter: JobConditions): Promise<number | null> {
  const engine = engineOf(context.hf);
  const read = readFilter(filterOf(filter), engine.clock.now());
  const { count, exact } = await countJobs(engine, read, { atMost: MAX_COUNT.all }, visibleInput(context));
  // The counters of a store may lag a little. A count that stopped early says nothing.
  const isCounted = Object.keys(filter).every((name) => ["state", "type", "queue"].includes(name));
  return exact || isCounted ? count : null;
}
