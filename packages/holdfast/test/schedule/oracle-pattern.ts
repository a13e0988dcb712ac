/**
 * Reads cron patterns for the oracle. It checks for every value of a field whether an item of the field matches it, and for
 * every day whether the day fields match it. It never searches, so it cannot skip anything. It expects a valid pattern and
 * shares no code with the tested parser.
 */
export interface Pattern {
  /** Seconds, minutes and hours contain no `*` or `?`. */
  namesTimes: boolean;
  /** The matching seconds of a day, in order. */
  times: number[];
  /** Whether a day, counted from 1 January 1970, matches. */
  fitsDay: (day: number) => boolean;
}

export const DAY_S = 86_400;
const MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const WORDS: Record<string, string> = {
  "@YEARLY": "0 0 1 1 *",
  "@ANNUALLY": "0 0 1 1 *",
  "@MONTHLY": "0 0 1 * *",
  "@WEEKLY": "0 0 * * 0",
  "@DAILY": "0 0 * * *",
  "@MIDNIGHT": "0 0 * * *",
  "@HOURLY": "0 * * * *",
};

export function readPattern(text: string): Pattern {
  const upper = text.trim().toUpperCase();
  const fields = (WORDS[upper] ?? upper).split(/\s+/);
  if (fields.length === 5) fields.unshift("0");
  const [second = "", minute = "", hour = "", dayOfMonth = "", month = "", dayOfWeek = ""] = fields;
  const hours = valuesOf(hour, 0, 23);
  const minutes = valuesOf(minute, 0, 59);
  const seconds = valuesOf(second, 0, 59);
  const times: number[] = [];
  for (const h of hours) {
    for (const m of minutes) {
      for (const s of seconds) times.push(h * 3_600 + m * 60 + s);
    }
  }
  const months = valuesOf(month, 1, 12, MONTHS);
  return {
    namesTimes: !/[*?]/.test(second + minute + hour),
    times,
    fitsDay: (day) => {
      const date = dateOf(day);
      return months.includes(date.month) && fitsDayFields(date, dayOfMonth, dayOfWeek);
    },
  };
}

interface CalendarDate {
  month: number;
  day: number;
  /** Sunday is 0. */
  weekday: number;
  /** The last day of the month. */
  last: number;
}

const dates = new Map<number, CalendarDate>();

function dateOf(daysSince1970: number): CalendarDate {
  const known = dates.get(daysSince1970);
  if (known !== undefined) return known;
  const date = new Date(daysSince1970 * DAY_S * 1_000);
  const last = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0));
  const made = {
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    weekday: date.getUTCDay(),
    last: last.getUTCDate(),
  };
  dates.set(daysSince1970, made);
  return made;
}

/** If both day fields are set, one match is enough, unless `+` requires both. */
function fitsDayFields(date: CalendarDate, dayOfMonth: string, dayOfWeek: string): boolean {
  const both = dayOfWeek.startsWith("+");
  const weekdays = both ? dayOfWeek.slice(1) : dayOfWeek;
  const inMonth = (): boolean => dayOfMonth.split(",").some((item) => fitsDayOfMonth(item, date));
  const inWeek = (): boolean => weekdays.split(",").some((item) => fitsDayOfWeek(item, date));
  if (both || isOpen(dayOfMonth) || isOpen(weekdays)) return inMonth() && inWeek();
  return inMonth() || inWeek();
}

function fitsDayOfMonth(item: string, date: CalendarDate): boolean {
  const { day, last } = date;
  if (item === "L") return day === last;
  if (item === "LW") return day === nearestWorkday(last, date);
  if (item.endsWith("W")) return day === nearestWorkday(Number(item.slice(0, -1)), date);
  return fitsItem(item, day, 1, 31);
}

/** The nearest workday of the same month. */
function nearestWorkday(wanted: number, { day, weekday, last }: CalendarDate): number | undefined {
  if (wanted > last) return undefined;
  const weekdayOf = (other: number): number => (((weekday + other - day) % 7) + 7) % 7;
  return [0, -1, 1, -2, 2]
    .map((away) => wanted + away)
    .find((other) => other >= 1 && other <= last && weekdayOf(other) % 6 !== 0);
}

function fitsDayOfWeek(item: string, { day, weekday, last }: CalendarDate): boolean {
  const [, days = "", nth] = /^([^#]+?)(?:#([1-5])|#?L)?$/.exec(item) ?? [];
  if (nth !== undefined && Math.ceil(day / 7) !== Number(nth)) return false;
  if (nth === undefined && item.endsWith("L") && day + 7 <= last) return false;
  // Sunday is both 0 and 7.
  return fitsItem(days, weekday, 0, 7, WEEKDAYS) || (weekday === 0 && fitsItem(days, 7, 0, 7, WEEKDAYS));
}

function valuesOf(field: string, least: number, most: number, names: string[] = []): number[] {
  const items = field.split(",");
  const values = Array.from({ length: most - least + 1 }, (_, index) => least + index);
  return values.filter((value) => items.some((item) => fitsItem(item, value, least, most, names)));
}

/** Whether `5`, `1-5`, `1-5/2`, `*` or a stepped `*` matches this value. */
function fitsItem(item: string, value: number, least: number, most: number, names: string[] = []): boolean {
  const number = (text: string): number => (names.includes(text) ? names.indexOf(text) + least : Number(text));
  const [span = "", step = "1"] = item.split("/");
  const [from = Number.NaN, to = from] = isOpen(span) ? [least, most] : span.split("-").map(number);
  // Only a range of weekdays can end at 0, which is then Sunday.
  const end = to === 0 && from > 0 ? 7 : to;
  return from <= value && value <= end && (value - from) % Number(step) === 0;
}

function isOpen(text: string): boolean {
  return text === "*" || text === "?";
}
