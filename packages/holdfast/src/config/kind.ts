import { LIMITS } from "../defaults.js";
import { durationMs } from "../duration.js";
import { show } from "../options.js";
import { FORMS, type FormName } from "./forms.js";

/** The type of a configuration key or of a command-line flag. */
export type Kind =
  | { readonly kind: "switch" }
  | { readonly kind: "count"; readonly min: number; readonly max: number }
  | { readonly kind: "number"; readonly min: number; readonly max: number }
  | { readonly kind: "text"; readonly form?: FormName }
  | { readonly kind: "choice"; readonly choices: readonly string[] }
  | { readonly kind: "names"; readonly form?: FormName }
  | {
      readonly kind: "duration";
      readonly min?: string;
      readonly max?: string;
      readonly forever?: true;
      /** Also accepts a number of milliseconds on the command line: for an interval, where a mix-up with seconds does no harm. */
      readonly bareMs?: true;
    }
  | { readonly kind: "jitter" }
  | { readonly kind: "json" };

/** The value of a kind. Durations stay strings such as `"7d"`. */
export type ValueOf<Of extends Kind> = Of extends { kind: "switch" }
  ? boolean
  : Of extends { kind: "count" | "number" }
    ? number
    : Of extends { kind: "choice"; choices: readonly (infer Choice)[] }
      ? Choice
      : Of extends { kind: "names" }
        ? readonly string[]
        : Of extends { kind: "jitter" }
          ? number | string
          : Of extends { kind: "json" }
            ? unknown
            : string;

/** Any configuration value. */
export type Value = boolean | number | string | readonly string[];

/** A valid value, or the problem with it, to follow the name and the value in a message. */
export type ParseResult<Of = unknown> = { readonly value: Of } | { readonly problem: string };

const MAX_LENGTH = 4_000;
const MAX_NAMES = 100;
const STRING = "a non-empty string without control characters";

/** Parses the string value of a variable, of a flag or of `config set`. */
export function parseValue(kind: Kind, text: string): ParseResult {
  switch (kind.kind) {
    case "switch": {
      const value = SWITCHES[text.toLowerCase()];
      return checkValue(kind, value ?? text);
    }
    case "count":
    case "number":
      return checkValue(kind, NUMBER.test(text) ? Number(text) : text);
    case "jitter":
      return checkValue(kind, NUMBER.test(text) ? Number(text) : text);
    case "names":
      return readNames(kind, text);
    case "json":
      try {
        return { value: JSON.parse(text) as unknown };
      } catch (error) {
        return { problem: `is not JSON: ${(error as Error).message.replaceAll(/\s+/g, " ")}` };
      }
    case "duration":
      return checkValue(kind, kind.bareMs === true && /^\d+$/.test(text) ? `${text}ms` : text);
    case "text":
    case "choice":
      return checkValue(kind, text);
  }
}

const SWITCHES: Readonly<Record<string, boolean>> = { true: true, false: false, "1": true, "0": false };
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

/** `a,b` or `["a", "b"]`; an empty string is an empty list. */
function readNames(kind: Kind, text: string): ParseResult {
  if (!text.trimStart().startsWith("[")) {
    const names = text.split(",").map((name) => name.trim());
    return checkValue(kind, text.trim() === "" ? [] : names);
  }
  try {
    return checkValue(kind, JSON.parse(text));
  } catch {
    return { problem: `is not ${describe(kind)}` };
  }
}

/** Checks a typed value, as read from the file. */
export function checkValue(kind: Kind, value: unknown): ParseResult {
  const fits = (right: boolean): ParseResult => (right ? { value } : { problem: `is not ${describe(kind)}` });
  switch (kind.kind) {
    case "switch":
      return fits(typeof value === "boolean");
    case "count":
      return fits(Number.isInteger(value) && isWithin(value as number, kind));
    case "number":
      return fits(typeof value === "number" && isWithin(value, kind));
    case "choice":
      return fits(kind.choices.includes(value as string));
    case "text":
      if (typeof value !== "string") return { problem: "is not a string; put it in quotes" };
      return isName(value) ? checkForm(kind.form, value) : { problem: `is not ${STRING}` };
    case "names":
      if (!isNames(value)) return { problem: `is not ${describe(kind)}` };
      return checkForms(kind.form, value);
    case "duration":
      return fits(isDuration(value, kind));
    case "jitter":
      return fits(typeof value === "number" ? isWithin(value, { min: 0, max: 1 }) : isDuration(value, {}));
    case "json":
      return { value };
  }
}

function checkForm(form: FormName | undefined, value: string): ParseResult {
  const problem = form === undefined ? null : FORMS[form].problem(value);
  return problem === null ? { value } : { problem };
}

/** For several values, the message names the invalid one. */
function checkForms(form: FormName | undefined, value: readonly string[]): ParseResult {
  for (const name of value) {
    const read = checkForm(form, name);
    if ("problem" in read) return value.length === 1 ? read : { problem: `has ${show(name)}, which ${read.problem}` };
  }
  return { value };
}

function isNames(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.length <= MAX_NAMES && value.every(isName);
}

function isWithin(value: number, { min, max }: { min: number; max: number }): boolean {
  return value >= min && value <= max;
}

function isName(value: unknown): boolean {
  // oxlint-disable-next-line no-control-regex -- the expression must match control characters
  const control = /[\u0000-\u001f\u007f]/;
  return (
    typeof value === "string" &&
    value.trim() !== "" &&
    value.length <= MAX_LENGTH &&
    !control.test(value) &&
    value.isWellFormed()
  );
}

/** Numbers are refused, because 30 could mean seconds or milliseconds. */
function isDuration(value: unknown, { min, max, forever }: { min?: string; max?: string; forever?: true }): boolean {
  if (typeof value !== "string") return false;
  if (value === "forever") return forever === true;
  try {
    const ms = durationMs(value, "");
    return (
      (min === undefined || ms >= durationMs(min, "")) &&
      ms <= (max === undefined ? LIMITS.durationMs : durationMs(max, ""))
    );
  } catch {
    return false;
  }
}

/** Describes the allowed values, to complete "is not …": `a whole number from 1 to 64`. */
export function describe(kind: Kind): string {
  switch (kind.kind) {
    case "switch":
      return "true or false";
    case "count":
      return `a whole number from ${kind.min} to ${kind.max}`;
    case "number":
      return `a number from ${kind.min} to ${kind.max}`;
    case "text":
      return kind.form === undefined ? STRING : FORMS[kind.form].is;
    case "choice":
      return `one of ${kind.choices.join(", ")}`;
    case "names":
      return `a list of at most ${MAX_NAMES} ${kind.form === undefined ? "strings" : FORMS[kind.form].are}`;
    case "duration":
      return describeDuration(kind);
    case "jitter":
      return 'a fraction from 0 to 1 or a duration such as "1s"';
    case "json":
      return "JSON";
  }
}

function describeDuration({ min, max, forever, bareMs }: Kind & { kind: "duration" }): string {
  if (min !== undefined && max !== undefined) return `a duration from ${min} to ${max}`;
  const bound = min === undefined ? (max === undefined ? "" : ` up to ${max}`) : ` of at least ${min}`;
  const or = forever === true ? ', or "forever"' : bareMs === true ? ", or milliseconds such as 5000" : "";
  return `a duration${bound} such as "30s", "2h" or "7d"${or}`;
}

/** Formats a value for a message, shortened. */
export function showValue(value: unknown): string {
  return Array.isArray(value) ? showShort(JSON.stringify(value)) : show(value);
}

function showShort(text: string): string {
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}
