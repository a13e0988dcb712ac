import { durationMs, instantMs, type Duration } from "../../duration.js";
import { InvalidOptionError, JobNotFoundError, JobNotWaitingError } from "../../errors.js";
import { encodeInput, namedType } from "../../job/job.js";
import { readMaxAttempts } from "../../job/retry.js";
import { isWaiting, STATE_NAMES } from "../../job/state.js";
import { optionKeys, readPriority, readQueue, readTags, refuseUnknown } from "../../options.js";
import type { JobUpdate, StoredJob, UpdateConflict, UpdateResult } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { ReadFilter } from "./filter.js";
import { listJobs, type InputView, type ListedJobs } from "./list-jobs.js";

/** Changes to a waiting job. Absent fields stay as they are. */
export interface UpdateOptions {
  /** Run no earlier than this long from now. */
  delay?: Duration;
  /** Run no earlier than this instant. */
  runAt?: Date | number | string;
  priority?: number;
  queue?: string;
  /** The new input. Validated if the job's type is known here, otherwise when it runs. */
  input?: unknown;
  /** The new tags, instead of the old ones. */
  tags?: readonly string[];
  /** Total attempts; more than the job has used. */
  maxAttempts?: number;
  /** `null`: never. */
  expiresAt?: Date | number | string | null;
}

const UPDATE_KEYS: ReadonlySet<string> = optionKeys<UpdateOptions>({
  delay: true,
  runAt: true,
  priority: true,
  queue: true,
  input: true,
  tags: true,
  maxAttempts: true,
  expiresAt: true,
});

/** An update with its options checked, before it is checked against a job. */
export interface ReadUpdate {
  change: Omit<JobUpdate, "id" | "input">;
  /** Set if the input changes. */
  input: { value: unknown } | null;
  /** A call of `promote`: the caller did not give a due time. */
  isPromotion: boolean;
}

/** The update that makes a job due now. */
export const PROMOTION: ReadUpdate = { change: { due: { runAt: null, delayMs: 0 } }, input: null, isPromotion: true };

export function readUpdate(options: UpdateOptions, now: number): ReadUpdate {
  refuseUnknown(options, UPDATE_KEYS, "update");
  // Refuse a value that is undefined by mistake: ignoring it would look like a successful change.
  for (const [field, value] of Object.entries(options)) {
    if (value === undefined) throw new InvalidOptionError(field, "is undefined; give it a value, or leave it out");
  }
  const { delay, runAt, priority, queue, tags, maxAttempts, expiresAt } = options;
  if (Object.keys(options).length === 0)
    throw new InvalidOptionError("update", "must contain at least one change, e.g. { priority: 10 }");
  if (delay !== undefined && runAt !== undefined)
    throw new InvalidOptionError("delay", "cannot be combined with runAt; pass one of them");
  const due =
    delay !== undefined
      ? { runAt: null, delayMs: durationMs(delay, "delay") }
      : runAt !== undefined
        ? { runAt: instantMs(runAt, "runAt"), delayMs: 0 }
        : undefined;
  const change: ReadUpdate["change"] = {
    ...(due !== undefined && { due }),
    ...(priority !== undefined && { priority: readPriority(priority) }),
    ...(queue !== undefined && { queue: readQueue(queue) }),
    ...(tags !== undefined && { tags: readTags(tags) }),
    ...(maxAttempts !== undefined && { maxAttempts: readMaxAttempts(maxAttempts) }),
    ...(expiresAt !== undefined && { expiresAt: expiresAt === null ? null : readExpiry(expiresAt, now) }),
  };
  return { change, input: "input" in options ? { value: options.input } : null, isPromotion: false };
}

function readExpiry(given: Date | number | string, now: number): number {
  const expiresAt = instantMs(given, "expiresAt");
  if (expiresAt > now) return expiresAt;
  throw new InvalidOptionError("expiresAt", `${new Date(expiresAt).toISOString()} is in the past`);
}

// A job that changes this often between the check and the write is being changed by something else all the time.
const MAX_TRIES = 5;

/** Updates one job. Throws if it does not exist, is not waiting, or cannot be changed like this. */
export async function updateJob(
  engine: EngineContext,
  id: string,
  update: ReadUpdate,
  scope: { user?: string },
): Promise<void> {
  const { store, events, clock } = engine;
  for (let attempt = 1; ; attempt++) {
    const job = await store.get(id, scope);
    if (job === null) throw new JobNotFoundError(id);
    if (!isWaiting(job.state)) throw new JobNotWaitingError(id, job.state);
    const problem = contradiction(update, job, clock.now());
    if (problem !== null) throw problem;
    const change = { id, ...update.change, ...(await encoded(engine, update, job.type)) };
    const [result] = await store.update([change], scope);
    if (result?.status === "not-waiting") throw new JobNotWaitingError(id, result.state);
    // The job has changed since it was checked, so it is checked again.
    if (result?.status === "conflict" && attempt < MAX_TRIES) continue;
    if (result?.status === "conflict") throw conflictError(result.reason, update, job);
    if (result?.status !== "updated") throw new JobNotFoundError(id);
    return events.emit("updated", { id });
  }
}

/**
 * Checks the new input for every job type that this process knows, before any job that matches the filter is changed. Throws if a
 * matching job waits whose type rejects it. Returns the types that reject it: no such job waited, so it is not an error.
 */
