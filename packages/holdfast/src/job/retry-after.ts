import { durationMs, type Duration } from "../duration.js";
import { brand, HoldfastError } from "../errors.js";

/**
 * Thrown by a handler to retry the job after `delay` instead of the usual backoff. An invalid delay throws `InvalidOptionError`,
 * which fails the attempt like any other error: the job is retried with its backoff.
 */
export class RetryAfter extends HoldfastError {
  static {
    brand(this, "RetryAfter");
  }
  readonly delay: Duration;
  constructor(delay: Duration, message = "the handler requested a later retry", options?: { cause?: unknown }) {
    durationMs(delay, "RetryAfter");
    super("RETRY_AFTER", message, options);
    this.delay = delay;
  }
}
