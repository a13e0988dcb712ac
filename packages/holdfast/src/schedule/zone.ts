import { InvalidOptionError } from "../errors.js";
import { show } from "../options.js";

/** A time span in which a zone's offset from UTC is constant. */
export interface Span {
  offsetMs: number;
  /** When it ends. The next span may have the same offset, because spans also end where a cached block ends. */
  until: number;
}

/** An IANA time zone. */
export interface Zone {
  readonly name: string;
  /** The span that contains this time. */
  span(at: number): Span;
}

const DAY_MS = 86_400_000;
// Rare dates such as 29 February are years apart, and each needs only the offsets of a few days. Larger blocks would be wasted.
const BLOCK_MS = 32 * DAY_MS;
// A block has one or two spans. A preview of a rare date may read decades, which need not stay in memory.
const MAX_BLOCKS = 1_000;
const MAX_ZONES = 500;
const zones = new Map<string, Zone>();
const UTC: Zone = { name: "UTC", span: () => ({ offsetMs: 0, until: Number.POSITIVE_INFINITY }) };

/** Reads the name of a zone; `field` names the option in the error. */
export function readZone(name: unknown, field = "timezone"): Zone {
  if (name === "UTC") return UTC;
  if (typeof name !== "string") throw unknownZone(name, field);
  const known = zones.get(name);
  if (known !== undefined) return known;
  const clock = clockOf(name, field);
  // Normalizes "europe/berlin" to "Europe/Berlin", so that it is not taken for another zone. Aliases stay as given.
  const spelt = clock.resolvedOptions().timeZone;
  const zone = tabulate(spelt.toLowerCase() === name.toLowerCase() ? spelt : name, clock);
  if (zones.size >= MAX_ZONES) zones.clear();
  zones.set(name, zone);
  return zone;
}

function clockOf(name: string, field: string): Intl.DateTimeFormat {
  // Some versions of Node accept offsets such as "+02:00" and others do not. Offsets have no daylight saving time.
  if (!/^[A-Za-z]/.test(name)) throw unknownZone(name, field);
  try {
    return new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
  } catch {
    throw unknownZone(name, field);
  }
}

/** Caches the offset changes of each block, because Intl takes microseconds per call and schedules ask often. */
function tabulate(name: string, clock: Intl.DateTimeFormat): Zone {
  const blocks = new Map<number, Span[]>();

  function offsetAt(at: number): number {
    const whole = Math.floor(at / 1_000) * 1_000;
    // "1/31/2026, 08:05:09"
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = (
      clock.format(whole).match(/\d+/g) ?? []
    ).map(Number);
    return Date.UTC(year, month - 1, day, hour, minute, second) - whole;
  }

  function findSpans(block: number): Span[] {
    const spans: Span[] = [];
    const end = (block + 1) * BLOCK_MS;
    let at = block * BLOCK_MS;
    let offsetMs = offsetAt(at);
    for (; at < end; at += DAY_MS) {
      const next = offsetAt(at + DAY_MS);
      if (next === offsetMs) continue;
      spans.push({ offsetMs, until: changeBetween(at, at + DAY_MS, offsetMs) });
      offsetMs = next;
    }
    spans.push({ offsetMs, until: end });
    return spans;
  }

  /** The time, to the second, when the offset changes from this value. */
  function changeBetween(before: number, after: number, offsetMs: number): number {
    let [low, high] = [before, after];
    while (high - low > 1_000) {
      const middle = Math.floor((low + high) / 2_000) * 1_000;
      if (offsetAt(middle) === offsetMs) low = middle;
      else high = middle;
    }
    return high;
  }

  return {
    name,
    span(at) {
      const block = Math.floor(at / BLOCK_MS);
      let spans = blocks.get(block);
      if (spans === undefined) {
        if (blocks.size >= MAX_BLOCKS) blocks.clear();
        blocks.set(block, (spans = findSpans(block)));
      }
      return spans.find(({ until }) => at < until) as Span;
    },
  };
}

function unknownZone(name: unknown, field: string): InvalidOptionError {
  return new InvalidOptionError(field, `${show(name)} is not an IANA time zone; for example "Europe/Berlin" or "UTC"`);
}
