import { durationMs, type Duration } from "../duration.js";
import { brand, HoldfastError } from "../errors.js";

/**
 * Thrown by a handler: try again after this long instead of the usual backoff. A delay that is none throws
 * `InvalidOptionError` instead, which fails the attempt like any other error: the job is retried by its backoff.
 */
export class RetryAfter extends HoldfastError {
  static {
    brand(this, "RetryAfter");
  }
  readonly delay: Duration;
  constructor(delay: Duration, message = "asked to be retried later", options?: { cause?: unknown }) {
    durationMs(delay, "RetryAfter");
    super("RETRY_AFTER", message, options);
    this.delay = delay;
  }
}
