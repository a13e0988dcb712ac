import { isIPv4, isIPv6 } from "node:net";

const WINDOW_MS = 60_000;
const MOST_KNOWN = 10_000;
const LONGEST = 100;
/** Whoever comes when so many are counted already, and whoever comes from nowhere that is known. */
const OTHERS = "others";

/**
 * How often somebody has sent tokens that are not valid. A count says how much a guess may cost, and never keeps out a token
 * that is right: many may come from one address.
 */
export class Attempts {
  readonly #most: number;
  readonly #failures = new Map<string, { count: number; until: number }>();

  constructor(most: number) {
    this.#most = most;
  }

  /** Milliseconds until all is forgotten; 0: there are not too many yet. */
  waitMs(address: string | null, now: number): number {
    const known = this.#failures.get(this.#whoIs(address, now));
    if (known === undefined || known.until <= now) return 0;
    return known.count < this.#most ? 0 : known.until - now;
  }

  /** Gives what takes it back, for one that turns out right. */
  failed(address: string | null, now: number): () => void {
    const who = this.#whoIs(address, now);
    let known = this.#failures.get(who);
    if (known === undefined || known.until <= now) {
      known = { count: 0, until: now + WINDOW_MS };
      // The last in the map is the last to be forgotten.
      this.#failures.delete(who);
      this.#failures.set(who, known);
    }
    const counted = known;
    counted.count++;
    return () => void counted.count--;
  }

  #whoIs(address: string | null, now: number): string {
    const who = address === null ? OTHERS : networkOf(address);
    if (this.#failures.has(who) || this.#failures.size < MOST_KNOWN) return who;
    // Whoever comes from many addresses must not fill the memory, nor make what is counted be forgotten.
    for (const [known, { until }] of this.#failures) {
      if (until > now) break;
      this.#failures.delete(known);
    }
    return this.#failures.size < MOST_KNOWN ? who : OTHERS;
  }
}

/** Whoever has one address of IPv6 has its whole network of 64 bits. */
export function networkOf(address: string): string {
  const [plain = ""] = address.split("%");
  const mapped = plain.replace(/^::ffff:/i, "");
  if (isIPv4(mapped)) return mapped;
  if (!isIPv6(plain)) return address.slice(0, LONGEST);
  const [head = "", tail] = plain.toLowerCase().split("::");
  const first = head === "" ? [] : head.split(":");
  const last = tail === undefined || tail === "" ? [] : tail.split(":");
  const groups = [...first, ...Array<string>(Math.max(0, 8 - first.length - last.length)).fill("0"), ...last];
  return groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ""))
    .join(":");
}
