import { LAST_INSTANT_MS, LIMITS } from "../../defaults.js";
import { durationMs, instantMs, type Duration } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { readId } from "../../job/id.js";
import { optionKeys, readName, readPriority, readQueue, readTags, refuseUnknown } from "../../options.js";
import { readMaxAttempts } from "../../job/retry.js";
import type { NewJob } from "../../store.js";
import { readUnique, type UniqueOptions } from "./unique.js";

/** What `enqueue` takes besides the job type and its input. */
export interface EnqueueOptions {
  /** Run no earlier than this long from now. */
  delay?: Duration;
  /** Run no earlier than this instant. */
  runAt?: Date | number | string;
  /** −100 to 100, higher first. */
  priority?: number;
  queue?: string;
  /**
   * A key that at most one job has, in a scope (default `live`: until that job is finished). With `user` the key is that
   * user's own: another user's job may have the same.
   */
  unique?: string | UniqueOptions;
  /** The user the job belongs to; see `hf.forUser`. */
  user?: string;
  /** A job not begun by then goes dead instead. */
  expiresAt?: Date | number | string;
  maxAttempts?: number;
  tags?: readonly string[];
  /** A UUID of your own: repeating the enqueue with it creates nothing twice. */
  id?: string;
  /** Your own open transaction: the job exists if and only if it commits. */
  tx?: unknown;
}

/** What a job type contributes where the options are silent. */
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

/** Checks the options and gives the record for the store. */
export function readNewJob(
  defaults: EnqueueDefaults,
  input: string,
  options: EnqueueOptions,
  now: number,
  newId: (nowMs: number) => string,
): NewJob {
  refuseUnknown(options, ENQUEUE_KEYS, "enqueue");
  if (options.delay !== undefined && options.runAt !== undefined) {
    throw new InvalidOptionError("delay", "give either delay or runAt, not both");
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
    trace: null,
  };
}

function readExpiry(defaults: EnqueueDefaults, options: EnqueueOptions, now: number, dueAt: number): number | null {
  // Counted from when the job may run: a delay must not eat up its time.
  if (options.expiresAt === undefined) {
    if (defaults.expiresAfterMs === null) return null;
    return Math.min(Math.max(now, dueAt) + defaults.expiresAfterMs, LAST_INSTANT_MS);
  }
  const expiresAt = instantMs(options.expiresAt, "expiresAt");
  if (expiresAt <= now)
    throw new InvalidOptionError("expiresAt", `${new Date(expiresAt).toISOString()} has passed; use a time to come`);
  if (expiresAt <= dueAt) throw new InvalidOptionError("expiresAt", "is before the job may run; it could never do so");
  return expiresAt;
}
