import type { Clock } from "../../clock.js";
import { DEFAULTS } from "../../defaults.js";
import type { Backoff } from "../../job/retry.js";
import type { EngineContext } from "../context.js";
import type { FailurePolicy, LeasedJob } from "./outcome.js";

/** How a failed attempt is retried: as the job type defines it, otherwise as the client does. */
export function failurePolicy(
  { clock, logger, random, redact, types, retry }: EngineContext,
  { job }: LeasedJob,
): FailurePolicy {
  const { backoff } = types.get(job.type) ?? retry;
  const onInvalidBackoff = (error: unknown): void =>
    void logger.error(
      { job: job.id, type: job.type, error },
      "the backoff function returned no valid delay; retrying in 30 s",
    );
  return { backoff: inTime(backoff, clock), random, redact, onInvalidBackoff, now: clock.now() };
}

/** A promise of a backoff function that never settles must not keep the job forever. */
function inTime(backoff: Backoff, clock: Clock): Backoff {
  return (attempt, error, random) => {
    const delay = backoff(attempt, error, random);
    if (typeof delay === "number") return delay;
    return new Promise((resolve, reject) => {
      const timeUp = (): void => reject(new Error(`no delay within ${DEFAULTS.backoffWaitMs / 1_000} s`));
      const timer = clock.after(DEFAULTS.backoffWaitMs, timeUp);
      delay.then(resolve, reject).finally(() => timer.cancel());
    });
  };
}
