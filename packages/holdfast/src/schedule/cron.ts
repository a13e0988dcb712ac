import { Cron } from "croner";
import { LIMITS } from "../defaults.js";
import { InvalidOptionError } from "../errors.js";
import { show } from "../options.js";

/** A parsed cron pattern. It works on wall-clock time, without a time zone. */
export interface CronPattern {
  readonly text: string;
  /**
   * True if the pattern has fixed times of day, false if it repeats (`*` in seconds, minutes or hours). When clocks change, a fixed
   * time still runs exactly once; a repeating pattern follows the wall clock.
   */
  readonly namesTimes: boolean;
  /** The first match after this wall-clock time, or null. Both are given as if they were UTC. */
  next(wallMs: number): number | null;
}

interface Field {
  name: string;
  min: number;
  max: number;
  names?: readonly string[];
  /** Values allowed in addition to numbers, ranges and steps. */
  special?: RegExp;
  example: string;
}

const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const FIELDS: readonly Field[] = [
  { name: "second", min: 0, max: 59, example: "*/10 * * * * *" },
  { name: "minute", min: 0, max: 59, example: "*/15 * * * *" },
  { name: "hour", min: 0, max: 23, example: "0 8-18/2 * * *" },
  {
    name: "day of month",
    min: 1,
    max: 31,
    special: /^(?:L|LW|(?:[1-9]|[12]\d|3[01])W)$/,
    example: "0 8 1,15,L * *",
  },
  { name: "month", min: 1, max: 12, names: MONTHS, example: "0 8 1 JAN-JUN *" },
  { name: "day of week", min: 0, max: 7, names: DAYS, example: "0 8 * * MON-FRI" },
];
const NICKNAMES: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};
const DAY_MS = 86_400_000;
const DAY_OF_WEEK = 5;
const DAY_OF_MONTH = 3;

/**
 * Reads a pattern of five fields, six with seconds, or a nickname such as `@daily`. It is checked before croner parses it: the error
 * then names the field and has an example, and no pattern can make croner slow.
 */
export function readCron(given: unknown): CronPattern {
  if (typeof given !== "string") throw refused(`${show(given)} is not a cron pattern`, "0 8 * * MON-FRI");
  if (given.length > LIMITS.cronLength) {
    throw refused(`is ${given.length} characters long; the limit is ${LIMITS.cronLength}`, "0 8 * * MON-FRI");
  }
  const known = patterns.get(given);
  if (known !== undefined) return known;
  const pattern = parse(given);
  if (patterns.size >= MAX_PATTERNS) patterns.clear();
  patterns.set(given, pattern);
  return pattern;
}

const MAX_PATTERNS = 1_000;
const patterns = new Map<string, CronPattern>();

function parse(given: string): CronPattern {
  const text = given.trim();
  const fields = readFields(text);
  const [seconds, minutes, hours] = fields.slice(0, DAY_OF_MONTH).map((field, index) => valuesIn(field, index));
  const times = { seconds: seconds ?? [], minutes: minutes ?? [], hours: hours ?? [] };
  const dayFields = [...fields.slice(DAY_OF_MONTH, DAY_OF_WEEK), endOnSunday(fields[DAY_OF_WEEK] ?? "*")].join(" ");
  readDays(dayFields, text);
  const first = nextTime(times, -1) ?? 0;
  return {
    text,
    namesTimes: fields.slice(0, DAY_OF_MONTH).every((field) => !field.includes("*")),
    next(wallMs) {
      // Looked up on each call: if patterns held references, no entry of the cache could be freed.
      const days = readDays(dayFields, text);
      const today = Math.floor(wallMs / DAY_MS) * DAY_MS;
      let day = days(today);
      if (day === today) {
        const time = nextTime(times, Math.floor((wallMs - today) / 1_000));
        if (time !== null) return today + time * 1_000;
        day = days(today + DAY_MS);
      }
      return day === null ? null : day + first * 1_000;
    },
  };
}

/** If a range of weekdays ends on Sunday, Sunday is day 7 and not day 0. */
function endOnSunday(field: string): string {
  return field
    .split(",")
    .map((item) =>
      item.replace(/^(\+?)([^-]+)-(?:SUN|0)(?!\d)/i, (_, and: string, from: string) =>
        /^(?:SUN|0+)$/i.test(from) ? `${and}0-0` : `${and}${from}-7`,
      ),
    )
    .join(",");
}

