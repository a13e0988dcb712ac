import { updateScheduleBy } from "../../engine/scheduler/schedules.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { readListOptions, type Filter } from "../../engine/client/filter.js";
import type {
  NamedScheduleOptions,
  ScheduleSettings,
  ScheduleTiming,
} from "../../engine/scheduler/schedule-definition.js";
import type { UserJobs } from "../../engine/client/user-jobs.js";
import { DEFAULTS } from "../../defaults.js";
import { JobNotFoundError, ScheduleNotFoundError, withSubject } from "../../errors.js";
import type { Job } from "../../job/job.js";
import { isLive } from "../../live-worker.js";
import type { Redactor } from "../../redact.js";
import type { Restorer } from "../../restore.js";
import type { State } from "../../job/state.js";
import type { JobFilter } from "../../store.js";
import { jobDetail, jobSummary, scheduleResult, scheduleSummary, tokenResult, workerResult } from "./serializers.js";
import { ApiError } from "../http/api-error.js";
import type { Calls, JobConditions, JobDetail, JobQuery, ManyJobs, OperationResult } from "../contract/api-types.js";
import type { Identity } from "../auth/identity.js";
import type { LaneLimit } from "./lane-limit.js";
import type { NewOperation, Operations } from "./operations.js";
import { filledPage, skip } from "../http/list-paging.js";
import type { RouteName } from "../contract/routes.js";
import { PAGE_SIZE } from "../contract/schemas.js";
import { statsResult } from "./stats-result.js";

export interface CallContext {
  hf: Holdfast;
  identity: Identity;
  operations: Operations;
  lanes: LaneLimit;
  redact: Redactor;
  /** Replaces redaction placeholders in a submitted payload by the stored values. */
  restore: Restorer;
  /** Records the end of a background operation in the audit log. */
  recordEnd: (result: OperationResult, target: unknown) => Promise<void>;
}

type Handler<Name extends RouteName> = (
  context: CallContext,
  input: Calls[Name]["input"],
) => Promise<Calls[Name]["result"]>;
/** The session routes read and set cookies, so `app.ts` handles them itself. */
type Handled = Exclude<RouteName, `session.${string}`>;

/** The jobs that the caller may access: all, or those of one user. */
function accessibleJobs({ hf, identity }: CallContext): Holdfast | UserJobs {
  return identity.user === null ? hf : hf.forUser(identity.user);
}

function filterOf({ identity }: CallContext, conditions: JobConditions): JobFilter {
  const given = identity.user === null ? conditions : { ...conditions, user: identity.user };
  return readListOptions(given, Date.now()).filter.stored;
}

async function list(context: CallContext, query: JobQuery): Promise<Calls["jobs.list"]["result"]> {
  const { identity } = context;
  const { limit = PAGE_SIZE.default, cursor = null, offset = 0, ...conditions } = query;
  if (cursor !== null && offset > 0) {
    throw invalidField("offset", "cannot be combined with cursor");
  }
  if (identity.user !== null && conditions.user !== undefined && conditions.user !== identity.user) {
    throw new ApiError(403, "FORBIDDEN", `user: this token can only list jobs of user ${identity.user}`);
  }
  const from = offset === 0 ? cursor : await skip(engineOf(context.hf), filterOf(context, conditions), offset);
  if (offset > 0 && from === null) return { jobs: [], cursor: null };
  const page = await filledPage(accessibleJobs(context), conditions, limit, from);
  const jobs = page.jobs.map(jobSummary);
  return { jobs: identity.role === "user" ? jobs.map(withoutWorker) : jobs, cursor: page.cursor };
}

/** The role user must not see host names, stack traces or other internals of the deployment. */
function withoutWorker<Job extends { worker: string | null }>(job: Job): Job {
  return { ...job, worker: null };
}
function withoutInternals(job: JobDetail): JobDetail {
  const attempts = job.attempts.map((attempt) => ({
    ...withoutWorker(attempt),
    error: attempt.error === null ? null : { ...attempt.error, stack: null, cause: null, data: null },
  }));
  return { ...withoutWorker(job), trace: null, attempts };
}

