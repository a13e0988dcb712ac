import { durationMs, instantMs, type Duration } from "../../duration.js";
import { InvalidOptionError, JobNotFoundError, JobNotWaitingError } from "../../errors.js";
import { encodeInput, namedType } from "../../job/job.js";
import { readMaxAttempts } from "../../job/retry.js";
import { isWaiting } from "../../job/state.js";
import { optionKeys, readPriority, readQueue, readTags, refuseUnknown } from "../../options.js";
import type { JobUpdate, StoredJob, UpdateResult } from "../../store.js";
import type { EngineContext } from "../context.js";

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
}

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
  return { change, input: "input" in options ? { value: options.input } : null };
}

function readExpiry(given: Date | number | string, now: number): number {
  const expiresAt = instantMs(given, "expiresAt");
  if (expiresAt > now) return expiresAt;
  throw new InvalidOptionError("expiresAt", `${new Date(expiresAt).toISOString()} is in the past`);
}

/** Updates one job. Throws if it does not exist, is not waiting, or cannot be changed like this. */
export async function updateJob(
  engine: EngineContext,
  id: string,
  update: ReadUpdate,
  scope: { user?: string },
): Promise<void> {
  const { store, events } = engine;
  const job = await store.get(id, scope);
  if (job === null) throw new JobNotFoundError(id);
  if (!isWaiting(job.state)) throw new JobNotWaitingError(id, job.state);
  const problem = contradiction(update, job, engine.clock.now());
  if (problem !== null) throw problem;
  const [result] = await store.update([{ id, ...update.change, ...(await encoded(engine, update, job.type)) }], scope);
  if (result?.status === "not-waiting") throw new JobNotWaitingError(id, result.state);
  if (result?.status !== "updated") throw new JobNotFoundError(id);
  events.emit("updated", { id });
}

/** Updates jobs that a filter found. Skips those that cannot be changed like this, and returns the results of the others. */
export async function updateJobs(
  engine: EngineContext,
  jobs: readonly StoredJob[],
  update: ReadUpdate,
  scope: { user?: string | undefined },
): Promise<UpdateResult["status"][]> {
  const { store, events, clock } = engine;
  const inputs = new Map<string, { input: string } | null>();
  const updates: JobUpdate[] = [];
  for (const job of jobs) {
    if (contradiction(update, job, clock.now()) !== null) continue;
    if (!inputs.has(job.type)) inputs.set(job.type, await encoded(engine, update, job.type));
    updates.push({ id: job.id, ...update.change, ...inputs.get(job.type) });
  }
  const results = await store.update(updates, scope);
  for (const [at, { id }] of updates.entries()) if (results[at]?.status === "updated") events.emit("updated", { id });
  return results.map(({ status }) => status);
}

async function encoded(
  { types }: EngineContext,
  { input }: ReadUpdate,
  type: string,
): Promise<{ input: string } | null> {
  return input === null ? null : { input: await encodeInput(types.get(type) ?? namedType(type), input.value) };
}

/** Why this job cannot be changed like this; null if it can. */
function contradiction({ change }: ReadUpdate, job: StoredJob, now: number): InvalidOptionError | null {
  const { maxAttempts, due } = change;
  if (maxAttempts !== undefined && maxAttempts <= job.attempt) {
    const used = job.attempt === 1 ? "1 attempt" : `${job.attempt} attempts`;
    return new InvalidOptionError("maxAttempts", `must be more than the job has used: ${used}`);
  }
  const dueAt = due === undefined ? (job.dueAt ?? now) : (due.runAt ?? now) + due.delayMs;
  const expiresAt = change.expiresAt === undefined ? job.expiresAt : change.expiresAt;
  if (expiresAt === null || expiresAt > dueAt || (due === undefined && change.expiresAt === undefined)) return null;
  const field = change.expiresAt === undefined ? (due?.runAt === null ? "delay" : "runAt") : "expiresAt";
  return new InvalidOptionError(field, "would make the job due after it expires, so it could never run");
}
