import { z } from "zod";
import { withSubject } from "../../errors.js";
import { pathText } from "../../job/json.js";
import { ApiError } from "./api-error.js";
import type { Calls } from "../contract/api-types.js";
import { hasQuery, pathParameters, ROUTES, type RouteName } from "../contract/routes.js";
import { SCHEMAS } from "../contract/schemas.js";
import { validationMessage } from "./validation-messages.js";

// An input has at most 256 KB, but escapes and indentation can make its JSON several times as long.
const MAX_INPUT_BODY_BYTES = 1_048_576;
// Enough for 1,000 ids, or for the longest filter.
const MAX_BODY_BYTES = 131_072;
// For routes without authentication.
const MAX_PUBLIC_BODY_BYTES = 4_096;
// Not counting the input, whose size is limited as a whole. Validating more values one by one would take long, only to reject them.
const MAX_VALUES = 5_000;
// An input itself may have 200 levels.
const MAX_DEPTH = 250;

/** The parts of JSON Schema that are used here. */
export interface JsonSchema {
  type?: string | string[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  [field: string]: unknown;
}

const inputSchemas = new Map<RouteName, JsonSchema>();

/** The input of a route as JSON Schema. Generated on first use: generating all of them takes longer than most calls. */
export function inputSchema(name: RouteName): JsonSchema {
  const known = inputSchemas.get(name);
  if (known !== undefined) return known;
  const schema = z.toJSONSchema(SCHEMAS[name].input, { io: "input" }) as JsonSchema;
  inputSchemas.set(name, schema);
  return schema;
}

/** Reads and validates the input of a call: path parameters, and the query (GET, DELETE) or the body. */
export async function readInput<Name extends RouteName>(
  name: Name,
  request: Request,
  path: Readonly<Record<string, string>>,
): Promise<Calls[Name]["input"]> {
  const { method } = ROUTES[name];
  const takesQuery = hasQuery({ method });
  const { searchParams } = new URL(request.url);
  const body = method === "GET" ? {} : await readBody(request, maxBodyBytes(name));
  const given = takesQuery ? { ...body, ...readQuery(name, searchParams) } : body;
  const [unused] = takesQuery ? [] : searchParams.keys();
  if (unused !== undefined)
    throw invalidRequest([{ path: unused, message: "is a query parameter, but this route takes none" }]);
  const parts = pathParameters(ROUTES[name].path);
  const twice = parts.find((part) => Object.hasOwn(given, part));
  if (twice !== undefined) throw invalidRequest([{ path: twice, message: "is already set in the path" }]);
  const read = SCHEMAS[name].input.safeParse({ ...given, ...path }, { error: validationMessage });
  if (read.success) return read.data;
  throw invalidRequest(
    read.error.issues.slice(0, 20).map((issue) => ({
      path: pathText([...issue.path, ...(issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [])]),
      message: issue.message,
    })),
  );
}

function maxBodyBytes(name: RouteName): number {
  if (ROUTES[name].role === null) return MAX_PUBLIC_BODY_BYTES;
  const { input } = inputSchema(name).properties ?? {};
  // A search has a condition of this name, which is an object.
  return input !== undefined && input.type !== "object" ? MAX_INPUT_BODY_BYTES : MAX_BODY_BYTES;
}

function invalidRequest(issues: { path: string; message: string }[]): ApiError {
  const [first = { path: "", message: "is invalid" }] = issues;
  const message = withSubject(first.path === "" ? "the request" : first.path, first.message);
  return new ApiError(400, "INVALID_REQUEST", message, { issues });
}

/** Query parameters are strings; converts them to the types in the schema. */
function readQuery(name: RouteName, query: URLSearchParams): Record<string, unknown> {
  const { properties = {} } = inputSchema(name);
  const read = new Map<string, unknown>();
  for (const [key, text] of query) {
    const schema = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (schema?.type !== "array") {
      if (read.has(key)) throw invalidRequest([{ path: key, message: "must not be repeated" }]);
      read.set(key, parseParameter(text, schema));
    } else {
      const items = (read.get(key) as string[] | undefined) ?? [];
      items.push(...(isEnumList(schema) ? text.split(",", MAX_VALUES) : [text]));
      read.set(key, items);
    }
    // One unknown parameter is enough to reject the request.
    if (schema === undefined) break;
  }
  // Not by assignment, which would lose a key named `__proto__`.
  return Object.fromEntries(read);
}

/** Enum values contain no commas, so `state=dead,failed` is split; names of types and queues may contain them. */
function isEnumList({ items }: JsonSchema): boolean {
  return items?.["enum"] !== undefined;
}

function parseParameter(text: string, schema: JsonSchema | undefined): unknown {
  if ((schema?.type === "integer" || schema?.type === "number") && /^-?\d{1,16}(?:\.\d{1,10})?$/.test(text))
    return Number(text);
  if (schema?.type === "object") return parseObject(text);
  if (schema?.type === "boolean" && /^(?:true|false)$/.test(text)) return text === "true";
  return text;
}

/** Not JSON: the schema rejects the string. */
function parseObject(text: string): unknown {
  try {
    return isNestedDeeper(text, MAX_DEPTH) ? text : JSON.parse(text);
  } catch {
    return text;
  }
}

async function readBody(request: Request, maxBytes: number): Promise<Record<string, unknown>> {
  const text = await readText(request, maxBytes);
  if (text === "") return {};
  const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new ApiError(415, "UNSUPPORTED_MEDIA_TYPE", "the body must be JSON; send content-type: application/json");
  }
  const value = parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalidRequest([{ path: "", message: "the body must be a JSON object" }]);
  }
  rejectTooManyValues(value, { left: MAX_VALUES }, "input");
  return value as Record<string, unknown>;
}

