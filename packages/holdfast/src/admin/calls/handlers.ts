import { updateScheduleBy } from "../../engine/scheduler/schedules.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { readListOptions, type Filter } from "../../engine/client/filter.js";
import type {
  NamedScheduleOptions,
  ScheduleSettings,
  ScheduleTiming,
} from "../../engine/scheduler/schedule-definition.js";
import type { ApiToken } from "../../engine/client/tokens.js";
import type { UserJobs } from "../../engine/client/user-jobs.js";
import { DEFAULTS } from "../../defaults.js";
import { JobNotFoundError, ScheduleNotFoundError } from "../../errors.js";
import type { Job } from "../../job/job.js";
import { isLive } from "../../live-worker.js";
import type { Redactor } from "../../redact.js";
import type { Restorer } from "../../restore.js";
import type { State } from "../../job/state.js";
import type { JobFilter } from "../../store.js";
import { jobDetail, jobSummary, scheduleAnswer, scheduleSummary, workerAnswer } from "./serializers.js";
import { ApiError } from "../http/api-error.js";
import type { Calls, JobConditions, JobDetail, JobQuery, ManyJobs, OperationResult } from "../contract/api-types.js";
import type { Identity } from "../auth/identity.js";
import type { LaneLimit } from "./lane-limit.js";
import type { NewOperation, Operations } from "./operations.js";
import { filledPage, skip } from "../http/pages.js";
import type { RouteName } from "../contract/routes.js";
import { PAGE } from "../contract/schemas.js";
import { statsAnswer } from "./stats-result.js";

/** What a handler works with. */
export interface CallContext {
  hf: Holdfast;
  identity: Identity;
  operations: Operations;
  lanes: LaneLimit;
  redact: Redactor;
  /** Puts back what was shown redacted, in a payload that is sent. */
  restore: Restorer;
  /** Writes down how an operation ended. */
  ended: (answer: OperationResult, target: unknown) => Promise<void>;
}

type Handler<Name extends RouteName> = (
  context: CallContext,
  input: Calls[Name]["input"],
) => Promise<Calls[Name]["answer"]>;
/** Sessions are the business of whoever reads and sets cookies. */
type Handled = Exclude<RouteName, `session.${string}`>;

/** The jobs that somebody may see: all, or one user's. */
function jobsOf({ hf, identity }: CallContext): Holdfast | UserJobs {
  return identity.user === null ? hf : hf.forUser(identity.user);
}

function filterOf({ identity }: CallContext, conditions: JobConditions): JobFilter {
  return readListOptions(identity.user === null ? conditions : { ...conditions, user: identity.user }).filter;
}

async function list(context: CallContext, query: JobQuery): Promise<Calls["jobs.list"]["answer"]> {
  const { identity } = context;
  const { limit = PAGE.usual, cursor = null, offset = 0, ...conditions } = query;
  if (cursor !== null && offset > 0) {
    throw new ApiError(400, "INVALID_REQUEST", "offset: goes with no cursor", {
      issues: [{ path: "offset", message: "goes with no cursor" }],
    });
  }
  if (identity.user !== null && conditions.user !== undefined && conditions.user !== identity.user) {
    throw new ApiError(403, "OTHER_USER", `this token sees only the jobs of ${identity.user}`);
  }
  const from = offset === 0 ? cursor : await skip(engineOf(context.hf), filterOf(context, conditions), offset);
  if (offset > 0 && from === null) return { jobs: [], cursor: null };
  const page = await filledPage(jobsOf(context), conditions, limit, from);
  const jobs = page.jobs.map(jobSummary);
  return { jobs: identity.role === "user" ? jobs.map(withoutWorker) : jobs, cursor: page.cursor };
}

/** Which machines there are, what the code looks like inside and whom it calls, is nobody's business who only has jobs here. */
function withoutWorker<Job extends { worker: string | null }>(job: Job): Job {
  return { ...job, worker: null };
}
function forUser(job: JobDetail): JobDetail {
  const attempts = job.attempts.map((attempt) => ({
    ...withoutWorker(attempt),
    error: { ...attempt.error, stack: null, cause: null, data: null },
  }));
  return { ...withoutWorker(job), trace: null, attempts };
}

// Jobs that are changed between two looks at whether to go on.
const CHUNK = 100;

async function found(context: CallContext, id: string): Promise<Job> {
  const job = await jobsOf(context).get(id);
  if (job === null) throw new JobNotFoundError(id);
  return job;
}

