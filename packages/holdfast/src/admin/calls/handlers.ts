import { readSchedule, readScheduleName, updateScheduleBy, type Schedule } from "../../engine/scheduler/schedules.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { isShownWhole, readJob } from "../../engine/client/job-view.js";
import { readId } from "../../job/uuid.js";
import { losslessText, withRawJson } from "../http/raw-json.js";
import { typeResult } from "./type-result.js";
import type {
  NamedScheduleOptions,
  ScheduleSettings,
  ScheduleTiming,
} from "../../engine/scheduler/schedule-definition.js";
import { pauseQueues, readQueues } from "../../engine/client/queues.js";
import { readTransitions } from "../../engine/events/read-transitions.js";
import type { UserJobs } from "../../engine/client/user-jobs.js";
import { DEFAULTS } from "../../defaults.js";
import { PAGE_SIZE } from "../contract/schemas.js";
import { JobNotFoundError, ScheduleNotFoundError } from "../../errors.js";
import type { Job } from "../../job/job.js";
import { isLive } from "../../live-worker.js";
import { readQueue } from "../../options.js";
import { cancelMany, preview, promoteMany, purge, removeMany, retryMany, updateMany } from "./bulk-changes.js";
import { withRestoredInput, type CallContext } from "./call-context.js";
import { count, list, withoutWorker } from "./job-lists.js";
import { errorGroupResult, explanationResult, historyResult, transitionResult } from "./insight-serializers.js";
import { stepsResult } from "./step-serializers.js";
import { jobDetail, queueResult, scheduleResult, scheduleSummary, tokenResult, workerResult } from "./serializers.js";
import { ApiError } from "../http/api-error.js";
import type { Calls, JobDetail } from "../contract/api-types.js";
import type { RouteName } from "../contract/routes.js";
import { statsResult } from "./stats-result.js";

type Handler<Name extends RouteName> = (
  context: CallContext,
  input: Calls[Name]["input"],
) => Promise<Calls[Name]["result"]>;
/** The session routes read and set cookies, so `app.ts` handles them itself. */
type Handled = Exclude<RouteName, `session.${string}`>;

const COUNTED_MS = 60_000;

/** The jobs that the caller may access: all, or those of one user. */
function accessibleJobs({ hf, identity }: CallContext): Holdfast | UserJobs {
  return identity.user === null ? hf : hf.forUser(identity.user);
}

/** For the role user; see `withoutWorker`. */
function withoutInternals(job: JobDetail): JobDetail {
  const attempts = job.attempts.map((attempt) => ({
    ...withoutWorker(attempt),
    error: attempt.error === null ? null : { ...attempt.error, stack: null, cause: null, data: null },
  }));
  return { ...withoutWorker(job), trace: null, attempts };
}

type Payload = "input" | "output";

/** The stored texts of a payload that no redaction changes, if a number in it has more digits than programs read. */
function losslessTexts(
  texts: Readonly<Partial<Record<Payload, string | null>>>,
  parsed: Readonly<Partial<Record<Payload, unknown>>>,
  shown: Readonly<Partial<Record<Payload, unknown>>>,
): Record<string, string> {
  const found: Record<string, string> = {};
  for (const field of ["input", "output"] as const) {
    const [text, value] = [texts[field], parsed[field]];
    // A payload that is damaged or nested too deep was replaced.
    if (text == null || !isShownWhole(text) || value !== shown[field]) continue;
    const lossless = losslessText(text, value);
    if (lossless !== null) found[field] = lossless;
  }
  return found;
}

async function getJob(context: CallContext, id: string): Promise<Job> {
  const job = await accessibleJobs(context).get(id);
  if (job === null) throw new JobNotFoundError(id);
  return job;
}

async function invalidState(context: CallContext, id: string, hint: string): Promise<ApiError> {
  const { state } = await getJob(context, id);
  return new ApiError(409, "INVALID_STATE", `job ${id} is ${state}; ${hint}`);
}