// The signal is checked after each chunk.
const CHUNK = 100;

async function getJob(context: CallContext, id: string): Promise<Job> {
  const job = await accessibleJobs(context).get(id);
  if (job === null) throw new JobNotFoundError(id);
  return job;
}

async function invalidState(context: CallContext, id: string, hint: string): Promise<ApiError> {
  const { state } = await getJob(context, id);
  return new ApiError(409, "INVALID_STATE", `job ${id} is ${state}; ${hint}`);
}

function invalidField(path: string, message: string): ApiError {
  return new ApiError(400, "INVALID_REQUEST", withSubject(path, message), { issues: [{ path, message }] });
}

/** Either ids or a filter. */
function targetOf({ ids, filter }: ManyJobs): { ids: readonly string[] } | { filter: Filter } {
  if ((ids === undefined) === (filter === undefined)) {
    throw invalidField("ids", "set either ids or filter");
  }
  if (ids !== undefined) return { ids };
  if (Object.keys(filter ?? {}).length === 0) {
    // Otherwise a forgotten condition would select every job.
    throw invalidField("filter", "must contain at least one condition");
  }
  return { filter: filter as Filter };
}

type Bulk = (hf: Holdfast) => {
  byIds: (ids: readonly string[]) => Promise<readonly string[]>;
  byFilter: (filter: Filter, options: Parameters<NewOperation["run"]>[0]) => Promise<number>;
  /** Statuses that count as a change. */
  counted: readonly string[];
};

const RETRY: Bulk = (hf) => ({
  byIds: (ids) => hf.retry(ids),
  byFilter: (filter, options) => hf.retry(filter, options),
  counted: ["retried"],
});
const CANCEL: Bulk = (hf) => ({
  byIds: (ids) => hf.cancel(ids),
  byFilter: (filter, options) => hf.cancel(filter, options),
  counted: ["cancelled", "requested"],
});
const REMOVE: Bulk = (hf) => ({
  byIds: (ids) => hf.remove(ids),
  byFilter: (filter, options) => hf.remove(filter, options),
  counted: ["removed"],
});

function bulkHandler(action: OperationResult["action"], bulk: Bulk) {
  return async (context: CallContext, many: ManyJobs): Promise<OperationResult> => {
    const { hf, identity, operations } = context;
    const target = targetOf(many);
    const { byIds, byFilter, counted } = bulk(hf);
    return operations.start({
      action,
      actor: identity.name,
      total: "ids" in target ? target.ids.length : await countOf(hf, target.filter),
      async run(options) {
        if ("filter" in target) return byFilter(target.filter, options);
        let changed = 0;
        for (let from = 0; from < target.ids.length; from += CHUNK) {
          options.signal.throwIfAborted();
          const statuses = await byIds(target.ids.slice(from, from + CHUNK));
          changed += statuses.filter((status) => counted.includes(status)).length;
          options.onProgress({ examined: from + statuses.length, changed });
        }
        return changed;
      },
      onEnd: (result) => context.recordEnd(result, target),
    });
  };
}

/** How many jobs match, if the stored counts can show it; otherwise null. */
async function countOf(hf: Holdfast, filter: Filter): Promise<number | null> {
  const isCounted = Object.keys(filter).every((name) => name === "state" || name === "type" || name === "queue");
  if (!isCounted || (filter.type !== undefined && filter.queue !== undefined)) return null;
  const stats = await hf.stats();
  const by =
    filter.type !== undefined ? stats.types : filter.queue !== undefined ? stats.queues : { all: stats.states };
  const names = filter.type ?? filter.queue ?? Object.keys(by);
  const states = (filter.state ?? Object.keys(stats.states)) as readonly State[];
  let count = 0;
  for (const name of names as readonly string[]) {
    const counts = Object.hasOwn(by, name) ? by[name] : undefined;
    for (const state of states) count += counts?.[state] ?? 0;
  }
  return count;
}