async function conflict(context: CallContext, id: string, what: string): Promise<ApiError> {
  const { state } = await found(context, id);
  return new ApiError(409, "WRONG_STATE", `job ${id} is ${state}; ${what}`);
}

/** Jobs by ids or by a filter, and one of the two. */
function targetOf({ ids, filter }: ManyJobs): { ids: readonly string[] } | { filter: Filter } {
  if ((ids === undefined) === (filter === undefined)) {
    throw new ApiError(400, "INVALID_REQUEST", "ids: give either ids or a filter", {
      issues: [{ path: "ids", message: "give either ids or a filter" }],
    });
  }
  if (ids !== undefined) return { ids };
  if (Object.keys(filter ?? {}).length === 0) {
    throw new ApiError(400, "INVALID_REQUEST", "filter: name a condition, so that nothing left out means every job", {
      issues: [{ path: "filter", message: "name a condition, so that nothing left out means every job" }],
    });
  }
  return { filter: filter as Filter };
}

type Bulk = (hf: Holdfast) => {
  byIds: (ids: readonly string[]) => Promise<readonly string[]>;
  byFilter: (filter: Filter, options: Parameters<NewOperation["run"]>[0]) => Promise<number>;
  counted: readonly string[];
};

const RETRYING: Bulk = (hf) => ({
  byIds: (ids) => hf.retry(ids),
  byFilter: (filter, options) => hf.retry(filter, options),
  counted: ["retried"],
});
const CANCELLING: Bulk = (hf) => ({
  byIds: (ids) => hf.cancel(ids),
  byFilter: (filter, options) => hf.cancel(filter, options),
  counted: ["cancelled", "requested"],
});
const REMOVING: Bulk = (hf) => ({
  byIds: (ids) => hf.remove(ids),
  byFilter: (filter, options) => hf.remove(filter, options),
  counted: ["removed"],
});

function changing(action: OperationResult["action"], bulk: Bulk) {
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
          const answers = await byIds(target.ids.slice(from, from + CHUNK));
          changed += answers.filter((answer) => counted.includes(answer)).length;
          options.onProgress({ looked: from + answers.length, changed });
        }
        return changed;
      },
      ended: (answer) => context.ended(answer, target),
    });
  };
}

