import { listed } from "../../app/format.js";
import { cronFields, DAYS, MONTHS, readValues, type Values } from "./cron-fields.js";

/** More values than this are not listed. */
const MAX_LISTED = 6;
const ORDINALS = ["first", "second", "third", "fourth", "fifth"] as const;

/** A cron pattern as a sentence: "At 02:30, Monday to Friday". The pattern itself if there is no plain sentence for it. */
export function cronWords(pattern: string): string {
  const fields = cronFields(pattern);
  const text = fields === null ? null : sentence(fields);
  return text ?? pattern.trim();
}

function sentence([second = "", minute = "", hour = "", day = "", month = "", weekday = ""]: string[]): string | null {
  const seconds = readValues(second, 0, 59);
  const minutes = readValues(minute, 0, 59);
  const hours = readValues(hour, 0, 23);
  if (seconds === null || minutes === null || hours === null) return null;
  const time = timeWords(seconds, minutes, hours);
  const days = dayWords(day, month, weekday);
  if (time === null || days === null) return null;
  if (days === "") return /^At \d\d:/.test(time) ? `${time}, every day` : time;
  return `${time}, ${days}`;
}

function timeWords(seconds: Values, minutes: Values, hours: Values): string | null {
  if (seconds.values.length === 1) {
    const [second = 0] = seconds.values;
    const times = timesOf(minutes, hours, second);
    if (times !== null) return `At ${listed(times)}`;
    if (second === 0) return repeatedMinutes(minutes, hours);
    const rest = repeatedMinutes(minutes, hours);
    return rest === null ? null : `At second ${second}: ${lower(rest)}`;
  }
  if (!seconds.every && seconds.values.length > MAX_LISTED) return null;
  const repeated = seconds.all
    ? "Every second"
    : steps(seconds, 60)
      ? `Every ${seconds.step} seconds`
      : seconds.every
        ? `At every ${ordinal(seconds.step)} second`
        : `At ${unit("second", seconds)}`;
  if (minutes.all && hours.all) return repeated.startsWith("Every") ? repeated : `${repeated} of every minute`;
  const times = timesOf(minutes, hours, 0);
  if (times !== null) return `${repeated} in the ${times.length === 1 ? "minute" : "minutes"} ${listed(times)}`;
  const rest = repeatedMinutes(minutes, hours);
  return rest === null ? null : `${repeated}: ${lower(rest)}`;
}

/** The times of day, if there are few. */
function timesOf(minutes: Values, hours: Values, second: number): string[] | null {
  if (minutes.every || hours.every || minutes.values.length * hours.values.length > MAX_LISTED) return null;
  // "Every hour from 08:00 to 12:00" is shorter than five times.
  if (hours.isRange && hours.values.length > 2 && minutes.values.length === 1) return null;
  return hours.values.flatMap((hour) => minutes.values.map((minute) => clock(hour, minute, second)));
}

function repeatedMinutes(minutes: Values, hours: Values): string | null {
  if (minutes.values.length === 1) return oneMinute(minutes.values[0] ?? 0, hours);
  const repeated = minutes.all
    ? "Every minute"
    : steps(minutes, 60)
      ? `Every ${minutes.step} minutes`
      : minutes.isRange && minutes.step === 1
        ? `Every minute from minute ${minutes.from} to ${minutes.to}`
        : minutes.every
          ? `At every ${ordinal(minutes.step)} minute`
          : minutes.values.length > MAX_LISTED
            ? null
            : `At ${unit("minute", minutes)}`;
  if (repeated === null) return null;
  if (hours.all) return minutes.all || steps(minutes, 60) ? repeated : `${repeated} of every hour`;
  if (hours.isRange && hours.step === 1) {
    const span = `from ${clock(hours.from, 0)} to ${clock(hours.to, minutes.values.at(-1) ?? 59)}`;
    return `${repeated.startsWith("At") ? `${repeated} of every hour` : repeated}, ${span}`;
  }
  if (hours.values.length <= MAX_LISTED) {
    return `${repeated} of ${hours.values.length === 1 ? "the hour" : "the hours"} ${listed(hours.values.map((hour) => clock(hour, 0)))}`;
  }
  return hours.every ? `${repeated} of every ${ordinal(hours.step)} hour` : null;
}

function oneMinute(minute: number, hours: Values): string | null {
  if (hours.all) return `At minute ${minute} of every hour`;
  if (steps(hours, 24)) return `Every ${hours.step} hours, at minute ${minute}`;
  if (hours.isRange) {
    const each = hours.step === 1 ? "Every hour" : `Every ${hours.step} hours`;
    return `${each} from ${clock(hours.from, minute)} to ${clock(hours.values.at(-1) ?? hours.to, minute)}`;
  }
  return `At ${listed(hours.values.map((hour) => clock(hour, minute)))}`;
}

