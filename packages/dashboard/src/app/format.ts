/** Numbers, times and durations as people read them. */

const NUMBER = new Intl.NumberFormat("en");
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function number(value: number): string {
  return NUMBER.format(value);
}

/** "1,204", "12.4k", "3.1M": for narrow places. */
export function short(value: number): string {
  if (value < 10_000) return number(value);
  const [unit, letter] = value < 1_000_000 ? [1_000, "k"] : [1_000_000, "M"];
  const scaled = value / unit;
  return `${scaled < 100 ? scaled.toFixed(1).replace(/\.0$/, "") : Math.round(scaled)}${letter}`;
}

/** "1 job", "12 jobs". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** A duration in at most two units: "850 ms", "7.4 s", "12 m 52 s", "3 h 5 m". */
export function duration(ms: number): string {
  const [value, unit] = durationParts(ms);
  return `${value} ${unit}`;
}

/** The number and the unit apart: ["12 m 52", "s"]. */
export function durationParts(ms: number): [value: string, unit: string] {
  const abs = Math.max(0, ms);
  if (abs < SECOND) return [String(Math.round(abs)), "ms"];
  if (abs < 10 * SECOND) return [(abs / SECOND).toFixed(1).replace(/\.0$/, ""), "s"];
  if (abs < MINUTE) return [String(Math.floor(abs / SECOND)), "s"];
  if (abs < HOUR) return two(abs, MINUTE, "m", SECOND, "s");
  if (abs < DAY) return two(abs, HOUR, "h", MINUTE, "m");
  return two(abs, DAY, "d", HOUR, "h");
}

function two(ms: number, large: number, name: string, small: number, unit: string): [string, string] {
  const rest = Math.floor((ms % large) / small);
  const count = Math.floor(ms / large);
  return rest === 0 ? [String(count), name] : [`${count} ${name} ${rest}`, unit];
}

/** One unit: "5 m", "3 h". */
export function coarse(ms: number): string {
  const abs = Math.abs(ms);
  if (abs < 45 * SECOND) return `${Math.max(1, Math.round(abs / SECOND))} s`;
  if (abs < 90 * MINUTE) return `${Math.round(abs / MINUTE)} m`;
  if (abs < 36 * HOUR) return `${Math.round(abs / HOUR)} h`;
  return `${Math.round(abs / DAY)} d`;
}

/** "5 m ago", "in 12 m 52 s", "now"; a date if it is more than a week away. */
export function relative(at: number, now: number): string {
  const distance = at - now;
  if (Math.abs(distance) > 7 * DAY) return date(at);
  if (distance > 0) return distance < SECOND ? "now" : `in ${distance < HOUR ? duration(distance) : coarse(distance)}`;
  return distance > -SECOND ? "now" : `${coarse(distance)} ago`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  fractionalSecondDigits: 3,
});
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const FULL = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  timeZoneName: "short",
});

export function clock(at: number): string {
  return CLOCK.format(at);
}
export function preciseClock(at: number): string {
  return SECONDS.format(at);
}
export function date(at: number): string {
  return DATE.format(at);
}
/** In the viewer's time zone. */
export function exact(at: number): string {
  return FULL.format(at);
}

export function bytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  return count < 1_000_000 ? `${(count / 1_000).toFixed(1)} kB` : `${(count / 1_000_000).toFixed(1)} MB`;
}

/** UUIDs of the same minute begin alike, so their ends are shown. */
export function shortId(id: string): string {
  return `…${id.slice(-8)}`;
}
