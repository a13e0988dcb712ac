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
  return { backoff, random, redact, onInvalidBackoff, now: clock.now() };
}
