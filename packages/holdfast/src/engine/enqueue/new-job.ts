import { ENQUEUE_KEYS, type EnqueueOptions } from "../../job/enqueue-types.js";
import { LAST_INSTANT_MS, LIMITS } from "../../defaults.js";
import { durationMs, instantMs } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { readId } from "../../job/uuid.js";
import { readName, readPriority, readQueue, readTags, refuseUnknown } from "../../options.js";
import { readMaxAttempts } from "../../job/retry.js";
import { readTimeout, type JobType } from "../../job/job.js";
import type { JobSettings, NewJob } from "../../store.js";
import { readUnique } from "./unique.js";

/** The values of a job type for options that are not given. */
export interface EnqueueDefaults {
  type: string;
  queue: string;
  priority: number;
  maxAttempts: number;
  expiresAfterMs: number | null;
  retentionMs: JobType["retentionMs"];
  tags: readonly string[];
}

/** Checks the options and returns the record for the store. */
export function readNewJob(
  defaults: EnqueueDefaults,
  input: string,
  options: EnqueueOptions,
  now: number,
  newId: (nowMs: number) => string,
): NewJob {
  refuseUnknown(options, ENQUEUE_KEYS, "enqueue");
  if (options.delay !== undefined && options.runAt !== undefined) {
    throw new InvalidOptionError("delay", "cannot be combined with runAt; pass one of them");
  }
  const delayMs = options.delay === undefined ? 0 : durationMs(options.delay, "delay");
  const runAt = options.runAt === undefined ? null : instantMs(options.runAt, "runAt");
  return {
    id: options.id === undefined ? newId(now) : readId(options.id),
    type: defaults.type,
    queue: options.queue === undefined ? defaults.queue : readQueue(options.queue),
    priority: options.priority === undefined ? defaults.priority : readPriority(options.priority),
    user: options.user === undefined ? null : readName(options.user, "user", LIMITS.userLength),
    input,
    maxAttempts: options.maxAttempts === undefined ? defaults.maxAttempts : readMaxAttempts(options.maxAttempts),
    runAt,
    delayMs,
    expiresAt: readExpiry(defaults, options, now, (runAt ?? now) + delayMs),
    tags: options.tags === undefined ? defaults.tags : readTags(options.tags),
    unique: options.unique === undefined ? null : readUnique(options.unique, options.user, now),
    schedule: null,
    parent: null,
    settings: settingsOf(defaults, options.timeout === undefined ? undefined : (readTimeout(options.timeout) ?? 0)),
    trace: null,
  };
}

/** What a job sets for itself: the retention of its type, and a timeout if it was given one. */
export function settingsOf(
  type: Pick<EnqueueDefaults, "retentionMs"> | undefined,
  timeoutMs?: number,
): JobSettings | null {
  // A job type of an older copy of this package has no retention.
  const retentionMs = type?.retentionMs ?? null;
  if (timeoutMs === undefined && retentionMs === null) return null;
  return { ...(timeoutMs !== undefined && { timeoutMs }), ...(retentionMs !== null && { keepMs: retentionMs }) };
}

function readExpiry(defaults: EnqueueDefaults, options: EnqueueOptions, now: number, dueAt: number): number | null {
  // Counted from the due time: a delay must not shorten the time in which the job can start.
  if (options.expiresAt === undefined) {
    if (defaults.expiresAfterMs === null) return null;
    return Math.min(Math.max(now, dueAt) + defaults.expiresAfterMs, LAST_INSTANT_MS);
  }
  const expiresAt = instantMs(options.expiresAt, "expiresAt");
  if (expiresAt <= now)
    throw new InvalidOptionError("expiresAt", `${new Date(expiresAt).toISOString()} is in the past`);
  if (expiresAt <= dueAt) throw new InvalidOptionError("expiresAt", "is before the job is due, so it could never run");
  return expiresAt;
}
