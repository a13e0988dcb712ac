import type { RouteName } from "../contract/routes.js";

/** What open pages load again and again. Their results are the same for every caller that may see all jobs. */
const SHARED: ReadonlySet<RouteName> = new Set<RouteName>([
  "jobs.stats",
  "jobs.count",
  "errors.list",
  "history.get",
  "schedules.list",
  "queues.list",
  "workers.list",
  "types.list",
  "audit.list",
]);
const MAX_AGE_S = 60;
const MAX_KEPT = 100;

interface Kept {
  result: Promise<unknown>;
  /** When the read began. */
  at: number;
}

/**
 * Reads that callers share who accept results of some seconds ago: `cache-control: max-age=5`. So any number of open pages costs the
 * store as much as one. A change through this server ends them all, so its caller sees it.
 */
export class SharedReads {
  readonly #kept = new Map<string, Kept>();

  /** `maxAgeMs`: 0 reads now. */
  async read<Result>(name: RouteName, input: unknown, maxAgeMs: number, read: () => Promise<Result>): Promise<Result> {
    if (maxAgeMs === 0 || !SHARED.has(name)) return read();
    const key = `${name} ${JSON.stringify(input)}`;
    const now = performance.now();
    const known = this.#kept.get(key);
    if (known !== undefined && now - known.at < maxAgeMs) return known.result as Promise<Result>;
    const kept = { result: read(), at: now };
    this.#keep(key, kept);
    kept.result.catch(() => {
      if (this.#kept.get(key) === kept) this.#kept.delete(key);
    });
    return kept.result;
  }

  /** Something has changed. */
  forget(): void {
    this.#kept.clear();
  }

  #keep(key: string, kept: Kept): void {
    // The oldest are the first.
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    for (const [other, { at }] of this.#kept) {
      if (this.#kept.size <= MAX_KEPT && kept.at - at < MAX_AGE_S * 1_000) return;
      this.#kept.delete(other);
    }
  }
}

/** How old a result may be that the caller accepts, in milliseconds. 0: it must be read now. */
export function maxAgeOf(request: Request): number {
  const [, seconds] = /(?:^|,)\s*max-age=(\d{1,4})\s*(?:,|$)/.exec(request.headers.get("cache-control") ?? "") ?? [];
  return Math.min(Number(seconds ?? 0), MAX_AGE_S) * 1_000;
}
