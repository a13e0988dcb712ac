import { LIMITS } from "./defaults.js";
import { InvalidOption } from "./errors.js";
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
  if (!Number.isFinite(ms)) throw new InvalidOption(field, `${String(value)} is not a finite number of milliseconds`);
  if (ms < 0) throw new InvalidOption(field, `${String(value)} is negative; use 0 or more`);
  if (ms > LIMITS.durationMs) throw new InvalidOption(field, `${String(value)} is longer than ten years`);
  return Math.round(ms);
}

function parse(text: unknown, field: string): number {
  if (typeof text !== "string" || text.length > 100 || !WHOLE.test(text)) {
    throw new InvalidOption(
      field,
      `${show(text)} is not a duration; use milliseconds or a text like "250ms", "30s", "10m", "2h", "7d"`,
    );
  }
  let total = 0;
  for (const [, amount, unit] of text.matchAll(PART)) total += Number(amount) * (UNIT_MS[unit as string] as number);
  return total;
}

const ISO = /^(?:\d{4}|[+-]\d{6})-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?$/;

/** Reads an instant given as a Date, milliseconds since 1970, or an ISO 8601 text. */
export function instantMs(value: Date | number | string, field: string): number {
  // Date.parse makes a date of almost anything ("in 5" is a day in 2001), and reads a time without a zone in this
  // process's own: only ISO 8601 with a zone goes in.
  const text = typeof value === "string" && ISO.test(value) ? Date.parse(value) : Number.NaN;
  const ms = value instanceof Date ? value.getTime() : typeof value === "number" ? value : text;
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) {
    throw new InvalidOption(
      field,
      "is not a point in time; use a Date, milliseconds since 1970 or an ISO 8601 text with its zone (2026-05-01T08:00:00Z)",
    );
  }
  return Math.round(ms);
}