/** The first matching day at or after this one, as the wall-clock time of its midnight. */
type Days = (day: number) => number | null;

// A parsed croner pattern takes 100 µs and 80 KB, because it has a flag for each of ten thousand years. Times differ between
// schedules, but days rarely do. So croner is used only for the days, and patterns with the same days share it.
const MAX_DAYS = 100;
const knownDays = new Map<string, Days>();

function readDays(fields: string, text: string): Days {
  const known = knownDays.get(fields);
  if (known !== undefined) return known;
  let cron: Cron;
  try {
    cron = new Cron(`0 0 0 ${fields}`, { mode: "6-part", utcOffset: 0, paused: true });
  } catch (error) {
    throw refused(`${show(text)} is not a valid pattern: ${(error as Error).message}`, "0 8 * * MON-FRI");
  }
  const days = daysOf(cron);
  if (knownDays.size >= MAX_DAYS) knownDays.clear();
  knownDays.set(fields, days);
  return days;
}

// A search for the next slot stops after this year.
const LAST_YEAR = 2999;
const MONTH_DAYS: readonly number[] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
// 1 January 1970.
const THURSDAY = 4;

/**
 * Asks croner for the matching days of one month at a time and caches them. It never asks for the next match: for a 29 February that
 * is a Monday, croner needs milliseconds, and about 100 ms to find that there is none. The same month with the same length and first
 * weekday always has the same days.
 */
function daysOf(cron: Cron): Days {
  const known = new Map<number, number>();
  /** The matching days of a month as bits: bit n is day n. `first` is its first day, counted from 1970. */
  const matchesIn = (first: number, month: number, length: number): number => {
    const kind = (month * 7 + ((((first + THURSDAY) % 7) + 7) % 7)) * 32 + length;
    let matches = known.get(kind);
    if (matches === undefined) {
      matches = 0;
      for (let day = 1; day <= length; day++) {
        if (cron.match(new Date((first + day - 1) * DAY_MS))) matches |= 1 << day;
      }
      known.set(kind, matches);
    }
    return matches;
  };
  return (from) => {
    const start = new Date(from);
    // A manually changed row may have an invalid time. The scheduler then reports the schedule.
    if (Number.isNaN(start.getTime())) throw new RangeError(`${from} is outside the range of dates`);
    let [year, month] = [start.getUTCFullYear(), start.getUTCMonth()];
    let first = Date.UTC(year, month) / DAY_MS;
    let open = -1 << start.getUTCDate();
    while (year <= LAST_YEAR) {
      const isLeap = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
      const length = month === 1 && isLeap ? 29 : (MONTH_DAYS[month] as number);
      const matches = matchesIn(first, month, length) & open;
      // The lowest bit is the earliest day.
      if (matches !== 0) return (first + 30 - Math.clz32(matches & -matches)) * DAY_MS;
      first += length;
      open = -1;
      month = (month + 1) % 12;
      if (month === 0) year++;
    }
    return null;
  };
}

/** The first time of day after this one, in seconds since midnight, or null if the day has no more. */
function nextTime(
  { seconds, minutes, hours }: { seconds: readonly number[]; minutes: readonly number[]; hours: readonly number[] },
  after: number,
): number | null {
  const from = after + 1;
  for (const hour of hours) {
    if (hour * 3_600 + 3_599 < from) continue;
    for (const minute of minutes) {
      const start = hour * 3_600 + minute * 60;
      if (start + 59 < from) continue;
      const second = seconds.find((value) => start + value >= from);
      if (second !== undefined) return start + second;
    }
  }
  return null;
}

/** The values of a checked field without names, in order. */
function valuesIn(field: string, index: number): number[] {
  const { min, max } = FIELDS[index] as Field;
  const values = new Set<number>();
  for (const item of field.split(",")) {
    const [range = "", step = "1"] = item.split("/");
    const [from = "", to = from] = range.split("-");
    const wild = from === "*";
    const last = wild ? max : Number(to);
    for (let value = wild ? min : Number(from); value <= last; value += Number(step)) values.add(value);
  }
  return [...values].sort((a, b) => a - b);
}

