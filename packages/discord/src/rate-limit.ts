import type { Clock } from "holdfast/pack";

/** How far apart deferred jobs are, if Discord does not say how many calls it allows. */
const SPACING_MS = 250;
const MAX_SPACING_MS = 60_000;
const MAX_WAIT_MS = 86_400_000;
const MAX_SLOWDOWN = 16;

/** What Discord said with a response of status 429. */
export interface RateLimited {
  retryAfterMs: number;
  /** Calls per period, from the headers; null if Discord did not say. */
  rate: { calls: number; periodMs: number } | null;
}

/**
 * What this process knows of Discord's rate limits. Jobs that hit one are deferred one behind the other: if all of them came back
 * when the limit ends, most would hit it again, and some would use up their attempts.
 */
export class RateLimits {
  readonly #clock: Pick<Clock, "now">;
  /** No calls before this time. */
  #closedUntil = 0;
  /** When the next deferred job may run. */
  #nextRunAt = 0;
  #msPerCall = SPACING_MS;
  /** How many calls that count a job makes, on average. */
  #callsPerJob = 1;
  /** Grows while jobs are refused at their time, because other processes call too. */
  #slowdown = 1;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /**
   * How long a job must wait before its first call; 0 if it may call. A first attempt queues behind the deferred jobs. Later
   * attempts were deferred, and it is their time.
   */
  waitBefore(attempt: number): number {
    const now = this.#clock.now();
    if (now >= this.#nextRunAt) this.#slowdown = 1;
    const mustWait = now < this.#closedUntil || (attempt === 1 && now < this.#nextRunAt);
    return mustWait ? this.#defer(now) : 0;
  }

  /** A job is about to make this many calls that change something. */
  willCall(calls: number): void {
    this.#callsPerJob += (calls - this.#callsPerJob) / 5;
  }

  /** Discord refused a call. Returns how long the job has to wait: as long as Discord says, if no other job waits. */
  refused({ retryAfterMs, rate }: RateLimited, attempt: number): number {
    const now = this.#clock.now();
    this.#closedUntil = Math.max(this.#closedUntil, now + Math.min(retryAfterMs, MAX_WAIT_MS));
    if (rate !== null) this.#msPerCall = rate.periodMs / rate.calls;
    if (attempt > 1) this.#slowdown = Math.min(this.#slowdown * 1.5, MAX_SLOWDOWN);
    return this.#defer(now);
  }

  #defer(now: number): number {
    const wait = Math.max(1, Math.ceil(Math.max(this.#nextRunAt, this.#closedUntil) - now));
    if (wait > MAX_WAIT_MS) return MAX_WAIT_MS;
    const spacing = this.#msPerCall * Math.max(1, this.#callsPerJob) * this.#slowdown;
    this.#nextRunAt = now + wait + Math.min(spacing, MAX_SPACING_MS);
    return wait;
  }
}