export async function checkInput(
  engine: EngineContext,
  { input }: ReadUpdate,
  filter: ReadFilter,
  { inputView, signal }: { inputView?: InputView | undefined; signal?: AbortSignal | undefined } = {},
): Promise<ReadonlySet<string>> {
  const rejections = new Map<string, unknown>();
  if (input === null) return new Set();
  const { types, states } = filter.stored;
  for (const [name, type] of engine.types) {
    if (types?.includes(name) === false) continue;
    try {
      await encodeInput(type, input.value);
    } catch (error) {
      rejections.set(name, error);
    }
  }
  const rejecting = new Set(rejections.keys());
  const waiting = STATE_NAMES.filter((state) => isWaiting(state) && (states?.includes(state) ?? true));
  if (rejecting.size === 0 || waiting.length === 0) return rejecting;
  const rejected = { ...filter, stored: { ...filter.stored, types: [...rejecting], states: waiting } };
  let cursor: string | null = null;
  do {
    // Few of very many jobs may match.
    signal?.throwIfAborted();
    const page: ListedJobs = await listJobs(engine, rejected, { limit: 1, cursor, payloads: false }, inputView);
    const [job] = page.jobs;
    if (job !== undefined) throw rejections.get(job.type);
    ({ cursor } = page);
  } while (cursor !== null);
  return rejecting;
}

/** A job that a bulk update did not change. */
export interface UnchangedJob {
  id: string;
  /** For people, such as `is running`. */
  reason: string;
}

/** `rejected`: the type of the job rejects the new input. */
export type JobUpdateStatus = UpdateResult["status"] | "rejected";

/**
 * Updates jobs that a filter found. Jobs that the change contradicts are left as they are, and so are jobs of the types in
 * `rejecting`, which were enqueued after `checkInput`. `statuses`: of each, in order. `unchanged`: those that were not updated.
 */
export async function updateJobs(
  engine: EngineContext,
  jobs: readonly StoredJob[],
  update: ReadUpdate,
  scope: { user?: string | undefined },
  rejecting: ReadonlySet<string>,
): Promise<{ statuses: JobUpdateStatus[]; unchanged: UnchangedJob[] }> {
  const { store, events, clock } = engine;
  const inputs = new Map<string, CheckedInput | null>();
  const updates: { job: StoredJob; change: JobUpdate }[] = [];
  const statuses = new Map<string, JobUpdateStatus>();
  const reasons = new Map<string, string>();
  for (const job of jobs) {
    const { id, state, type } = job;
    const problem = rejecting.has(type)
      ? `is of type ${type}, which rejects the input`
      : contradiction(update, job, clock.now())?.message;
    if (problem !== undefined) {
      statuses.set(id, rejecting.has(type) ? "rejected" : isWaiting(state) ? "conflict" : "not-waiting");
      reasons.set(id, isWaiting(state) ? problem : `is ${state}`);
      continue;
    }
    if (!inputs.has(type)) inputs.set(type, await encoded(engine, update, type));
    updates.push({ job, change: { id, ...update.change, ...inputs.get(type) } });
  }
  const results = await store.update(
    updates.map(({ change }) => change),
    scope,
  );
  for (const [at, { job }] of updates.entries()) {
    const result = results[at] as UpdateResult;
    statuses.set(job.id, result.status);
    if (result.status === "updated") events.emit("updated", { id: job.id });
    else reasons.set(job.id, reasonOf(result, update, job));
  }
  const unchanged = jobs.flatMap(({ id }) => {
    const reason = reasons.get(id);
    return reason === undefined ? [] : [{ id, reason }];
  });
  return { statuses: jobs.map(({ id }) => statuses.get(id) as JobUpdateStatus), unchanged };
}

function reasonOf(result: UpdateResult, update: ReadUpdate, job: StoredJob): string {
  if (result.status === "not-waiting") return `is ${result.state}`;
  if (result.status === "conflict") return conflictError(result.reason, update, job).message;
  return NOT_FOUND;
}

/** The job was deleted, or does not match the filter any more. */
export const NOT_FOUND = "not found";

type CheckedInput = Required<Pick<JobUpdate, "input" | "inputType">>;

async function encoded({ types }: EngineContext, { input }: ReadUpdate, type: string): Promise<CheckedInput | null> {
  if (input === null) return null;
  return { input: await encodeInput(types.get(type) ?? namedType(type), input.value), inputType: type };
}

/** Why this job cannot be changed like this; null if it can. The store checks it again when it writes the change. */
function contradiction(update: ReadUpdate, job: StoredJob, now: number): InvalidOptionError | null {
  const { maxAttempts, due, ...change } = update.change;
  if (maxAttempts !== undefined && maxAttempts <= job.attempt) return conflictError("attempts", update, job);
  const dueAt = due === undefined ? (job.dueAt ?? now) : (due.runAt ?? now) + due.delayMs;
  const expiresAt = change.expiresAt === undefined ? job.expiresAt : change.expiresAt;
  if (expiresAt === null || expiresAt > dueAt || (due === undefined && change.expiresAt === undefined)) return null;
  return conflictError("expiry", update, job);
}

function conflictError(
  reason: UpdateConflict,
  { change, isPromotion }: ReadUpdate,
  job: StoredJob,
): InvalidOptionError {
  if (reason === "type")
    return new InvalidOptionError("input", "was checked for another type: the job changes all the time");
  if (reason === "attempts") {
    const used = job.attempt === 1 ? "1 attempt" : `${job.attempt} attempts`;
    return new InvalidOptionError("maxAttempts", `must be more than the job has used: ${used}`);
  }
  if (isPromotion) {
    const expiresAt = new Date(job.expiresAt ?? 0).toISOString();
    return new InvalidOptionError("id", `names a job that expired at ${expiresAt}; it cannot run`);
  }
  const field = change.expiresAt === undefined ? (change.due?.runAt === null ? "delay" : "runAt") : "expiresAt";
  return new InvalidOptionError(field, "would make the job due after it expires, so it could never run");
}
