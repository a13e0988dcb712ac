import type { Clock } from "../../clock.js";

// Beyond these none is remembered: it is tried again with the next look.
const MOST = 10_000;

/** Versions of schedules that are not tried for a while, so that they are in nobody's way. */
export class LeftAlone {
  readonly #clock: Clock;
  readonly #versions = new Map<string, { until: number; waitMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** For so long, and, if it was left alone just before, for twice as long as then; at most for `mostMs`. */
  leave(version: string, ms: number, mostMs: number = ms): void {
    const before = this.#versions.get(version);
    if (before === undefined && this.#versions.size >= MOST) return;
    const waitMs = Math.min(mostMs, Math.max(ms, 2 * (before?.waitMs ?? 0)));
    this.#versions.set(version, { until: this.#clock.monotonic() + waitMs, waitMs });
  }

  clear(): void {
    this.#versions.clear();
  }

  has(version: string): boolean {
    return (this.#versions.get(version)?.until ?? 0) > this.#clock.monotonic();
  }

  /** How many they are, and in how many milliseconds the first of them is to be tried again. */
  count(): { versions: number; nextInMs: number } {
    const now = this.#clock.monotonic();
    let versions = 0;
    let next = Number.POSITIVE_INFINITY;
    for (const [version, { until, waitMs }] of this.#versions) {
      if (until > now) {
        versions++;
        next = Math.min(next, until);
      } else if (until + waitMs <= now) this.#versions.delete(version);
    }
    return { versions, nextInMs: next - now };
  }
}