export const HANDLERS: { readonly [Name in Handled]: Handler<Name> } = {
  "jobs.list": list,
  "jobs.search": list,
  "jobs.count": count,
  "jobs.searchCount": count,
  "jobs.stats": async ({ hf, stats, maxAgeMs }) =>
    statsResult(...(await Promise.all([stats.read(maxAgeMs), hf.isPaused()]))),
  "jobs.get": async ({ hf, redact, identity }, { id }) => {
    const stored = await engineOf(hf).store.get(readId(id), identity.user === null ? {} : { user: identity.user });
    if (stored === null) throw new JobNotFoundError(id);
    const job = readJob(stored, { hasHistory: true });
    const detail = jobDetail(job, redact);
    const shown = identity.role === "user" ? withoutInternals(detail) : detail;
    const texts = { input: stored.input, output: stored.output };
    return withRawJson(shown, losslessTexts(texts, { input: job.input, output: job.output }, detail));
  },
  "jobs.explain": async (context, { id }) => explanationResult(await accessibleJobs(context).explain(id)),
  "jobs.steps": async (context, { id }) => {
    // Of a job that exists: an id that is mistyped is an error, not a job without steps.
    await getJob(context, id);
    return stepsResult(await context.hf.steps(id), context.redact);
  },
  "jobs.enqueue": async (context, { type, input, ...options }) => {
    await admitLane(context, type, options);
    return context.hf.enqueueNamed(type, withRestoredInput(context.restore, { input }, {}).input, options);
  },
  "jobs.update": async (context, { id, ...given }) => {
    const { hf, restore } = context;
    const { queue, priority, input } = given;
    const hasLane = queue !== undefined || priority !== undefined;
    const old = hasLane || input !== undefined ? await getJob(context, id) : null;
    const changes = withRestoredInput(restore, given, old ?? {});
    if (old !== null && hasLane) await context.lanes.admit(queue ?? old.queue, priority ?? old.priority);
    await hf.update(id, changes);
    return { status: "updated" };
  },
  "jobs.promote": async ({ hf }, { id }) => {
    await hf.promote(id);
    return { status: "promoted" };
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
  "jobs.updateMany": updateMany,
  "jobs.promoteMany": promoteMany,
  "jobs.retryMany": retryMany,
  "jobs.cancelMany": cancelMany,
  "jobs.removeMany": removeMany,
  "jobs.purge": purge,
  "jobs.preview": preview,

  "errors.list": async ({ hf }, options) => ({ groups: (await hf.errorGroups(options)).map(errorGroupResult) }),
  "history.get": async ({ hf }, options) => historyResult(await hf.history(options)),
  "transitions.list": async ({ hf }, { type, queue, state, ...page }) => {
    const conditions = {
      ...(type && { types: type }),
      ...(queue && { queues: queue }),
      ...(state && { states: state }),
    };
    return transitionResult(await readTransitions(engineOf(hf), { ...page, ...conditions }));
  },

  "operations.list": async ({ operations }) => ({ operations: await operations.list() }),
  "operations.get": ({ operations }, { id }) => operations.get(id),
  "operations.stop": ({ operations }, { id }) => operations.stop(id),

  "schedules.list": async ({ hf }, { search, ...query }) => {
    const { limit = PAGE_SIZE.default } = query;
    const found: Schedule[] = [];
    let cursor: string | null = query.cursor ?? null;
    for (let page = 0; page < (search === undefined ? 1 : SEARCHED_PAGES); page++) {
      const read = await hf.schedules.list({ ...query, limit: limit - found.length, cursor });
      found.push(...read.schedules.filter((schedule) => hasWords(schedule, search ?? "")));
      ({ cursor } = read);
      if (cursor === null || found.length >= limit) break;
    }
    return { schedules: found.map(scheduleSummary), cursor };
  },
  "schedules.preview": async ({ hf }, { count, ...timing }) =>
    runs(await hf.schedules.preview(withoutNulls(timing) as unknown as Timing, count)),
  "schedules.get": async ({ hf, redact }, { name }) => {
    const stored = await engineOf(hf).store.getSchedule(readScheduleName(name));
    if (stored === null) throw new ScheduleNotFoundError(name);
    const schedule = readSchedule(stored);
    const shown = scheduleResult(schedule, redact);
    return withRawJson(shown, losslessTexts({ input: stored.input }, schedule, shown));
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

  "queues.list": async ({ hf, stats, maxAgeMs }) => {
    // Only the names of queues without unfinished jobs come from the counts.
    const counts = stats.read(maxAgeMs === 0 ? 0 : COUNTED_MS);
    const { queues, paused } = await readQueues(engineOf(hf), counts);
    return { queues: queues.map(queueResult), paused };
  },
  "queues.pauseAll": async ({ hf, identity }) => {
    await pauseQueues(engineOf(hf), [], identity.name);
    return { paused: true };
  },
  "queues.resumeAll": async ({ hf }) => {
    await hf.resume();
    return { paused: false };
  },
  "queues.pause": async ({ hf, identity, lanes }, { queue }) => {
    readQueue(queue, "queue", "");
    await lanes.admitQueue(queue);
    await pauseQueues(engineOf(hf), [queue], identity.name);
    return { queue, paused: true };
  },
  "queues.resume": async ({ hf }, { queue }) => {
    readQueue(queue, "queue", "");
    await hf.resume(queue);
    return { queue, paused: false };
  },
  "events.emit": async ({ hf }, { event, payload, ...options }) => ({
    event,
    ...(await hf.emit(event, payload, options)),
  }),
  "keys.free": async ({ hf }, target) => ({ status: await hf.freeKey(target) }),
  "workers.list": async ({ hf }) => ({ workers: (await hf.workers()).map(workerResult) }),
  "workers.drain": (context, { id }) => drainWorker(context, id, true),
  "workers.resume": (context, { id }) => drainWorker(context, id, false),
  "types.list": async ({ hf }) => {
    const { clock, types } = engineOf(hf);
    const live = (await hf.workers()).filter((worker) => isLive(worker, clock.now()));
    const names = new Set([...types.keys(), ...live.flatMap(({ types }) => types)]);
    return { types: [...names].toSorted() };
  },

  "types.get": async ({ hf }, { type }) => typeResult(engineOf(hf), type),

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

async function drainWorker(
  { hf }: CallContext,
  id: string,
  draining: boolean,
): Promise<Calls["workers.drain"]["result"]> {
  if (await engineOf(hf).store.drainWorker(id, draining)) return { id, draining };
  throw new ApiError(
    404,
    "WORKER_NOT_FOUND",
    `worker ${id} not found, or it has stopped; workers.list lists all workers`,
  );
}

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

/** Pages that one search of schedules reads. */
const SEARCHED_PAGES = 10;

function hasWords({ name, type, queue, cron, timezone, tags }: Schedule, search: string): boolean {
  const text = [name, type, queue, cron, timezone, ...tags].join("\n").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

type Timing = ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">;

/** In an update, `null` removes a setting. In a new schedule it means the same as an absent field. */
function withoutNulls(body: object): object {
  return Object.fromEntries(Object.entries(body).filter(([field, value]) => value !== null || field === "input"));
}

function runs(slots: readonly Date[]): { runs: string[] } {
  return { runs: slots.map((slot) => slot.toISOString()) };
}
