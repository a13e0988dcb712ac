import type { Duration } from "../duration.js";
import type { HoldfastError } from "../errors.js";
import type { CalendarUnit } from "../schedule/calendar.js";
import { optionKeys } from "../options.js";
import type { JobId } from "./job-id.js";

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
  /** The maximum duration of an attempt; `false`: none. Default: the job type's timeout. */
  timeout?: Duration | false;
  tags?: readonly string[];
  /** Your own UUID: if the enqueue is repeated with it, the job is stored once. */
  id?: string;
  /** Your own open transaction: the job exists if and only if it commits. */
  tx?: unknown;
}

/** The names of the options. */
export const ENQUEUE_KEYS: ReadonlySet<string> = optionKeys<EnqueueOptions>({
  delay: true,
  runAt: true,
  priority: true,
  queue: true,
  unique: true,
  user: true,
  expiresAt: true,
  maxAttempts: true,
  timeout: true,
  tags: true,
  id: true,
  tx: true,
});

export interface UniqueOptions {
  key: string;
  /** How long the key is held: until the first claim, until the job is finished (default), for a period, or forever. */
  scope?: "waiting" | "live" | "forever" | { period: Duration } | CalendarScope;
  /** `keep` returns the job that holds the key, `replace` updates it if it is waiting, `reject` throws. */
  onConflict?: "keep" | "replace" | "reject";
}

/** One job in each hour, day, week (starting on Monday), month or year of a time zone. */
export interface CalendarScope {
  calendar: CalendarUnit;
  /** An IANA time zone. Default: UTC. */
  zone?: string;
}

export interface EnqueueManyOptions<Input, Output = unknown> extends Omit<EnqueueOptions, "id"> {
  /** Options for single jobs; they override the common ones. */
  each?: (input: Input, index: number) => Omit<EnqueueOptions, "tx">;
  /**
   * Receives the results one by one, for streams that do not fit into memory; the call then resolves to an empty array. If it
   * returns a promise, the next result and the reading of the stream wait for it. If it fails, so does the call; jobs enqueued
   * by then stay.
   */
  onResult?: (result: EnqueueManyResult<Output>, index: number) => unknown;
}

/** What `enqueue` returns. */
export interface EnqueueResult<Output = unknown> {
  /** The new job, or the existing one with the same key or id. `hf.result(id)` has the output's type. */
  id: JobId<Output>;
  /** A job with the same key or id existed. */
  duplicate: boolean;
  /** The existing job now has the new input and options. */
  replaced: boolean;
}

/** The result for one job of `enqueueMany`: what `enqueue` would have returned, or the error that it would have thrown. */
export type EnqueueManyResult<Output = unknown> =
  | (EnqueueResult<Output> & { error: null })
  | { id: null; error: HoldfastError };
