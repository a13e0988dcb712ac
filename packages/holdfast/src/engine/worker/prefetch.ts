import { LIMITS } from "../../defaults.js";

/** Work to hold in hand, so that quick handlers never wait for a claim. */
const HOLD_MS = 50;
/** Handlers slower than this get nothing in advance: a job must not wait in one worker while another idles. */
const SLOW_MS = 25;
const MOST = LIMITS.batchJobs * 2;
const WEIGHT = 0.05;

/** Decides how many jobs to claim ahead of free slots, from how long recent handlers ran. */
export class Prefetch {
  #averageMs: number | null = null;

  /** A slow run counts at once, quick ones win trust slowly. */
  ran(ms: number): void {
    if (this.#averageMs === null || ms > SLOW_MS) this.#averageMs = Math.max(ms, this.#averageMs ?? 0);
    else this.#averageMs += (ms - this.#averageMs) * WEIGHT;
  }

  target(concurrency: number): number {
    if (this.#averageMs === null || this.#averageMs > SLOW_MS) return 0;
    return Math.min(MOST, Math.floor((concurrency * HOLD_MS) / Math.max(this.#averageMs, 0.01)));
  }
}
