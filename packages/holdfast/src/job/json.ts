import { LIMITS } from "../defaults.js";
import type { InputIssue } from "../errors.js";

/** A value that JSON would silently drop or change. */
export class NotJson extends Error {
  readonly issue: InputIssue;
  constructor(path: readonly (string | number)[], message: string) {
    super(message);
    this.issue = { path: pathText(path), message };
  }
}

const MAX_PATH_LENGTH = 300;

/** Formats a path for an error message. Keys may be very long, so the result is truncated. */
export function pathText(parts: readonly PropertyKey[]): string {
  let text = "";
  for (const part of parts) {
    text += text === "" ? String(part) : `.${String(part)}`;
    if (text.length > MAX_PATH_LENGTH) break;
  }
  return truncate(text, MAX_PATH_LENGTH);
}

/** Truncates a string, with an ellipsis at its end. */
export function truncate(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).toWellFormed()}…`;
}

/**
 * `JSON.stringify` that throws for values that JSON would lose or change: BigInt, cycles, `undefined` in arrays, functions, symbols,
 * NaN, Maps and Sets, and `__proto__` keys. `undefined` properties are omitted. Dates and other objects with `toJSON` are converted
 * by it.
 */
export function toJson(value: unknown): string {
  try {
    check(value, [], []);
    return JSON.stringify(value);
  } catch (error) {
    // The caller's getter, proxy or toJSON may throw anything.
    throw error instanceof NotJson ? error : new NotJson([], `cannot be represented as JSON: ${reason(error)}`);
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
      throw new NotJson(path, "undefined cannot be represented as JSON; use null or omit it");
    case "bigint":
      throw new NotJson(path, "a BigInt cannot be represented as JSON; send it as a string");
    default:
      throw new NotJson(path, `a ${typeof value} cannot be represented as JSON`);
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
    throw new NotJson(path, "an invalid date cannot be represented as JSON");
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
  // An instance of a plain class keeps its own properties; a Map, Set or similar would become {} or lose data.
  if (kind !== "Object" && kind !== "Arguments") throw new NotJson(path, `a ${kind} cannot be represented as JSON`);
}

/** Refuses JSON with the character NUL in a string or key, because PostgreSQL cannot store it. */
export function refuseNul(json: string): void {
  // A quick check: only NUL, or an escaped backslash before "u0000", is written like this.
  if (json.includes("\\u0000")) refuseNulIn(JSON.parse(json), []);
}

function refuseNulIn(value: unknown, path: (string | number)[]): void {
  if (typeof value === "string") {
    if (value.includes("\0")) {
      throw new NotJson(
        path,
        "contains the character NUL (\\u0000); remove it, or encode the value, for example as base64",
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

/** `JSON.parse` for untrusted input: drops `__proto__` keys, so that they do not reach the handler. */
export function fromJson(text: string): unknown {
  // The key may be written with escapes, all of which begin with \u00.
  const suspicious = text.includes("__proto__") || text.includes("\\u00");
  return suspicious ? JSON.parse(text, dropProto) : JSON.parse(text);
}

function dropProto(key: string, value: unknown): unknown {
  return key === "__proto__" ? undefined : value;
}

const [QUOTE, BACKSLASH, OPEN, CLOSE, OPEN_ARRAY, CLOSE_ARRAY] = Array.from('"\\{}[]', (sign) => sign.charCodeAt(0));

/** Whether a JSON string is nested deeper than `LIMITS.payloadDepth`. */
export function isTooDeep(json: string): boolean {
  if (json.length <= 2 * LIMITS.payloadDepth) return false;
  let depth = 0;
  let inString = false;
  for (let at = 0; at < json.length; at++) {
    const sign = json.charCodeAt(at);
    if (inString) {
      if (sign === BACKSLASH) at++;
      else if (sign === QUOTE) inString = false;
    } else if (sign === QUOTE) inString = true;
    else if (sign === CLOSE || sign === CLOSE_ARRAY) depth--;
    else if ((sign === OPEN || sign === OPEN_ARRAY) && ++depth > LIMITS.payloadDepth) return true;
  }
  return false;
}

/** The length in UTF-8 bytes. */
export function jsonBytes(text: string): number {
  return Buffer.byteLength(text, "utf8");
}
