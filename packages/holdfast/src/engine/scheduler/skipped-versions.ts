import type { Clock } from "../../clock.js";

// With more entries than this, further versions are not remembered and are tried again with the next poll.
const MAX_ENTRIES = 10_000;

/** Versions of schedules that are skipped for a while, so that they do not block others. */
export class SkippedVersions {
  readonly #clock: Clock;
  readonly #versions = new Map<string, { until: number; waitMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Skips a version for `ms`. If it was skipped just before, the time doubles, up to `maxMs`. */
  skip(version: string, ms: number, maxMs: number = ms): void {
    const before = this.#versions.get(version);
    if (before === undefined && this.#versions.size >= MAX_ENTRIES) return;
    const waitMs = Math.min(maxMs, Math.max(ms, 2 * (before?.waitMs ?? 0)));
    this.#versions.set(version, { until: this.#clock.monotonic() + waitMs, waitMs });
  }

  clear(): void {
    this.#versions.clear();
  }

  /** Whether the version is to be skipped now. */
  has(version: string): boolean {
    return (this.#versions.get(version)?.until ?? 0) > this.#clock.monotonic();
  }

  /** How many versions are skipped now, and in how many milliseconds the first of them is to be tried again. */
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
