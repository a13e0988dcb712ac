import type { Clock } from "../../clock.js";
import { DEFAULTS } from "../../defaults.js";
import { InvalidOptionError } from "../../errors.js";
import type { Backoff } from "../../job/retry.js";
import type { EngineContext } from "../context.js";
import type { RetrySettings, LeasedJob } from "./decide-outcome.js";

/** The retry settings for a failed attempt: those of the job type or, if it is not known here, those of the client. */
export function retrySettings(
  { clock, logger, random, redact, types, retry }: EngineContext,
  { job }: LeasedJob,
): RetrySettings {
  const { backoff } = types.get(job.type) ?? retry;
  const onInvalidBackoff = (error: unknown): void => {
    const problem = error instanceof InvalidOptionError ? "returned no valid delay" : "failed";
    logger.error({ job: job.id, type: job.type, error }, `the backoff function ${problem}; retrying in 30 s`);
  };
  return { backoff: withTimeout(backoff, clock), random, redact, onInvalidBackoff, now: clock.now() };
}

/** A backoff function may return a promise that never settles. The job must not wait for it forever. */
function withTimeout(backoff: Backoff, clock: Clock): Backoff {
  return (attempt, error, random) => {
    const delay = backoff(attempt, error, random);
    if (typeof delay === "number") return delay;
    return new Promise((resolve, reject) => {
      const timeUp = (): void =>
        reject(new InvalidOptionError("retry.backoff", `returned no delay within ${DEFAULTS.backoffWaitMs / 1_000} s`));
      const timer = clock.after(DEFAULTS.backoffWaitMs, timeUp);
      delay.then(resolve, reject).finally(() => timer.cancel());
    });
  };
}
