// `created:` of a filter: ages (`<1h`), times (`>13:45`) and days (`today`, `2026-11-01`). Pure.
import type { JobConditions } from "holdfast/admin";

type Range = Pick<JobConditions, "createdAfter" | "createdBefore">;

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};
const AGE = /^(?:\d+(?:\.\d+)?(?:s|m|h|d|w))+$/;
const TIME_OF_DAY = /^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/;
const DAY = /^(\d{4})-(\d\d)-(\d\d)$/;
const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?$/i;

export const CREATED_HELP = "Use <1h (younger), >1h (older), >13:45, 2026-11-01, today or yesterday";

/** Returns a sentence if it cannot be read. Days and times of day are those of the viewer. */
export function readCreated(value: string, now: number): Range | string {
  const today = new Date(now);
  if (value === "today") return dayOf(today, 0);
  if (value === "yesterday") return dayOf(today, -1);
  const [, operator = "", rest = ""] = /^([<>]=?)?(.*)$/.exec(value) ?? [];
  const day = readDay(rest);
  if (day !== null) {
    const { createdAfter, createdBefore } = dayOf(day, 0);
    if (operator === "") return { createdAfter, createdBefore };
    if (operator.startsWith(">")) return { createdAfter: operator === ">" ? createdBefore : createdAfter };
    return { createdBefore: operator === "<" ? createdAfter : createdBefore };
  }
  if (operator === "") return CREATED_HELP;
  const isMore = operator.startsWith(">");
  if (AGE.test(rest)) {
    const at = instant(now - ageMs(rest));
    if (at === null) return CREATED_HELP;
    // An older job was created before.
    return isMore ? { createdBefore: at } : { createdAfter: at };
  }
  const at = readInstant(rest, today);
  if (at === null) return CREATED_HELP;
  return isMore ? { createdAfter: at } : { createdBefore: at };
}

/** The times that are in both. */
export function intersect(one: Range, other: Range): Range {
  const after = [one.createdAfter, other.createdAfter].filter((at) => at !== undefined).toSorted(byTime);
  const before = [one.createdBefore, other.createdBefore].filter((at) => at !== undefined).toSorted(byTime);
  const [last] = after.slice(-1);
  const [first] = before;
  return { ...(last !== undefined && { createdAfter: last }), ...(first !== undefined && { createdBefore: first }) };
}

function byTime(one: string, other: string): number {
  return Date.parse(one) - Date.parse(other);
}

function ageMs(text: string): number {
  let total = 0;
  for (const [, amount, unit = ""] of text.matchAll(/(\d+(?:\.\d+)?)(s|m|h|d|w)/g))
    total += Number(amount) * (UNIT_MS[unit] ?? 0);
  return total;
}

function readInstant(text: string, today: Date): string | null {
  const [, hours, minutes, seconds = "0"] = TIME_OF_DAY.exec(text) ?? [];
  if (hours !== undefined) {
    const at = new Date(today);
    at.setHours(Number(hours), Number(minutes), Number(seconds), 0);
    return instant(at.getTime());
  }
  return INSTANT.test(text) ? instant(Date.parse(text)) : null;
}

function readDay(text: string): Date | null {
  const [, year, month, day] = DAY.exec(text) ?? [];
  if (year === undefined) return null;
  const date = new Date(Number(year), Number(month) - 1, Number(day));
  // The 31st of February is not a day.
  return date.getDate() === Number(day) && date.getMonth() === Number(month) - 1 ? date : null;
}

function dayOf(date: Date, offset: number): Required<Range> {
  const start = new Date(date.getFullYear(), date.getMonth(), date.getDate() + offset);
  const end = new Date(date.getFullYear(), date.getMonth(), date.getDate() + offset + 1);
  return { createdAfter: start.toISOString(), createdBefore: end.toISOString() };
}

function instant(ms: number): string | null {
  return Number.isNaN(ms) || Math.abs(ms) > 8.64e15 ? null : new Date(ms).toISOString();
}
