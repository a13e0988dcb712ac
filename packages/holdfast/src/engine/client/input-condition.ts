import { InvalidOptionError } from "../../errors.js";
import { NotJson, toJson } from "../../job/json.js";
import { optionKeys, readName, refuseUnknownIn, show } from "../../options.js";
import type { InputCondition } from "./filter.js";

/** A condition on inputs, checked. */
export interface InputMatcher {
  /** Whether an input, parsed, meets the condition. */
  matches: (input: unknown) => boolean;
  /** The condition as text: the same for the same condition. */
  label: string;
}

const INPUT_KEYS: ReadonlySet<string> = optionKeys<InputCondition>({ path: true, equals: true, text: true });
const MAX_PATH_LENGTH = 500;
const MAX_PATH_PARTS = 100;
const MAX_TEXT_LENGTH = 1_000;
const MAX_VALUE_LENGTH = 10_000;

export function inputMatcher(condition: InputCondition): InputMatcher {
  refuseUnknownIn(condition, INPUT_KEYS, "input");
  const path = pathOf(condition.path);
  const { text } = condition;
  if ((text === undefined) === (condition.equals === undefined))
    throw new InvalidOptionError(
      "input",
      'must have exactly one of equals and text, e.g. { path: "order.id", equals: "o-17" }',
    );
  if (text !== undefined) {
    const wanted = readName(text, "input.text", MAX_TEXT_LENGTH).toLowerCase();
    return { matches: (input) => contains(valueAt(input, path), wanted), label: JSON.stringify([path, wanted]) };
  }
  const equals = readValue(condition.equals);
  return { matches: (input) => isSameJson(valueAt(input, path), equals), label: JSON.stringify([path, { equals }]) };
}

/** The names and positions of a path; none for the whole input. */
export function pathOf(path: InputCondition["path"]): string[] {
  if (path === undefined) return [];
  if (isArray(path)) return readParts(path);
  const text = readName(path, "input.path", MAX_PATH_LENGTH);
  const parts = text.split(".");
  if (isJsonPath(text))
    throw new InvalidOptionError("input.path", `${show(text)} looks like JSONPath; ${rewritten(text)}`);
  if (!parts.includes("")) return parts;
  throw new InvalidOptionError("input.path", `${show(path)} is not a path; write names separated by dots: "order.id"`);
}

function isArray(path: NonNullable<InputCondition["path"]>): path is readonly (string | number)[] {
  return Array.isArray(path);
}

function readParts(parts: readonly (string | number)[]): string[] {
  const isPart = (part: unknown): boolean =>
    typeof part === "string" ? part !== "" : Number.isSafeInteger(part) && (part as number) >= 0;
  const wrong = parts.find((part) => !isPart(part));
  if (parts.length === 0 || wrong !== undefined || parts.includes(undefined as never))
    throw new InvalidOptionError("input.path", 'must be an array of names and positions, e.g. ["a.b", 0]');
  if (parts.length > MAX_PATH_PARTS || parts.join(".").length > MAX_PATH_LENGTH)
    throw new InvalidOptionError(
      "input.path",
      `is longer than ${MAX_PATH_PARTS} parts or ${MAX_PATH_LENGTH} characters`,
    );
  return parts.map(String);
}

/** A name such as `$ref` is none. */
function isJsonPath(text: string): boolean {
  return /^\$(?:$|[.[])|[[\]]/.test(text) || text.split(".").includes("*");
}

const JSON_PATH_PART = /\[(?:'([^']*)'|"([^"]*)"|([^\]]*))\]|([^.[\]]+)/g;

/** What to write in place of a JSONPath. */
function rewritten(text: string): string {
  const found = [...text.replace(/^\$/, "").matchAll(JSON_PATH_PART)];
  const parts = found.map(([, ...alternatives]) => alternatives.find((part) => part !== undefined) ?? "");
  if (parts.length === 0) return "leave the path out for the whole input";
  const at = parts.indexOf("*");
  if (at === -1) return `write ${written(parts)}`;
  const above = at === 0 ? "" : ` below ${written(parts.slice(0, at))}`;
  return `write a position, e.g. ${written(parts.with(at, "0"))}, or search${above} with text`;
}

function written(parts: readonly string[]): string {
  if (!parts.some((part) => /[.[\]*]/.test(part))) return parts.join(".");
  return JSON.stringify(parts.map((part) => (/^\d+$/.test(part) ? Number(part) : part)));
}

/** The value as it would be after a round trip through JSON: a `Date` finds its string. */
function readValue(value: unknown): unknown {
  try {
    const json = toJson(value);
    if (json.length > MAX_VALUE_LENGTH)
      throw new InvalidOptionError(
        "input.equals",
        `is ${json.length} characters of JSON; the limit is ${MAX_VALUE_LENGTH}`,
      );
    return JSON.parse(json);
  } catch (error) {
    throw error instanceof NotJson ? new InvalidOptionError("input.equals", error.issue.message) : error;
  }
}

/** Undefined if the path leads nowhere. */
function valueAt(input: unknown, path: readonly string[]): unknown {
  let value = input;
  for (const name of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value;
}

function contains(value: unknown, wanted: string): boolean {
  if (typeof value === "string") return value.toLowerCase().includes(wanted);
  if (typeof value === "number" || typeof value === "boolean") return String(value).includes(wanted);
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(
    ([name, item]) => (!Array.isArray(value) && name.toLowerCase().includes(wanted)) || contains(item, wanted),
  );
}

function isSameJson(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const names = Object.keys(a);
  return (
    names.length === Object.keys(b).length &&
    names.every(
      (name) =>
        Object.hasOwn(b, name) &&
        isSameJson((a as Record<string, unknown>)[name], (b as Record<string, unknown>)[name]),
    )
  );
}