/** The six fields, seconds first, each of them checked. */
function readFields(text: string): string[] {
  if (text.startsWith("@")) {
    const pattern = NICKNAMES[text.toLowerCase()];
    if (pattern === undefined) {
      throw refused(`${show(text)} is none of ${Object.keys(NICKNAMES).join(", ")}`, "@daily");
    }
    return ["0", ...pattern.split(" ")];
  }
  const fields = text.split(/\s+/).filter((field) => field !== "");
  if (fields.length !== 5 && fields.length !== 6) {
    throw refused(
      `${show(text)} has ${fields.length} ${fields.length === 1 ? "field" : "fields"}; a pattern has five (minute, hour, day of month, month, day of week), or six with seconds before them`,
      "0 8 * * MON-FRI",
    );
  }
  const all = fields.length === 5 ? ["0", ...fields] : fields;
  for (const [index, field] of all.entries()) {
    const problem = problemOf(field, index);
    if (problem === null) continue;
    const { name, example } = FIELDS[index] as Field;
    throw refused(`${show(text)}: the ${name} field ${show(field)} ${problem}`, example);
  }
  return all;
}

function problemOf(field: string, index: number): string | null {
  const items = index === DAY_OF_WEEK && field.startsWith("+") ? field.slice(1) : field;
  for (const item of items.split(",")) {
    const problem = problemOfItem(item.toUpperCase(), FIELDS[index] as Field, index);
    if (problem !== null) return problem;
  }
  if (index === DAY_OF_MONTH && /LW/i.test(field) && field.length > 2) return "must not combine LW with other days";
  return null;
}

/** The problem with `*`, `5`, `1-5`, `*\/2`, `1-5/2` or a special value of the field; null if it is valid. */
function problemOfItem(item: string, field: Field, index: number): string | null {
  if (item === "") return "has an empty item between commas";
  if (field.special?.test(item) === true) return null;
  // MON#2, FRI#L and 5L: the nth or last weekday of the month.
  const nth = index === DAY_OF_WEEK ? /^(.+?)(?:#([1-5L])|L)$/.exec(item) : null;
  const plain = nth === null ? item : (nth[1] as string);
  const match = /^([^-/]+)(?:-([^-/]+))?(?:\/([^-/]+))?$/.exec(plain);
  if (match === null) return `is invalid at ${show(item)}`;
  const [, from = "", to, step] = match;
  const wild = from === "*" || from === "?";
  if (from === "?" && index !== DAY_OF_MONTH && index !== DAY_OF_WEEK) return "must not be ?, which is only for days";
  if (wild && (to !== undefined || nth !== null)) return `is invalid at ${show(item)}`;
  if (step !== undefined && !isCount(step, 1, field.max)) {
    return `has the step ${show(step)}, which is not a whole number from 1 to ${field.max}`;
  }
  if (wild) return null;
  const first = valueOf(from, field);
  const last = to === undefined ? first : valueOf(to, field);
  if (first === null || last === null) return `has ${show(first === null ? from : to)}, which is not ${allowed(field)}`;
  if (step !== undefined && to === undefined) {
    return `has a step without a range at ${show(item)}; write ${from}-${field.max}/${step}`;
  }
  // A range of weekdays may end on Sunday.
  const end = last === 0 && index === DAY_OF_WEEK && to !== undefined ? 7 : last;
  return first <= end ? null : `goes from ${from} down to ${to}; write it as two ranges`;
}

function valueOf(text: string, field: Field): number | null {
  const named = field.names?.indexOf(text) ?? -1;
  if (named >= 0) return named + field.min;
  return isCount(text, field.min, field.max) ? Number(text) : null;
}

function isCount(text: string, min: number, max: number): boolean {
  return /^\d{1,2}$/.test(text) && Number(text) >= min && Number(text) <= max;
}

function allowed({ min, max, names }: Field): string {
  const numbers = `a whole number from ${min} to ${max}`;
  return names === undefined ? numbers : `${numbers} or one of ${names.join(", ")}`;
}

function refused(problem: string, example: string): InvalidOptionError {
  return new InvalidOptionError("cron", `${problem}; for example ${JSON.stringify(example)}`);
}
