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

/** "12,408", or "> 10,000" where the server stopped counting. */
export function countText({ count, exact: isExact }: { count: number; exact: boolean }): string {
  return isExact ? number(count) : `> ${number(count)}`;
}

/** "failed, dead and cancelled". */
export function listed(names: readonly string[], word = "and"): string {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} ${word} ${names.at(-1)}`;
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

const format = (options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat => new Intl.DateTimeFormat("en-GB", options);
const MINUTES = { hour: "2-digit", minute: "2-digit" } as const;
const MONTH_DAY = { day: "numeric", month: "short" } as const;
const CLOCK = format(MINUTES);
const SECONDS = format({ ...MINUTES, second: "2-digit", fractionalSecondDigits: 3 });
const WEEKDAY = format({ weekday: "short" });
const SHORT_DATE = format(MONTH_DAY);
const DATE = format({ ...MONTH_DAY, year: "numeric" });
const FULL = format({
  ...MONTH_DAY,
  ...MINUTES,
  weekday: "short",
  year: "numeric",
  second: "2-digit",
  timeZoneName: "short",
});

export function clock(at: number): string {
  return CLOCK.format(at);
}
export function preciseClock(at: number): string {
  return SECONDS.format(at);
}
/** "14:45:09". */
export function seconds(at: number): string {
  return preciseClock(at).slice(0, 8);
}
/** "13 Dec". */
export function shortDate(at: number): string {
  return SHORT_DATE.format(at);
}
export function date(at: number): string {
  return DATE.format(at);
}
/** In the viewer's time zone. */
export function exact(at: number): string {
  return FULL.format(at);
}

/** "14:45", "Tue 02:30", "13 Dec 2026 08:30". */
export function dayAndClock(at: number, now: number): string {
  if (date(at) === date(now)) return clock(at);
  return `${Math.abs(at - now) < 6 * DAY ? WEEKDAY.format(at) : date(at)} ${clock(at)}`;
}

/** The clock beside a relative time: "14:45", "Tue 02:30", "13 Dec 08:30". A date with its year has been shown already. */
export function clockBeside(at: number, now: number): string {
  const distance = Math.abs(at - now);
  if (distance > 7 * DAY) return clock(at);
  return distance < 6 * DAY ? dayAndClock(at, now) : `${shortDate(at)} ${clock(at)}`;
}

/** For `<input type="datetime-local">`: in the viewer's time zone, in seconds. */
export function localTime(at: string | null): string {
  if (at === null) return "";
  const time = new Date(at);
  return new Date(time.getTime() - time.getTimezoneOffset() * MINUTE).toISOString().slice(0, 19);
}

export function bytes(count: number): string {
  if (count < 1_000) return `${count} B`;
  return count < 1_000_000 ? `${(count / 1_000).toFixed(1)} kB` : `${(count / 1_000_000).toFixed(1)} MB`;
}

/** UUIDs of the same minute begin alike, so their ends are shown. */
export function shortId(id: string): string {
  return `…${id.slice(-8)}`;
}
