import { jsonBytes } from "./json.js";
import { storableString } from "../storable-string.js";
import { REDACTED, type Redactor } from "../redact.js";
import { codeOf, isErrorLike, messageOf, read, stackOf } from "./thrown.js";

/** What is kept of an error with an attempt. */
export interface ErrorRecord {
  message: string;
  /** A number is kept as a string. */
  code: string | null;
  stack: string | null;
  /** What the error names as its cause, in the same form. Left out: it names none. */
  cause?: ErrorRecord | undefined;
  /** The error's own fields that JSON can carry. Left out: it has none. */
  data?: Readonly<Record<string, unknown>> | undefined;
}

/** How much of an error is kept. */
export interface ErrorLimits {
  message: number;
  stack: number;
  /** Causes, each of the one before. Default: none. */
  causes?: number;
  /** JSON of an error's own fields. Default: none. */
  dataBytes?: number;
}

const LONGEST_CODE = 100;
const UNSHOWABLE = "the handler threw a value that cannot be shown";

/** Turns anything a handler may throw into something that can be kept. Never throws. */
export function describeError(thrown: unknown, limits: ErrorLimits): ErrorRecord {
  const { causes = 0, dataBytes = 0 } = limits;
  const code = codeOf(thrown);
  const stack = stackOf(thrown);
  const cause = causes > 0 && isErrorLike(thrown) ? read(thrown, "cause") : null;
  const data = dataBytes > 0 && isErrorLike(thrown) ? dataOf(thrown, dataBytes) : null;
  return {
    message: storableString(messageOf(thrown, UNSHOWABLE), limits.message),
    code: code === null ? null : storableString(code, LONGEST_CODE),
    stack: stack === null ? null : storableString(stack, limits.stack),
    ...(cause !== undefined && cause !== null && { cause: describeError(cause, ofCause(limits)) }),
    ...(data !== null && { data }),
  };
}

/** The record without what must not be shown of its data. */
export function redactError(redact: Redactor, { data, cause, ...record }: ErrorRecord): ErrorRecord {
  const shown = data === undefined ? null : redactErrorData(redact, data);
  return {
    ...record,
    ...(cause !== undefined && { cause: redactError(redact, cause) }),
    ...(shown !== null && { data: shown }),
  };
}

type ErrorData = NonNullable<ErrorRecord["data"]>;

/** Paths reach an error's data as `error.data`, and that of its causes too. Null: all of it is redacted. */
export function redactErrorData(redact: Redactor, data: ErrorData): ErrorData | null {
  // A path may name any part of this, and a string is put there.
  const { error } = redact<{ error: { data: ErrorData } | string }>({ error: { data } });
  return typeof error === "object" && typeof error.data === "object" ? error.data : null;
}

function ofCause({ message, stack, causes = 0, dataBytes = 0 }: ErrorLimits): ErrorLimits {
  return { message: Math.min(message, 1_000), stack: Math.min(stack, 2_000), causes: causes - 1, dataBytes };
}

/** What the record has elsewhere. */
const ELSEWHERE: ReadonlySet<string> = new Set(["name", "message", "code", "stack", "cause", "__proto__"]);
const DEEPEST = 4;
/** Own fields that are looked at, and values in each of them. */
const MOST_FIELDS = 50;
const MOST_VALUES = 50;
const LONGEST_STRING = 1_000;
const LONGEST_KEY = 200;
/** An error carries what nobody chose to store: the headers of a request, the password of a connection. */
const SECRET = /pass|pwd|secret|token|authori[sz]ation|cookie|credential|api[-_]?key|private[-_]?key/i;

/** The error's own fields, each whole or not at all, as many as fit; null if there are none. */
function dataOf(error: object, most: number): Record<string, unknown> | null {
  const data: Record<string, unknown> = {};
  let bytes = 2;
  // The errors of an AggregateError are own fields that are not enumerable.
  const keys = new Set([...keysOf(error, MOST_FIELDS), ...(isList(read(error, "errors")) ? ["errors"] : [])]);
  for (const key of keys) {
    const value = ELSEWHERE.has(key) ? undefined : jsonOf(key, read(error, key), 1, { values: MOST_VALUES });
    if (value === undefined) continue;
    const size = jsonBytes(JSON.stringify({ [key]: value }));
    if (bytes + size > most) continue;
    bytes += size;
    data[storableString(key, LONGEST_KEY)] = value;
  }
  return Object.keys(data).length === 0 ? null : data;
}

/** A value as JSON carries it; undefined: not at all, or there are too many. */
function jsonOf(key: string, value: unknown, depth: number, left: { values: number }): unknown {
  if (--left.values < 0) return undefined;
  if (SECRET.test(key)) return REDACTED;
  switch (typeof value) {
    case "string":
      return storableString(value, LONGEST_STRING);
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : undefined;
    case "bigint":
      return storableString(String(value), LONGEST_STRING);
    case "object":
      return value === null ? null : objectOf(value, depth, left);
    default:
      return undefined;
  }
}

function objectOf(value: object, depth: number, left: { values: number }): unknown {
  const date = dateOf(value);
  if (date !== undefined || depth >= DEEPEST) return date;
  const inside = (key: string): unknown => jsonOf(key, read(value, key), depth + 1, left);
  if (isList(value)) {
    const length = Math.min(Number(read(value, "length") ?? 0), left.values);
    const items = Array.from({ length }, (_, index) => inside(String(index)));
    return items.filter((item) => item !== undefined);
  }
  if (isPlain(value)) {
    const entries = keysOf(value, left.values).map((key) => [storableString(key, LONGEST_KEY), inside(key)] as const);
    return Object.fromEntries(entries.filter(([key, item]) => item !== undefined && key !== "__proto__"));
  }
  if (isErrorLike(value)) return { message: storableString(messageOf(value), LONGEST_STRING), code: codeOf(value) };
  // What a class makes (a socket, a request) is no data; what its toJSON would give may be anything.
  return undefined;
}

function keysOf(value: object, most: number): string[] {
  try {
    return Object.keys(value).slice(0, Math.max(0, most));
  } catch {
    return [];
  }
}

/** Of a proxy that was revoked even this cannot be asked. */
function isList(value: unknown): value is readonly unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** An object literal, of this realm or another. */
function isPlain(value: object): boolean {
  try {
    const prototype: unknown = Object.getPrototypeOf(value);
    return prototype === null || Object.getPrototypeOf(prototype) === null;
  } catch {
    return false;
  }
}

/** A date of this realm or another, as JSON writes it. */
function dateOf(value: object): string | undefined {
  try {
    return Date.prototype.toISOString.call(value);
  } catch {
    return undefined;
  }
}