/** Without a time: "Monday to Friday", "on the last day of every month". Empty: every day. */
function dayWords(day: string, month: string, weekday: string): string | null {
  const months = readValues(month, 1, 12, MONTHS);
  if (months === null) return null;
  const ofMonth = months.all ? "every month" : span(months, MONTHS, 1);
  if (ofMonth === null) return null;
  const isBoth = weekday.startsWith("+");
  const weekdays = isBoth ? weekday.slice(1) : weekday;
  const [anyDay, anyWeekday] = [day === "*", weekdays === "*"];
  const inMonths = months.all ? "" : ` in ${ofMonth}`;
  if (anyDay && anyWeekday) return months.all ? "" : `every day${inMonths}`;
  const days = anyDay ? null : daysOfMonth(day, ofMonth, months);
  const names = anyWeekday ? null : daysOfWeek(weekdays, ofMonth, inMonths);
  if ((days === null && !anyDay) || (names === null && !anyWeekday)) return null;
  if (anyDay) return names;
  if (anyWeekday) return days;
  if (!isBoth) return `${days}, and ${names}`;
  const plain = readValues(weekdays, 0, 7, DAYS);
  const only = plain === null ? null : span(plain, DAYS, 0, "or");
  return only === null ? null : `${days}, only if it is ${only.includes(" to ") ? "" : "a "}${only}`;
}

function daysOfMonth(field: string, ofMonth: string, months: Values): string | null {
  if (field === "L") return `on the last day of ${ofMonth}`;
  if (field === "LW") return `on the last weekday of ${ofMonth}`;
  const nearest = /^(\d{1,2})W$/.exec(field);
  if (nearest !== null) return `on the weekday nearest to day ${Number(nearest[1])} of ${ofMonth}`;
  const items = field.split(",");
  const withLast = items.includes("L");
  const rest = items.filter((item) => item !== "L").join(",");
  const days = readValues(rest, 1, 31);
  if (days === null) return null;
  if (days.isRange && days.step > 1) {
    if (withLast) return null;
    const bounds = days.every ? "" : ` from day ${days.from} to ${days.to}`;
    return `on every ${ordinal(days.step)} day${bounds} of ${ofMonth}`;
  }
  if (days.isRange && !withLast) return `on days ${days.from} to ${days.to} of ${ofMonth}`;
  if (days.values.length > MAX_LISTED) return null;
  if (withLast) return `on ${listed([...days.values.map((value) => `day ${value}`), "the last day"])} of ${ofMonth}`;
  if (days.values.length === 1 && months.values.length === 1) return `on ${days.values[0]} ${ofMonth}`;
  return `on ${unit("day", days)} of ${ofMonth}`;
}

function daysOfWeek(field: string, ofMonth: string, inMonths: string): string | null {
  if (/[#L]/.test(field)) {
    const parts = field.split(",").map((item) => {
      const match = /^([^#L]+)(?:#([1-5L])|L)$/.exec(item);
      const named = match === null ? null : readValues(match[1] ?? "", 0, 7, DAYS);
      if (match === null || named === null || named.values.length !== 1) return null;
      const which = match[2] === undefined || match[2] === "L" ? "last" : ORDINALS[Number(match[2]) - 1];
      return `the ${which} ${DAYS[named.values[0] ?? 0]}`;
    });
    return parts.includes(null) ? null : `on ${listed(parts as string[])} of ${ofMonth}`;
  }
  const days = readValues(field, 0, 7, DAYS);
  if (days === null) return null;
  const names = span(days, DAYS, 0);
  if (names === null) return null;
  return `${names.includes(" to ") ? "" : "every "}${names}${inMonths}`;
}

/** "January to June", "Monday and Wednesday". */
function span(values: Values, names: readonly string[], offset: number, word = "and"): string | null {
  const name = (value: number): string => names[(value - offset) % names.length] ?? "";
  if (values.isRange && values.step === 1 && values.to - values.from > 1)
    return `${name(values.from)} to ${name(values.to)}`;
  return values.values.length > MAX_LISTED ? null : listed(values.values.map(name), word);
}

/** Whether it repeats evenly: `*\/7` in minutes does not, because the last step of an hour is shorter. */
function steps(values: Values, of: number): boolean {
  return values.every && values.step > 1 && of % values.step === 0;
}

function unit(name: string, { values }: Values): string {
  return `${name}${name === "day" && values.length > 1 ? "s" : ""} ${listed(values.map(String))}`;
}

function ordinal(value: number): string {
  const tail = value % 100 >= 11 && value % 100 <= 13 ? "th" : (["th", "st", "nd", "rd"][value % 10] ?? "th");
  return `${value}${tail}`;
}

function clock(hour: number, minute: number, second = 0): string {
  return [hour, minute, ...(second === 0 ? [] : [second])].map((part) => String(part).padStart(2, "0")).join(":");
}

function lower(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

const UNITS = [
  ["day", 86_400_000, "d"],
  ["hour", 3_600_000, "h"],
  ["minute", 60_000, "m"],
  ["second", 1_000, "s"],
] as const;

/** An interval as a sentence: "Every 15 minutes". */
export function everyWords(ms: number): string {
  const [name, size] = UNITS.find(([, size]) => ms % size === 0) ?? ["millisecond", 1];
  const count = ms / size;
  return count === 1 ? `Every ${name}` : `Every ${count} ${name}s`;
}

/** An interval as it is written: "15m". */
export function everyText(ms: number): string {
  const [, size, letter] = UNITS.find(([, size]) => ms % size === 0) ?? ["", 1, "ms"];
  return `${ms / size}${letter}`;
}

export function timingWords({ cron, everyMs }: { cron: string | null; everyMs: number | null }): string {
  return cron === null ? everyWords(everyMs ?? 0) : cronWords(cron);
}