export const HANDLERS: { readonly [Name in Handled]: Handler<Name> } = {
  "jobs.list": list,
  "jobs.stats": async ({ hf }) => statsResult(await hf.stats()),
  "jobs.get": async (context, { id }) => {
    const job = jobDetail(await getJob(context, id), context.redact);
    return context.identity.role === "user" ? withoutInternals(job) : job;
  },
  "jobs.enqueue": async (context, { type, input, ...options }) => {
    await admitLane(context, type, options);
    return context.hf.enqueueNamed(type, withRestoredInput(context.restore, { input }, {}).input, options);
  },
  "jobs.retry": async (context, { id }) => {
    const status = await accessibleJobs(context).retry(id);
    if (status === "retried") return { status };
    if (status === "missing") throw new JobNotFoundError(id);
    if (status === "key-held") {
      throw new ApiError(409, "UNIQUE_KEY_CONFLICT", `another job holds the unique key of job ${id}`);
    }
    throw await invalidState(
      context,
      id,
      "only failed, dead and cancelled jobs can be retried; use rerun to enqueue a copy",
    );
  },
  "jobs.cancel": async (context, { id }) => {
    const status = await accessibleJobs(context).cancel(id);
    if (status === "cancelled" || status === "requested") return { status };
    if (status === "missing") throw new JobNotFoundError(id);
    throw await invalidState(context, id, "finished jobs cannot be cancelled");
  },
  "jobs.rerun": async (context, { id, ...options }) => {
    const old = options.input === undefined ? {} : await getJob(context, id);
    return context.hf.rerun(id, withRestoredInput(context.restore, options, old));
  },
  "jobs.remove": async (context, { id }) => {
    const status = await context.hf.remove(id);
    if (status === "removed") return { status };
    if (status === "missing") throw new JobNotFoundError(id);
    throw await invalidState(context, id, "cancel it first, then delete it when it has stopped");
  },
  "jobs.retryMany": bulkHandler("retry", RETRY),
  "jobs.cancelMany": bulkHandler("cancel", CANCEL),
  "jobs.removeMany": bulkHandler("delete", REMOVE),
  "jobs.purge": async (context, { state, olderThan }) => {
    const { hf, identity, operations } = context;
    return operations.start({
      action: "purge",
      actor: identity.name,
      total: null,
      run: (options) => hf.purge({ state, olderThan }, options),
      onEnd: (result) => context.recordEnd(result, { state, olderThan }),
    });
  },

  "operations.list": async ({ operations }) => ({ operations: operations.list() }),
  "operations.get": async ({ operations }, { id }) => operations.get(id),
  "operations.stop": ({ operations }, { id }) => operations.stop(id),

  "schedules.list": async ({ hf }, query) => {
    const { schedules, cursor } = await hf.schedules.list(query);
    return { schedules: schedules.map(scheduleSummary), cursor };
  },
  "schedules.preview": async ({ hf }, { count, ...timing }) =>
    runs(await hf.schedules.preview(withoutNulls(timing) as unknown as Timing, count)),
  "schedules.get": async ({ hf, redact }, { name }) => {
    const schedule = await hf.schedules.get(name);
    if (schedule === null) throw new ScheduleNotFoundError(name);
    return scheduleResult(schedule, redact);
  },
  "schedules.next": async ({ hf }, { name, count }) => runs(await hf.schedules.preview(name, count)),
  "schedules.create": async (context, { name, ...options }) => {
    const { hf, redact, restore } = context;
    await admitLane(context, options.job, options);
    const settings = withoutNulls(withRestoredInput(restore, options, {})) as unknown as NamedScheduleOptions;
    return scheduleResult(await hf.schedules.create(name, settings), redact);
  },
  "schedules.update": async (context, { name, ...changes }) => {
    const { hf, redact, restore } = context;
    if (changes.queue !== undefined || changes.priority !== undefined) {
      const stored = await hf.schedules.get(name);
      if (stored !== null) await admitLane(context, stored.type, { ...stored, ...changes });
    }
    const changed = await updateScheduleBy(hf.schedules, name, (schedule) =>
      withRestoredInput(restore, changes, schedule),
    );
    return scheduleResult(changed, redact);
  },
  "schedules.remove": async ({ hf }, { name }) => {
    if (!(await hf.schedules.remove(name))) throw new ScheduleNotFoundError(name);
    return { status: "removed" };
  },
  "schedules.enable": async ({ hf, redact }, { name }) => scheduleResult(await hf.schedules.enable(name), redact),
  "schedules.disable": async ({ hf, redact }, { name }) => scheduleResult(await hf.schedules.disable(name), redact),
  "schedules.reset": async ({ hf, redact }, { name }) => scheduleResult(await hf.schedules.reset(name), redact),
  "schedules.run": ({ hf }, { name }) => hf.schedules.runNow(name),

  "queues.list": async ({ hf }) => ({ queues: await hf.queues() }),
  "queues.pause": async ({ hf, lanes }, { queue }) => {
    await lanes.admitQueue(queue);
    await hf.pause(queue);
    return { queue, paused: true };
  },
  "queues.resume": async ({ hf }, { queue }) => {
    await hf.resume(queue);
    return { queue, paused: false };
  },
  "workers.list": async ({ hf }) => ({ workers: (await hf.workers()).map(workerResult) }),
  "types.list": async ({ hf }) => {
    const { clock, types } = engineOf(hf);
    const live = (await hf.workers()).filter((worker) => isLive(worker, clock.now()));
    const names = new Set([...types.keys(), ...live.flatMap(({ types }) => types)]);
    return { types: [...names].toSorted() };
  },

  "audit.list": async ({ hf }, query) => {
    const { entries, cursor } = await hf.audit.list(query);
    return { entries: entries.map((entry) => ({ ...entry, at: entry.at.toISOString() })), cursor };
  },
  "tokens.list": async ({ hf }) => ({ tokens: (await hf.tokens.list()).map(tokenResult) }),
  "tokens.create": async ({ hf }, options) => {
    // Not read back from the store: if that read failed, the caller would never learn the token.
    const { token, ...created } = await hf.tokens.create(options);
    return { ...tokenResult(created), token };
  },
  "tokens.revoke": async ({ hf }, { id }) => {
    if (!(await hf.tokens.revoke(id)))
      throw new ApiError(404, "TOKEN_NOT_FOUND", `token ${id} not found; hf.tokens.list() lists all tokens`);
    return { status: "revoked" };
  },
};

/** Checks a queue or priority that the caller chose. The defaults of a job type come from code and are not limited. */
async function admitLane(
  { hf, lanes }: CallContext,
  type: string,
  given: { queue?: string | undefined; priority?: number | undefined },
): Promise<void> {
  if (given.queue === undefined && given.priority === undefined) return;
  const { queue, priority } = engineOf(hf).types.get(type) ?? DEFAULTS;
  await lanes.admit(given.queue ?? queue, given.priority ?? priority);
}

/** Replaces redaction placeholders in the input by the stored values. Throws if a placeholder has no stored value. */
function withRestoredInput<Body extends { input?: unknown }>(
  restore: Restorer,
  body: Body,
  stored: { input?: unknown },
): Body {
  if (body.input === undefined) return body;
  const { input } = restore({ input: body.input }, { input: stored.input }) as { input: unknown };
  return { ...body, input };
}

type Timing = ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">;

/** In an update, `null` removes a setting. In a new schedule it means the same as an absent field. */
function withoutNulls(body: object): object {
  return Object.fromEntries(Object.entries(body).filter(([field, value]) => value !== null || field === "input"));
}

function runs(slots: readonly Date[]): { runs: string[] } {
  return { runs: slots.map((slot) => slot.toISOString()) };
}
