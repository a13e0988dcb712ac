/** Wall-clock times in time zones, by Intl. */

const MINUTE_MS = 60_000;

export interface Wall {
  /** As if it were UTC. */
  ms: number;
  /** "02:30", or with seconds if it has any. */
  time: string;
  /** "Sun 14 Mar 2027". */
  day: string;
}

const parts = new Map<string, Intl.DateTimeFormat>();
const formats = new Map<string, Intl.DateTimeFormat>();

function cached(map: Map<string, Intl.DateTimeFormat>, zone: string, options: Intl.DateTimeFormatOptions) {
  let format = map.get(zone);
  if (format === undefined) map.set(zone, (format = new Intl.DateTimeFormat("en-GB", { ...options, timeZone: zone })));
  return format;
}

/** How far the wall clock of a zone is ahead of UTC, in milliseconds. */
export function offsetAt(zone: string, at: number): number {
  return wallMs(zone, at) - Math.floor(at / 1_000) * 1_000;
}

function wallMs(zone: string, at: number): number {
  const format = cached(parts, zone, {
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
    hourCycle: "h23",
  });
  const found: Record<string, number> = {};
  for (const { type, value } of format.formatToParts(at)) found[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = found;
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

export function wallAt(zone: string, at: number): Wall {
  const ms = wallMs(zone, at);
  const day = cached(formats, zone, { weekday: "short", day: "numeric", month: "short", year: "numeric" });
  return { ms, time: clockOf(ms), day: day.format(at).replace(",", "") };
}

/** The time of day of a wall-clock time. */
export function clockOf(wall: number): string {
  const text = new Date(wall).toISOString().slice(11, 19);
  return text.endsWith(":00") ? text.slice(0, 5) : text;
}

/** "14 March 2027". */
export function longDate(zone: string, at: number): string {
  return new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: zone }).format(
    at,
  );
}

/** The instant at which the offset changes between two times with different offsets, exact to the minute. */
export function changeBetween(zone: string, from: number, to: number): number {
  const before = offsetAt(zone, from);
  let low = Math.floor(from / MINUTE_MS);
  let high = Math.ceil(to / MINUTE_MS);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (offsetAt(zone, middle * MINUTE_MS) === before) low = middle;
    else high = middle;
  }
  return high * MINUTE_MS;
}

/** "New York" for America/New_York. */
export function zoneLabel(zone: string): string {
  return (zone.split("/").at(-1) ?? zone).replaceAll("_", " ");
}

/** "UTC−5", "UTC+5:30". */
export function offsetLabel(zone: string, at: number): string {
  const minutes = Math.round(offsetAt(zone, at) / MINUTE_MS);
  if (minutes === 0) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "−" : "+"}${hours}${rest === 0 ? "" : `:${String(rest).padStart(2, "0")}`}`;
}

export function isZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}

export function viewerZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

let known: readonly string[] | undefined;
export function zoneNames(): readonly string[] {
  known ??= ["UTC", ...Intl.supportedValuesOf("timeZone").filter((name) => name !== "UTC")];
  return known;
}