function rejectTooManyValues(value: object, count: { left: number }, except?: string): void {
  const isArray = Array.isArray(value);
  const keys = isArray ? [] : Object.keys(value);
  count.left -= isArray ? value.length : keys.length;
  if (count.left < 0) throw invalidRequest([{ path: "", message: `the body has more than ${MAX_VALUES} values` }]);
  const inside: unknown[] = isArray
    ? value
    : keys.filter((key) => key !== except).map((key) => (value as Record<string, unknown>)[key]);
  for (const item of inside) if (typeof item === "object" && item !== null) rejectTooManyValues(item, count);
}

function parse(text: string): unknown {
  // Checked first, because JSON.parse is very slow on deeply nested input.
  if (isNestedDeeper(text, MAX_DEPTH)) {
    throw invalidRequest([{ path: "", message: `the body is nested deeper than ${MAX_DEPTH} levels` }]);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, "INVALID_JSON", `the body is not valid JSON: ${(error as Error).message.slice(0, 200)}`);
  }
}

const QUOTE = '"'.charCodeAt(0);
const BACKSLASH = "\\".charCodeAt(0);
const OPENING = "{".charCodeAt(0);
const CLOSING = "}".charCodeAt(0);
// Square and curly brackets differ only in this bit.
const CURLY_BIT = 0x20;

/** Counts only brackets outside of strings. Invalid JSON is left to the parser. */
function isNestedDeeper(text: string, maxDepth: number): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) inString = !inString;
    else if (code === BACKSLASH) at++;
    else if (!inString && (code | CURLY_BIT) === OPENING && ++depth > maxDepth) return true;
    else if (!inString && (code | CURLY_BIT) === CLOSING) depth--;
  }
  return false;
}

/** Never reads more than the limit, even if content-length is wrong or missing. */
async function readText(request: Request, maxBytes: number): Promise<string> {
  const tooLarge = (): ApiError => new ApiError(413, "BODY_TOO_LARGE", `the body is larger than ${maxBytes} bytes`);
  if (Number(request.headers.get("content-length") ?? 0) > maxBytes) throw tooLarge();
  if (request.body === null) return "";
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (error) {
    // The connection broke, or the body is framed wrongly. Either way it is not a server error.
    throw error instanceof ApiError
      ? error
      : new ApiError(400, "INCOMPLETE_BODY", "the body ended early or could not be read");
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new ApiError(400, "INVALID_JSON", "the body is not valid UTF-8");
  }
}
