import { isIPv4, isIPv6 } from "node:net";

const WINDOW_MS = 60_000;
const MAX_ADDRESSES = 10_000;
const MAX_ADDRESS_LENGTH = 100;
/** Shared counter for unknown addresses, and for new addresses once `MAX_ADDRESSES` are counted. */
const OTHERS = "others";

/**
 * Counts invalid tokens per client address. The count only limits the cost of guesses; it never blocks a valid token, because
 * many clients may share an address.
 */
export class LoginThrottle {
  readonly #maxFailures: number;
  readonly #failures = new Map<string, { count: number; until: number }>();

  constructor(maxFailures: number) {
    this.#maxFailures = maxFailures;
  }

  /** Milliseconds until the address may fail again; 0: below the limit. */
  waitMs(address: string | null, now: number): number {
    const counter = this.#failures.get(this.#keyFor(address, now));
    if (counter === undefined || counter.until <= now) return 0;
    return counter.count < this.#maxFailures ? 0 : counter.until - now;
  }

  /** Counts a failure. Returns a function that undoes this, for a token that turns out to be valid. */
  recordFailure(address: string | null, now: number): () => void {
    const key = this.#keyFor(address, now);
    let counter = this.#failures.get(key);
    if (counter === undefined || counter.until <= now) {
      counter = { count: 0, until: now + WINDOW_MS };
      // Delete first, so that the map stays ordered by `until`.
      this.#failures.delete(key);
      this.#failures.set(key, counter);
    }
    const counted = counter;
    counted.count++;
    return () => void counted.count--;
  }

  #keyFor(address: string | null, now: number): string {
    const key = address === null ? OTHERS : networkOf(address);
    if (this.#failures.has(key) || this.#failures.size < MAX_ADDRESSES) return key;
    // Requests from many addresses must neither fill the memory nor evict counters that still apply.
    for (const [oldest, { until }] of this.#failures) {
      if (until > now) break;
      this.#failures.delete(oldest);
    }
    return this.#failures.size < MAX_ADDRESSES ? key : OTHERS;
  }
}

/** An IPv6 client usually controls its whole /64 network, so that is counted as one address. */
export function networkOf(address: string): string {
  const [plain = ""] = address.split("%");
  const mapped = plain.replace(/^::ffff:/i, "");
  if (isIPv4(mapped)) return mapped;
  if (!isIPv6(plain)) return address.slice(0, MAX_ADDRESS_LENGTH);
  const [head = "", tail] = plain.toLowerCase().split("::");
  const first = head === "" ? [] : head.split(":");
  const last = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...first, ...Array<string>(Math.max(0, 8 - first.length - last.length)).fill("0"), ...last];
  return groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":");
}
