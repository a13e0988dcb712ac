import { LIMITS } from "../defaults.js";
import type { InputIssue } from "../errors.js";

/** A value that JSON would drop or change in silence. */
export class NotJson extends Error {
  readonly issue: InputIssue;
  constructor(path: readonly (string | number)[], message: string) {
    super(message);
    this.issue = { path: pathText(path), message };
  }
}

const LONGEST_PATH = 300;

/** A path as errors name it. Keys may be as long as the input they are in; the path is not. */
export function pathText(parts: readonly PropertyKey[]): string {
  let text = "";
  for (const part of parts) {
    text += text === "" ? String(part) : `.${String(part)}`;
    if (text.length > LONGEST_PATH) break;
  }
  return cutText(text, LONGEST_PATH);
}

/** A string of at most this length, with a mark where it was cut. */
export function cutText(text: string, longest: number): string {
  return text.length <= longest ? text : `${text.slice(0, longest - 1).toWellFormed()}…`;
}

/**
 * `JSON.stringify` that refuses what JSON cannot carry instead of losing it: BigInt, cycles, `undefined` in arrays,
 * functions, symbols, NaN, Maps and Sets, and `__proto__` keys. `undefined` properties are left out, dates and other
 * objects with `toJSON` are written as they ask.
 */
export function toJson(value: unknown): string {
  try {
    check(value, [], []);
    return JSON.stringify(value);
  } catch (error) {
    // A getter, a proxy or a toJSON of the caller's may throw anything.
    throw error instanceof NotJson ? error : new NotJson([], `cannot be written as JSON: ${reason(error)}`);
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : typeof error;
}

function check(value: unknown, path: (string | number)[], above: object[]): void {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed()) throw new NotJson(path, "is not well-formed Unicode (a lone surrogate)");
      return;
    case "boolean":
      return;
    case "number":
      if (!Number.isFinite(value)) throw new NotJson(path, `${value} is not a JSON number`);
      return;
    case "object":
      if (value !== null) checkObject(value, path, above);
      return;
    case "undefined":
      throw new NotJson(path, "undefined cannot be carried by JSON; use null or leave it out");
    case "bigint":
      throw new NotJson(path, "a BigInt cannot be carried by JSON; send it as a string");
    default:
      throw new NotJson(path, `a ${typeof value} cannot be carried by JSON`);
  }
}

function checkObject(value: object, path: (string | number)[], above: object[]): void {
  if (above.includes(value)) throw new NotJson(path, "the value contains itself");
  if (above.length >= LIMITS.payloadDepth) throw new NotJson(path, `nested deeper than ${LIMITS.payloadDepth} levels`);
  above.push(value);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      path.push(index);
      check(value[index], path, above);
      path.pop();
    }
  } else if (value instanceof Date && Number.isNaN(value.getTime())) {
    throw new NotJson(path, "an invalid date cannot be carried by JSON");
  } else if (typeof (value as { toJSON?: unknown }).toJSON === "function") {
    check((value as { toJSON(key: string): unknown }).toJSON(String(path.at(-1) ?? "")), path, above);
  } else {
    checkKind(value, path);
    for (const key of Object.keys(value)) {
      const item = (value as Record<string, unknown>)[key];
      path.push(key);
      if (key === "__proto__") throw new NotJson(path, "the key __proto__ is refused");
      if (!key.isWellFormed()) throw new NotJson(path, "the key is not well-formed Unicode (a lone surrogate)");
      if (item !== undefined) check(item, path, above);
      path.pop();
    }
  }
  above.pop();
}

function checkKind(value: object, path: readonly (string | number)[]): void {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return;
  const kind = Object.prototype.toString.call(value).slice(8, -1);
  // A class instance keeps its own properties; these kinds would arrive as {} or worse.
  if (kind !== "Object" && kind !== "Arguments") throw new NotJson(path, `a ${kind} cannot be carried by JSON`);
}

/** Refuses JSON that holds the character NUL, in a string or a key: PostgreSQL has no text for it. */
export function refuseNul(json: string): void {
  // Nothing else is written so, but for a backslash followed by these characters; few inputs have either.
  if (json.includes("\\u0000")) refuseNulIn(JSON.parse(json), []);
}

function refuseNulIn(value: unknown, path: (string | number)[]): void {
  if (typeof value === "string") {
    if (value.includes("\0")) {
      throw new NotJson(
        path,
        "contains the character NUL (\\u0000); remove it, or encode the value, in base64 for example",
      );
    }
  } else if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      path.push(key);
      refuseNulIn(key, path);
      refuseNulIn(item, path);
      path.pop();
    }
  }
}

/** `JSON.parse` for text that may come from outside: an own `__proto__` key does not reach the handler. */
export function fromJson(text: string): unknown {
  // The key may also be spelt with escapes, all of which begin like this.
  const suspicious = text.includes("__proto__") || text.includes("\\u00");
  return suspicious ? JSON.parse(text, dropProto) : JSON.parse(text);
}

function dropProto(key: string, value: unknown): unknown {
  return key === "__proto__" ? undefined : value;
}

const [QUOTE, BACKSLASH, OPEN, CLOSE, OPEN_LIST, CLOSE_LIST] = Array.from('"\\{}[]', (sign) => sign.charCodeAt(0));

/** Tells of JSON whether it is nested deeper than payloads may be. */
export function isTooDeep(json: string): boolean {
  if (json.length <= 2 * LIMITS.payloadDepth) return false;
  let depth = 0;
  let isText = false;
  for (let at = 0; at < json.length; at++) {
    const sign = json.charCodeAt(at);
    if (isText) {
      if (sign === BACKSLASH) at++;
      else if (sign === QUOTE) isText = false;
    } else if (sign === QUOTE) isText = true;
    else if (sign === CLOSE || sign === CLOSE_LIST) depth--;
    else if ((sign === OPEN || sign === OPEN_LIST) && ++depth > LIMITS.payloadDepth) return true;
  }
  return false;
}

/** Length in UTF-8 bytes; quick for the usual short ASCII text. */
export function jsonBytes(text: string): number {
  return Buffer.byteLength(text, "utf8");
}
