import { LIMITS } from "../../defaults.js";

/** How much handler time to prefetch: longer than a claim takes, so that no capacity is idle meanwhile. */
const PREFETCH_MS = 50;
/** Slower handlers get nothing in advance: a prefetched job must not wait here while another worker is idle. */
const SLOW_HANDLER_MS = 25;
const MAX_JOBS = LIMITS.batchJobs * 2;
/** How much one fast run moves the average. */
const WEIGHT = 0.05;

/**
 * Decides how many jobs to claim beyond the free capacity, from how long recent handlers ran.
 *
 * Without prefetch a worker with fast handlers is idle for a round trip to the store after each batch. With a fixed number,
 * slow handlers would make claimed jobs wait in one worker while others have free capacity.
 */
export class Prefetch {
  #averageMs: number | null = null;

  /** One slow run stops prefetching immediately; it takes many fast runs to bring the average down again. */
  recordDuration(ms: number): void {
    if (this.#averageMs === null || ms > SLOW_HANDLER_MS) this.#averageMs = Math.max(ms, this.#averageMs ?? 0);
    else this.#averageMs += (ms - this.#averageMs) * WEIGHT;
  }

  target(concurrency: number): number {
    if (this.#averageMs === null || this.#averageMs > SLOW_HANDLER_MS) return 0;
    return Math.min(MAX_JOBS, Math.floor((concurrency * PREFETCH_MS) / Math.max(this.#averageMs, 0.01)));
  }
}