/** How many match, where the counts that are kept tell it. */
async function countOf(hf: Holdfast, filter: Filter): Promise<number | null> {
  const told = Object.keys(filter).every((name) => name === "state" || name === "type" || name === "queue");
  if (!told || (filter.type !== undefined && filter.queue !== undefined)) return null;
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

/** What each route does. */
export const HANDLERS: { readonly [Name in Handled]: Handler<Name> } = {
  "jobs.list": list,
  "jobs.stats": async ({ hf }) => statsAnswer(await hf.stats()),
  "jobs.get": async (context, { id }) => {
    const job = jobDetail(await found(context, id), context.redact);
    return context.identity.role === "user" ? forUser(job) : job;
  },
  "jobs.enqueue": async (context, { type, input, ...options }) => {
    await admitLane(context, type, options);
    return context.hf.enqueueNamed(type, whole(context.restore, { input }, {}).input, options);
  },
  "jobs.retry": async (context, { id }) => {
    const answer = await jobsOf(context).retry(id);
    if (answer === "retried") return { status: "retried" };
    if (answer === "missing") throw new JobNotFoundError(id);
    if (answer === "key-held") throw new ApiError(409, "KEY_HELD", `another job holds the unique key of job ${id}`);
    throw await conflict(context, id, "only failed, dead and cancelled jobs can be retried; rerun makes a new one");
  },
  "jobs.cancel": async (context, { id }) => {
    const answer = await jobsOf(context).cancel(id);
    if (answer === "cancelled" || answer === "requested") return { status: answer };
    if (answer === "missing") throw new JobNotFoundError(id);
    throw await conflict(context, id, "it has finished and cannot be cancelled");
  },
  "jobs.rerun": async (context, { id, ...options }) => {
    const old = options.input === undefined ? {} : await found(context, id);
    return context.hf.rerun(id, whole(context.restore, options, old));
  },
  "jobs.remove": async (context, { id }) => {
    const answer = await context.hf.remove(id);
    if (answer === "removed") return { status: "removed" };
    if (answer === "missing") throw new JobNotFoundError(id);
    throw await conflict(context, id, "cancel it first, and delete it when it has stopped");
  },
  "jobs.retryMany": changing("retry", RETRYING),
  "jobs.cancelMany": changing("cancel", CANCELLING),
  "jobs.removeMany": changing("delete", REMOVING),
  "jobs.purge": async (context, { state, olderThan }) => {
    const { hf, identity, operations } = context;
    return operations.start({
      action: "purge",
      actor: identity.name,
      total: null,
      run: (options) => hf.purge({ state, olderThan }, options),
      ended: (answer) => context.ended(answer, { state, olderThan }),
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
    runs(await hf.schedules.preview(given(timing) as unknown as Timing, count)),
  "schedules.get": async ({ hf, redact }, { name }) => {
    const schedule = await hf.schedules.get(name);
    if (schedule === null) throw new ScheduleNotFoundError(name);
    return scheduleAnswer(schedule, redact);
  },
  "schedules.next": async ({ hf }, { name, count }) => runs(await hf.schedules.preview(name, count)),
  "schedules.create": async (context, { name, ...options }) => {
    const { hf, redact, restore } = context;
    await admitLane(context, options.job, options);
    const settings = given(whole(restore, options, {})) as unknown as NamedScheduleOptions;
    return scheduleAnswer(await hf.schedules.create(name, settings), redact);
  },
  "schedules.update": async (context, { name, ...changes }) => {
    const { hf, redact, restore } = context;
    if (changes.queue !== undefined || changes.priority !== undefined) {
      const stored = await hf.schedules.get(name);
      if (stored !== null) await admitLane(context, stored.type, { ...stored, ...changes });
    }
    const changed = await updateScheduleBy(hf.schedules, name, (schedule) => whole(restore, changes, schedule));
    return scheduleAnswer(changed, redact);
  },
  "schedules.remove": async ({ hf }, { name }) => {
    if (!(await hf.schedules.remove(name))) throw new ScheduleNotFoundError(name);
    return { status: "removed" };
  },
  "schedules.enable": async ({ hf, redact }, { name }) => scheduleAnswer(await hf.schedules.enable(name), redact),
  "schedules.disable": async ({ hf, redact }, { name }) => scheduleAnswer(await hf.schedules.disable(name), redact),
  "schedules.reset": async ({ hf, redact }, { name }) => scheduleAnswer(await hf.schedules.reset(name), redact),
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
  "workers.list": async ({ hf }) => ({ workers: (await hf.workers()).map(workerAnswer) }),
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
  "tokens.list": async ({ hf }) => ({ tokens: (await hf.tokens.list()).map(tokenAnswer) }),
  "tokens.create": async ({ hf }, options) => {
    // Of what was made, and not of another look: if that failed, there would be a token that nothing tells of.
    const { token, ...made } = await hf.tokens.create(options);
    return { ...tokenAnswer(made), token };
  },
  "tokens.revoke": async ({ hf }, { id }) => {
    if (!(await hf.tokens.revoke(id))) throw new ApiError(404, "TOKEN_NOT_FOUND", `no token ${id}`);
    return { status: "revoked" };
  },
};

/** Of a type's own queue and priority nothing is asked: they are code's. */
async function admitLane(
  { hf, lanes }: CallContext,
  type: string,
  given: { queue?: string | undefined; priority?: number | undefined },
): Promise<void> {
  if (given.queue === undefined && given.priority === undefined) return;
  const { queue, priority } = engineOf(hf).types.get(type) ?? DEFAULTS;
  await lanes.admit(given.queue ?? queue, given.priority ?? priority);
}

/** With an input in which no mark of redaction stands for what is stored: that is put back, or the call refused. */
function whole<Body extends { input?: unknown }>(restore: Restorer, body: Body, stored: { input?: unknown }): Body {
  if (body.input === undefined) return body;
  const { input } = restore({ input: body.input }, { input: stored.input }) as { input: unknown };
  return { ...body, input };
}

type Timing = ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">;

/** `null` takes away what was there; where nothing was, it is the same as nothing. */
function given(body: object): object {
  return Object.fromEntries(Object.entries(body).filter(([field, value]) => value !== null || field === "input"));
}

function runs(slots: readonly Date[]): { runs: string[] } {
  return { runs: slots.map((slot) => slot.toISOString()) };
}

function tokenAnswer(token: ApiToken): Calls["tokens.list"]["answer"]["tokens"][number] {
  return {
    ...token,
    createdAt: token.createdAt.toISOString(),
    expiresAt: token.expiresAt === null ? null : token.expiresAt.toISOString(),
  };
}
