import { LAST_INSTANT_MS, LIMITS } from "../../defaults.js";
import { durationMs, instantMs, type Duration } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { readId } from "../../job/uuid.js";
import { optionKeys, readName, readPriority, readQueue, readTags, refuseUnknown } from "../../options.js";
import { readMaxAttempts } from "../../job/retry.js";
import type { NewJob } from "../../store.js";
import { readUnique, type UniqueOptions } from "./unique.js";

/** Options of `enqueue`. */
export interface EnqueueOptions {
  /** Run no earlier than this long from now. */
  delay?: Duration;
  /** Run no earlier than this instant. */
  runAt?: Date | number | string;
  /** −100 to 100, higher first. */
  priority?: number;
  queue?: string;
  /**
   * A key that at most one job can hold, within a scope (default `live`: until that job is finished). With `user` the key is
   * unique per user.
   */
  unique?: string | UniqueOptions;
  /** The user the job belongs to; see `hf.forUser`. */
  user?: string;
  /** The job is dead-lettered if it has not started by then. */
  expiresAt?: Date | number | string;
  maxAttempts?: number;
  tags?: readonly string[];
  /** Your own UUID: if the enqueue is repeated with it, the job is stored once. */
  id?: string;
  /** Your own open transaction: the job exists if and only if it commits. */
  tx?: unknown;
}

/** What a job type sets for options that are left out. */
export interface EnqueueDefaults {
  type: string;
  queue: string;
  priority: number;
  maxAttempts: number;
  expiresAfterMs: number | null;
  tags: readonly string[];
}

const ENQUEUE_KEYS: ReadonlySet<string> = optionKeys<EnqueueOptions>({
  delay: true,
  runAt: true,
  priority: true,
  queue: true,
  unique: true,
  user: true,
  expiresAt: true,
  maxAttempts: true,
  tags: true,
  id: true,
  tx: true,
});

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
    settings: null,
    trace: null,
  };
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
