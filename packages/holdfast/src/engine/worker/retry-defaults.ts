import type { JobType } from "../../job/job.js";
import { mergeRetry, readRetry, type Backoff, type RetryOptions } from "../../job/retry.js";

/** How the jobs of one client are retried where their types do not say. */
export interface RetryDefaults {
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  /** The job type with what it leaves open filled in. */
  fill(type: JobType): JobType;
}

/** Checks the client's `retry` option. */
export function readRetryDefaults(options: RetryOptions | undefined): RetryDefaults {
  const own = readRetry(options);
  if (options === undefined) return { ...own, fill: (type) => type };
  const defaults = { ...options };
  const filled = new WeakMap<JobType, JobType>();
  return {
    ...own,
    fill(type) {
      const known = filled.get(type);
      if (known !== undefined) return known;
      // Made by hand, or by a version that did not keep what was given: it says all itself.
      if ((type.retry as RetryOptions | undefined) === undefined) return type;
      const full = Object.freeze({ ...type, ...readRetry(mergeRetry(type.retry, defaults)) });
      filled.set(type, full);
      return full;
    },
  };
}
