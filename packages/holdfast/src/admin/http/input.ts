import { z } from "zod";
import { pathText } from "../../job/json.js";
import { ApiError } from "./api-error.js";
import type { Calls } from "../contract/api-types.js";
import { pathParts, ROUTES, type RouteName } from "../contract/routes.js";
import { SHAPES } from "../contract/schemas.js";
import { inWords } from "./validation-messages.js";

// An input is 256 KB at most; with escapes and indentation it may be some times as long.
const MAX_INPUT_BODY_BYTES = 1_048_576;
// 1,000 ids, or a filter with as many names as one may have.
const MAX_BODY_BYTES = 131_072;
// What anybody may send, who need not be known.
const MAX_OPEN_BODY_BYTES = 4_096;
// Beside an input, which is measured as a whole. More would be checked one by one only to be refused, which takes long.
const MAX_VALUES = 5_000;
// An input may have 200 levels of its own.
const MAX_DEPTH = 250;

/** A schema as JSON Schema tells it: as much of it as is needed here. */
export interface JsonSchema {
  type?: string | string[];
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  anyOf?: JsonSchema[];
  [field: string]: unknown;
}

const described = new Map<RouteName, JsonSchema>();

/** The schema of what goes in, as JSON Schema. Made when it is first asked for: all of them take longer than most calls. */
export function inputSchema(name: RouteName): JsonSchema {
  const known = described.get(name);
  if (known !== undefined) return known;
  const schema = z.toJSONSchema(SHAPES[name].input, { io: "input" }) as JsonSchema;
  described.set(name, schema);
  return schema;
}

/** What a call is given: from the path, and from the query or the body. */
export async function readInput<Name extends RouteName>(
  name: Name,
  request: Request,
  path: Readonly<Record<string, string>>,
): Promise<Calls[Name]["input"]> {
  const { method } = ROUTES[name];
  const { searchParams } = new URL(request.url);
  const given = method === "GET" ? readQuery(name, searchParams) : await readBody(request, maxBodyBytes(name));
  const [unread] = method === "GET" ? [] : searchParams.keys();
  if (unread !== undefined)
    throw refused([{ path: unread, message: "is in the query, where this route reads nothing" }]);
  const parts = pathParts(ROUTES[name].path);
  const twice = parts.find((part) => Object.hasOwn(given, part));
  if (twice !== undefined) throw refused([{ path: twice, message: "stands in the path already" }]);
  const read = SHAPES[name].input.safeParse({ ...given, ...path }, { error: inWords });
  if (read.success) return read.data;
  throw refused(
    read.error.issues.slice(0, 20).map((issue) => ({
      path: pathText([...issue.path, ...(issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [])]),
      message: issue.message,
    })),
  );
}

function maxBodyBytes(name: RouteName): number {
  if (ROUTES[name].role === null) return MAX_OPEN_BODY_BYTES;
  return Object.hasOwn(inputSchema(name).properties ?? {}, "input") ? MAX_INPUT_BODY_BYTES : MAX_BODY_BYTES;
}

function refused(issues: { path: string; message: string }[]): ApiError {
  const [first = { path: "", message: "it cannot be read" }] = issues;
  const message = `${first.path === "" ? "the request" : first.path}: ${first.message}`;
  return new ApiError(400, "INVALID_REQUEST", message, { issues });
}

/** A query has texts only: what a field is by its schema says what they are to become. */
function readQuery(name: RouteName, query: URLSearchParams): Record<string, unknown> {
  const { properties = {} } = inputSchema(name);
  const read = new Map<string, unknown>();
  for (const [key, text] of query) {
    const schema = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (schema?.type !== "array") {
      if (read.has(key)) throw refused([{ path: key, message: "is given more than once" }]);
      read.set(key, fromText(text, schema));
    } else {
      const items = (read.get(key) as string[] | undefined) ?? [];
      items.push(...(hasChoices(schema) ? text.split(",", MAX_VALUES) : [text]));
      read.set(key, items);
    }
    // What is not known is refused by the first of them.
    if (schema === undefined) break;
  }
  // Never by assignment, which would lose a key `__proto__`.
  return Object.fromEntries(read);
}

/** Choices have no comma in them; names of types and queues may. */
function hasChoices({ items }: JsonSchema): boolean {
  return items?.["enum"] !== undefined;
}

function fromText(text: string, schema: JsonSchema | undefined): unknown {
  if ((schema?.type === "integer" || schema?.type === "number") && /^-?\d{1,16}(?:\.\d{1,10})?$/.test(text))
    return Number(text);
  if (schema?.type === "boolean" && /^(?:true|false)$/.test(text)) return text === "true";
  return text;
}

async function readBody(request: Request, mostBytes: number): Promise<Record<string, unknown>> {
  const text = await readText(request, mostBytes);
  if (text === "") return {};
  const type = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();
  if (type !== "application/json") {
    throw new ApiError(415, "NOT_JSON", "the body must be JSON, with the header content-type: application/json");
  }
  const value = parse(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw refused([{ path: "", message: "the body must be an object" }]);
  }
  refuseMany(value, { left: MAX_VALUES }, "input");
  return value as Record<string, unknown>;
}

function refuseMany(value: object, count: { left: number }, except?: string): void {
  const isList = Array.isArray(value);
  const keys = isList ? [] : Object.keys(value);
  count.left -= isList ? value.length : keys.length;
  if (count.left < 0) throw refused([{ path: "", message: `the body has more than ${MAX_VALUES} values` }]);
  const inside: unknown[] = isList
    ? value
    : keys.filter((key) => key !== except).map((key) => (value as Record<string, unknown>)[key]);
  for (const item of inside) if (typeof item === "object" && item !== null) refuseMany(item, count);
}

function parse(text: string): unknown {
  // To parse what is nested deeply takes far longer than its length says.
  if (isNestedDeeper(text, MAX_DEPTH)) {
    throw refused([{ path: "", message: `the body is nested deeper than ${MAX_DEPTH} levels` }]);
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, "NOT_JSON", `the body is not JSON: ${(error as Error).message.slice(0, 200)}`);
  }
}

const QUOTE = '"'.charCodeAt(0);
const BACKSLASH = "\\".charCodeAt(0);
const OPENING = "{".charCodeAt(0);
const CLOSING = "}".charCodeAt(0);
// Square brackets and curly ones differ in this bit alone.
const CURLY = 0x20;

/** Looks at nothing but brackets outside of strings: what is no JSON is found out by who parses it. */
function isNestedDeeper(text: string, most: number): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) inString = !inString;
    else if (code === BACKSLASH) at++;
    else if (!inString && (code | CURLY) === OPENING && ++depth > most) return true;
    else if (!inString && (code | CURLY) === CLOSING) depth--;
  }
  return false;
}

/** Never reads more than the limit, whatever the headers say. */
async function readText(request: Request, mostBytes: number): Promise<string> {
  const tooLong = (): ApiError => new ApiError(413, "BODY_TOO_LARGE", `the body is longer than ${mostBytes} bytes`);
  if (Number(request.headers.get("content-length") ?? 0) > mostBytes) throw tooLong();
  if (request.body === null) return "";
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of request.body as unknown as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > mostBytes) throw tooLong();
      chunks.push(chunk);
    }
  } catch (error) {
    // The connection broke or the body is not framed as it must be: a fault of the sender, who may not even be there any more.
    throw error instanceof ApiError
      ? error
      : new ApiError(400, "BODY_INCOMPLETE", "the body could not be read to its end");
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new ApiError(400, "NOT_JSON", "the body is not UTF-8");
  }
}
