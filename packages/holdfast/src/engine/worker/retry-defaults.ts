import type { JobType } from "../../job/job.js";
import { mergeRetry, readRetry, type Backoff, type RetryOptions } from "../../job/retry.js";

/** How the jobs of one client are retried unless their type sets its own `retry`. */
export interface RetryDefaults {
  readonly maxAttempts: number;
  readonly backoff: Backoff;
  /** The job type, with these defaults for what it does not set. */
  applyTo(type: JobType): JobType;
}

/** Checks the client's `retry` option. */
export function readRetryDefaults(options: RetryOptions | undefined): RetryDefaults {
  const own = readRetry(options);
  if (options === undefined) return { ...own, applyTo: (type) => type };
  const defaults = { ...options };
  const filled = new WeakMap<JobType, JobType>();
  return {
    ...own,
    applyTo(type) {
      const known = filled.get(type);
      if (known !== undefined) return known;
      // Not made by job(), or by an older version of it: it has no `retry` to merge with.
      if ((type.retry as RetryOptions | undefined) === undefined) return type;
      const full = Object.freeze({ ...type, ...readRetry(mergeRetry(type.retry, defaults)) });
      filled.set(type, full);
      return full;
    },
  };
}
