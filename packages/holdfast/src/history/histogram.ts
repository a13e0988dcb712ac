/**
 * Durations in buckets: bucket 0 holds those below 1 ms, and each further bucket reaches to √2 times the previous one. A
 * percentile is off by a fifth at most, and histograms of any number of processes can be added.
 */
export class Histogram {
  /** Counts by bucket. An array, because every job that ends is added. */
  readonly #counts: number[] = [];

  add(durationMs: number): void {
    this.#addTo(bucketOf(durationMs), 1);
  }

  merge(other: Histogram): void {
    for (const [bucket, count] of other.#counts.entries()) this.#addTo(bucket, count);
  }

  #addTo(bucket: number, count: number): void {
    while (this.#counts.length <= bucket) this.#counts.push(0);
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + count;
  }

  get total(): number {
    return this.#counts.reduce((total, count) => total + count, 0);
  }

  /** The duration that a fraction of all durations do not exceed, e.g. 0.95; null without durations. */
  percentile(fraction: number): number | null {
    const { total } = this;
    if (total === 0) return null;
    const rank = Math.max(1, Math.ceil(fraction * total));
    let passed = 0;
    for (const [bucket, count] of this.#counts.entries()) {
      if (count > 0 && passed + count >= rank) return within(bucket, (rank - passed) / count);
      passed += count;
    }
    return null;
  }

  /** Pairs of a bucket and its count. */
  toJSON(): [bucket: number, count: number][] {
    return [...this.#counts.entries()].filter(([, count]) => count > 0);
  }

  /** Pairs that are not valid are left out. */
  static fromJSON(value: unknown): Histogram {
    const histogram = new Histogram();
    if (!Array.isArray(value)) return histogram;
    for (const pair of value.slice(0, LAST_BUCKET + 1) as unknown[]) {
      if (!Array.isArray(pair)) continue;
      const [bucket, count] = pair as unknown[];
      if (isCount(bucket) && bucket <= LAST_BUCKET && isCount(count)) histogram.#addTo(bucket, count);
    }
    return histogram;
  }
}

// Beyond 2^30 ms, about 12 days.
const LAST_BUCKET = 61;

const MAX_MS = 2 ** 30;
/** √2 × 2^n, by n. */
const HALFWAY: readonly number[] = Array.from({ length: 31 }, (_, n) => 2 ** (n + 0.5));

/** `1 + ⌊2 × log₂⌋`, without a logarithm: it is computed twice for every job. */
function bucketOf(durationMs: number): number {
  if (!(durationMs >= 1)) return 0;
  if (durationMs >= MAX_MS) return LAST_BUCKET;
  const power = 31 - Math.clz32(durationMs);
  return 1 + 2 * power + (durationMs >= (HALFWAY[power] ?? MAX_MS) ? 1 : 0);
}

/** A position inside a bucket, from 0 to 1, as a duration. */
function within(bucket: number, position: number): number {
  const start = bucket === 0 ? 0 : 2 ** ((bucket - 1) / 2);
  const end = 2 ** (bucket / 2);
  const duration = start + (end - start) * position;
  return duration < 10 ? Math.round(duration * 10) / 10 : Math.round(duration);
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
