import { Changes, type BulkChange, type ChangedJobs } from "../../engine/client/changes.js";
import { readFilter, type ReadFilter } from "../../engine/client/filter.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { checkInput, NOT_FOUND, PROMOTION, readUpdate, type UnchangedJob } from "../../engine/client/job-updates.js";
import type { EngineContext } from "../../engine/context.js";
import { DEFAULTS } from "../../defaults.js";
import { filterOf, visibleInput } from "./call-context.js";
import type { OperationPlan, OperationSummary } from "./operation-plan.js";

// Jobs changed before the signal is checked and the progress may be written.
const CHUNK = 200;
const IDS_CHUNK = 100;
// Ids of unchanged jobs in a result.
const MAX_UNCHANGED = 20;

/** Changes the next jobs of an operation and adds them to the summary. Returns how many it found, and whether it is done. */
export type Step = (limit: number) => Promise<{ found: number; done: boolean }>;

/**
 * The steps of an operation, beginning where the summary says. Throws if the plan is invalid now, for example because the type of a
 * waiting job rejects the new input, or if it is aborted meanwhile.
 */
export async function stepsOf(
  hf: Holdfast,
  plan: OperationPlan,
  summary: OperationSummary,
  startedAt: number,
  signal: AbortSignal,
): Promise<Step> {
  const engine = engineOf(hf);
  if (plan.purge !== undefined) return purgeStep(engine, plan.purge, summary);
  const inputView = visibleInput(engine);
  const changes = new Changes(() => engineOf(hf), inputView);
  // As of its start: an expiry that has passed since, or a calendar key of yesterday, is still what was asked for.
  const filter = readFilter(plan.filter === undefined ? { id: plan.ids ?? [] } : filterOf(plan.filter), startedAt);
  const reasons = new Map<string, string>();
  const onUnchanged = (jobs: readonly UnchangedJob[]): void =>
    jobs.forEach(({ id, reason }) => reasons.set(id, reason));
  const change = await changeOf(engine, plan, filter, startedAt, { inputView, signal });
  const { ids } = plan;
  if (ids === undefined) return pageStep(changes, change, filter, summary);
  return async (limit) => {
    const from = typeof summary.at === "number" ? summary.at : 0;
    const to = Math.min(ids.length, from + Math.min(limit, IDS_CHUNK));
    reasons.clear();
    const changed = await changes.changeSome(
      change.kind === "update" ? { ...change, onUnchanged } : change,
      ids.slice(from, to),
    );
    nameUnchanged(summary, add(summary, changed), change.kind === "update" ? reasons : null);
    summary.at = to;
    return { found: to - from, done: to === ids.length };
  };
}

function pageStep(changes: Changes, change: BulkChange, filter: ReadFilter, summary: OperationSummary): Step {
  return async (limit) => {
    const cursor = typeof summary.at === "string" ? summary.at : null;
    const changed = await changes.changePage(change, filter, { limit: Math.min(limit, CHUNK), cursor });
    add(summary, changed);
    summary.at = changed.cursor;
    return { found: changed.ids.length, done: changed.cursor === null };
  };
}

/** Returns the ids of the jobs that were not changed. */
function add(summary: OperationSummary, { ids, statuses, counted, examined }: ChangedJobs): string[] {
  summary.examined += examined;
  summary.found += ids.length;
  const unchanged: string[] = [];
  const skipped: Record<string, number> = { ...summary.skipped };
  for (const [at, status] of statuses.entries()) {
    if (status === "requested") summary.requested++;
    if (counted.includes(status)) {
      summary.changed++;
      continue;
    }
    skipped[status] = (skipped[status] ?? 0) + 1;
    unchanged.push(ids[at] as string);
  }
  summary.skipped = skipped;
  return unchanged;
}

/** `reasons`: of updates; null for other changes, whose result says it all. */
function nameUnchanged(
  summary: OperationSummary,
  ids: readonly string[],
  reasons: ReadonlyMap<string, string> | null,
): void {
  const named = ids.slice(0, Math.max(0, MAX_UNCHANGED - summary.unchanged.length));
  summary.unchanged = [...summary.unchanged, ...named];
  if (reasons === null) return;
  const texts = named.map((id) => [id, reasons.get(id) ?? NOT_FOUND] as const);
  summary.reasons = { ...summary.reasons, ...Object.fromEntries(texts) };
}

async function changeOf(
  engine: EngineContext,
  { action, changes }: OperationPlan,
  filter: ReadFilter,
  startedAt: number,
  search: { inputView: ReturnType<typeof visibleInput>; signal: AbortSignal },
): Promise<BulkChange> {
  switch (action) {
    case "retry":
    case "cancel":
      return { kind: action };
    case "delete":
      return { kind: "remove" };
    case "promote":
      return { kind: "update", update: PROMOTION, rejecting: new Set() };
    case "update": {
      const update = readUpdate(changes ?? {}, startedAt);
      // All jobs at once: they are changed in chunks, and a chunk must not fail after others were changed.
      return { kind: "update", update, rejecting: await checkInput(engine, update, filter, search) };
    }
    case "purge":
      throw new Error("a purge has no filter");
  }
}

function purgeStep(
  { store, events }: EngineContext,
  { state, before }: NonNullable<OperationPlan["purge"]>,
  summary: OperationSummary,
): Step {
  return async (limit) => {
    const most = Math.min(limit, DEFAULTS.maintenance.chunk);
    const deleted = await store.purge({ state, before, keep: null, limit: most });
    summary.examined += deleted;
    summary.found += deleted;
    summary.changed += deleted;
    const done = deleted < most;
    if (done && summary.changed > 0) events.emit("purged", { state, count: summary.changed });
    return { found: deleted, done };
  };
}
