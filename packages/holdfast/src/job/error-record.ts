import { jsonBytes } from "./json.js";
import { storableString } from "../storable-string.js";
import { REDACTED, type Redactor } from "../redact.js";
import { codeOf, isErrorLike, messageOf, read, stackOf } from "./thrown.js";

/** An error as stored with an attempt. */
export interface ErrorRecord {
  message: string;
  /** A numeric code is stored as a string. */
  code: string | null;
  stack: string | null;
  /** The error's cause; omitted if it has none. */
  cause?: ErrorRecord | undefined;
  /** The error's own fields that JSON can represent; omitted if it has none. */
  data?: Readonly<Record<string, unknown>> | undefined;
}

/** How much of an error is stored. */
export interface ErrorLimits {
  message: number;
  stack: number;
  /** Depth of the chain of causes. Default: 0. */
  causes?: number;
  /** JSON of the error's own fields. Default: 0. */
  dataBytes?: number;
}

const MAX_CODE_LENGTH = 100;
const UNSHOWABLE = "the handler threw a value that cannot be shown";

/** Converts anything a handler may throw into a record that can be stored. Never throws. */
export function describeError(thrown: unknown, limits: ErrorLimits): ErrorRecord {
  const { causes = 0, dataBytes = 0 } = limits;
  const code = codeOf(thrown);
  const stack = stackOf(thrown);
  const cause = causes > 0 && isErrorLike(thrown) ? read(thrown, "cause") : null;
  const data = dataBytes > 0 && isErrorLike(thrown) ? dataOf(thrown, dataBytes) : null;
  return {
    message: storableString(messageOf(thrown, UNSHOWABLE), limits.message),
    code: code === null ? null : storableString(code, MAX_CODE_LENGTH),
    stack: stack === null ? null : storableString(stack, limits.stack),
    ...(cause !== undefined && cause !== null && { cause: describeError(cause, ofCause(limits)) }),
    ...(data !== null && { data }),
  };
}

/** Redacts the data of an error and of its causes. */
export function redactError(redact: Redactor, { data, cause, ...record }: ErrorRecord): ErrorRecord {
  const shown = data === undefined ? null : redactErrorData(redact, data);
  return {
    ...record,
    ...(cause !== undefined && { cause: redactError(redact, cause) }),
    ...(shown !== null && { data: shown }),
  };
}

type ErrorData = NonNullable<ErrorRecord["data"]>;

/** Redacts the data of an error or of one of its causes; paths name both `error.data`. Null if all of it is redacted. */
export function redactErrorData(redact: Redactor, data: ErrorData): ErrorData | null {
  // A path may match any level, and the redactor replaces that level with a string.
  const { error } = redact<{ error: { data: ErrorData } | string }>({ error: { data } });
  return typeof error === "object" && typeof error.data === "object" ? error.data : null;
}

function ofCause({ message, stack, causes = 0, dataBytes = 0 }: ErrorLimits): ErrorLimits {
  return { message: Math.min(message, 1_000), stack: Math.min(stack, 2_000), causes: causes - 1, dataBytes };
}

/** Fields that are not copied to `data`. The record has most of them separately. */
const EXCLUDED: ReadonlySet<string> = new Set(["name", "message", "code", "stack", "cause", "__proto__"]);
const MAX_DEPTH = 4;
const MAX_FIELDS = 50;
/** The limit for each field. */
const MAX_VALUES = 50;
const MAX_STRING_LENGTH = 1_000;
const MAX_KEY_LENGTH = 200;
/** Errors often contain secrets: the headers of a request, the password of a connection. */
const SECRET = /pass|pwd|secret|token|authori[sz]ation|cookie|credential|api[-_]?key|private[-_]?key/i;

/** The error's own fields, as many complete ones as fit in `maxBytes`; null if there are none. */
function dataOf(error: object, maxBytes: number): Record<string, unknown> | null {
  const data: Record<string, unknown> = {};
  let bytes = 2;
  // The `errors` of an AggregateError are not enumerable.
  const keys = new Set([...keysOf(error, MAX_FIELDS), ...(isArray(read(error, "errors")) ? ["errors"] : [])]);
  for (const key of keys) {
    const value = EXCLUDED.has(key) ? undefined : jsonOf(key, read(error, key), 1, { values: MAX_VALUES });
    if (value === undefined) continue;
    const size = jsonBytes(JSON.stringify({ [key]: value }));
    if (bytes + size > maxBytes) continue;
    bytes += size;
    data[storableString(key, MAX_KEY_LENGTH)] = value;
  }
  return Object.keys(data).length === 0 ? null : data;
}

/** Converts a value to JSON data; undefined if JSON cannot represent it or the limit of values is reached. */
function jsonOf(key: string, value: unknown, depth: number, left: { values: number }): unknown {
  if (--left.values < 0) return undefined;
  if (SECRET.test(key)) return REDACTED;
  switch (typeof value) {
    case "string":
      return storableString(value, MAX_STRING_LENGTH);
    case "boolean":
      return value;
    case "number":
      return Number.isFinite(value) ? value : undefined;
    case "bigint":
      return storableString(String(value), MAX_STRING_LENGTH);
    case "object":
      return value === null ? null : objectOf(value, depth, left);
    default:
      return undefined;
  }
}

function objectOf(value: object, depth: number, left: { values: number }): unknown {
  const date = isoDate(value);
  if (date !== undefined || depth >= MAX_DEPTH) return date;
  const inside = (key: string): unknown => jsonOf(key, read(value, key), depth + 1, left);
  if (isArray(value)) {
    const length = Math.min(Number(read(value, "length") ?? 0), left.values);
    const items = Array.from({ length }, (_, index) => inside(String(index)));
    return items.filter((item) => item !== undefined);
  }
  if (isPlain(value)) {
    const entries = keysOf(value, left.values).map(
      (key) => [storableString(key, MAX_KEY_LENGTH), inside(key)] as const,
    );
    return Object.fromEntries(entries.filter(([key, item]) => item !== undefined && key !== "__proto__"));
  }
  if (isErrorLike(value)) return { message: storableString(messageOf(value), MAX_STRING_LENGTH), code: codeOf(value) };
  // Class instances (a socket, a request) are not data, and their toJSON may return anything.
  return undefined;
}

function keysOf(value: object, max: number): string[] {
  try {
    return Object.keys(value).slice(0, Math.max(0, max));
  } catch {
    return [];
  }
}

/** `Array.isArray` throws for a revoked proxy. */
function isArray(value: unknown): value is readonly unknown[] {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}

/** Whether this is a plain object, of any realm. */
function isPlain(value: object): boolean {
  try {
    const prototype: unknown = Object.getPrototypeOf(value);
    return prototype === null || Object.getPrototypeOf(prototype) === null;
  } catch {
    return false;
  }
}

/** The ISO string of a Date of any realm. */
function isoDate(value: object): string | undefined {
  try {
    return Date.prototype.toISOString.call(value);
  } catch {
    return undefined;
  }
}
