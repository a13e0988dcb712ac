import { LAST_INSTANT_MS, LIMITS } from "./defaults.js";
import { InvalidOptionError } from "./errors.js";
import { show } from "./options.js";

/** Milliseconds, or a number with a unit: `"250ms"`, `"30s"`, `"10m"`, `"2h"`, `"7d"`, `"1w"`, also `"1h 30m"`. */
export type Duration = number | string;

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

const WHOLE = /^\s*(?:\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|w)\s*)+$/;
const PART = /(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)/g;

/** Reads a duration; `field` names the option in the error. */
export function durationMs(value: Duration, field: string): number {
  const ms = typeof value === "number" ? value : parse(value, field);
  if (!Number.isFinite(ms))
    throw new InvalidOptionError(field, `${String(value)} is not a finite number of milliseconds`);
  if (ms < 0) throw new InvalidOptionError(field, `${String(value)} is negative; use 0 or more`);
  if (ms > LIMITS.durationMs) throw new InvalidOptionError(field, `${String(value)} is longer than ten years`);
  return Math.round(ms);
}

function parse(text: unknown, field: string): number {
  if (typeof text !== "string" || text.length > 100 || !WHOLE.test(text)) {
    throw new InvalidOptionError(
      field,
      `${show(text)} is not a duration; use milliseconds or a string like "250ms", "30s", "10m", "2h", "7d"`,
    );
  }
  let total = 0;
  for (const [, amount, unit] of text.matchAll(PART)) total += Number(amount) * (UNIT_MS[unit as string] as number);
  return total;
}

const SHOWN_UNITS: readonly (readonly [name: string, ms: number])[] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
];

/** Formats a duration for people: `3m 20s`. */
export function lengthOf(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const parts: string[] = [];
  let left = ms;
  for (const [name, unit] of SHOWN_UNITS) {
    const whole = Math.floor(left / unit);
    left -= whole * unit;
    if (whole > 0) parts.push(`${whole}${name}`);
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

const ISO = /^((?:\d{4}|[+-]\d{6})-\d\d-(\d\d))T(?:[01]\d|2[0-3]):\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/;
const ISO_WITHOUT_ZONE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?$/;

/** Reads a time given as a Date, milliseconds since 1970, or an ISO 8601 string with a time zone. */
export function instantMs(value: Date | number | string, field: string): number {
  const ms = value instanceof Date ? value.getTime() : typeof value === "string" ? isoMs(value, field) : value;
  if (typeof ms !== "number" || !Number.isFinite(ms) || Math.abs(ms) > LAST_INSTANT_MS) {
    throw new InvalidOptionError(
      field,
      "is not a valid time; use a Date, milliseconds since 1970 or an ISO 8601 string with a time zone (2026-05-01T08:00:00Z)",
    );
  }
  return Math.round(ms);
}

/**
 * Converts a stored time to a Date. A time outside the range of Date, which other software may have written, becomes the nearest
 * valid one: an invalid Date would make every list that contains it fail.
 */
export function dateOf(ms: number): Date {
  return new Date(Math.min(Math.max(ms, -LAST_INSTANT_MS), LAST_INSTANT_MS));
}

export function dateOrNull(ms: number | null): Date | null {
  return ms === null ? null : dateOf(ms);
}

/**
 * Date.parse accepts almost anything ("in 5" is a day in 2001, 30 February is 2 March), and reads a time without a zone in the
 * local zone. So this accepts only existing days with a time and a zone.
 */
function isoMs(text: string, field: string): number {
  const [, date, day] = ISO.exec(text) ?? [];
  if (date === undefined) {
    if (!ISO_WITHOUT_ZONE.test(text)) return Number.NaN;
    throw new InvalidOptionError(
      field,
      `${show(text)} has no time zone; write it like 2026-05-01T08:00:00Z or …T08:00:00+02:00`,
    );
  }
  if (new Date(`${date}T00:00Z`).getUTCDate() !== Number(day)) {
    throw new InvalidOptionError(field, `${show(text)} is a day that does not exist; use a valid date`);
  }
  return Date.parse(text);
}
