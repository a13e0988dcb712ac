import { InvalidOptionError } from "../errors.js";
import { show } from "../options.js";

/** A stretch of time in which a zone's clocks keep the same distance from UTC. */
export interface Span {
  offsetMs: number;
  /** The instant at which it ends; the offset after it may be the same, when only our table ends there. */
  until: number;
}

/** An IANA time zone. */
export interface Zone {
  readonly name: string;
  /** The stretch this instant lies in. */
  span(at: number): Span;
}

const DAY_MS = 86_400_000;
// A rare date needs a day or two around it, decades away from the next: a longer stretch would be looked at in vain.
const BLOCK_MS = 32 * DAY_MS;
// A block holds a span or two. A preview of a rare date may walk decades; nobody needs those kept.
const MOST_BLOCKS = 1_000;
const MOST_ZONES = 500;
const zones = new Map<string, Zone>();
const UTC: Zone = { name: "UTC", span: () => ({ offsetMs: 0, until: Number.POSITIVE_INFINITY }) };

/** Reads the name of a zone; `field` names the option in the error. */
export function readZone(name: unknown, field = "timezone"): Zone {
  if (name === "UTC") return UTC;
  if (typeof name !== "string") throw unknownZone(name, field);
  const known = zones.get(name);
  if (known !== undefined) return known;
  const clock = clockOf(name, field);
  // "europe/berlin" is the same zone, and must not look like another one tomorrow. Aliases stay as they were given.
  const spelt = clock.resolvedOptions().timeZone;
  const zone = tabulate(spelt.toLowerCase() === name.toLowerCase() ? spelt : name, clock);
  if (zones.size >= MOST_ZONES) zones.clear();
  zones.set(name, zone);
  return zone;
}

function clockOf(name: string, field: string): Intl.DateTimeFormat {
  // Some versions of Node also take offsets such as "+02:00": those know no summer time, and others refuse them.
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

/** Asking Intl takes microseconds and a schedule asks often: the changes of a month are found once and kept. */
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

  /** The instant, to the second, at which the offset is no longer this one. */
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
        if (blocks.size >= MOST_BLOCKS) blocks.clear();
        blocks.set(block, (spans = findSpans(block)));
      }
      return spans.find(({ until }) => at < until) as Span;
    },
  };
}

function unknownZone(name: unknown, field: string): InvalidOptionError {
  return new InvalidOptionError(field, `${show(name)} is not an IANA time zone; for example "Europe/Berlin" or "UTC"`);
}
