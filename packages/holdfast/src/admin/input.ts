import { z } from "zod";
import { ApiError } from "./api-error.js";
import type { Calls } from "./calls.js";
import { pathParts, ROUTES, type RouteName } from "./routes.js";
import { SHAPES } from "./shapes.js";
import { inWords } from "./words.js";

// Inputs are 256 KB at most; written with escapes they may be several times as long.
const MOST_BODY_BYTES = 2_097_152;
// What anybody may send, who need not be known.
const MOST_OPEN_BYTES = 4_096;
const LONGEST_MESSAGE = 300;

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
  const { method, role } = ROUTES[name];
  const most = role === null ? MOST_OPEN_BYTES : MOST_BODY_BYTES;
  const given = method === "GET" ? readQuery(name, new URL(request.url).searchParams) : await readBody(request, most);
  const parts = pathParts(ROUTES[name].path);
  const twice = parts.find((part) => Object.hasOwn(given, part));
  if (twice !== undefined) throw refused([{ path: twice, message: "stands in the path already" }]);
  const read = SHAPES[name].input.safeParse({ ...given, ...path }, { error: inWords });
  if (read.success) return read.data;
  throw refused(
    read.error.issues.slice(0, 20).map((issue) => ({
      path: [...issue.path, ...(issue.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [])]
        .join(".")
        .slice(0, LONGEST_MESSAGE),
      message: issue.message.slice(0, LONGEST_MESSAGE),
    })),
  );
}

function refused(issues: { path: string; message: string }[]): ApiError {
  const [first = { path: "", message: "it cannot be read" }] = issues;
  const message = `${first.path === "" ? "the request" : first.path}: ${first.message}`;
  return new ApiError(400, "INVALID_REQUEST", message, { issues });
}

/** A query has texts only: what a field is by its schema says what they are to become. */
function readQuery(name: RouteName, query: URLSearchParams): Record<string, unknown> {
  const { properties = {} } = inputSchema(name);
  const read: Record<string, unknown> = {};
  for (const key of new Set(query.keys())) {
    const texts = query.getAll(key);
    const schema = Object.hasOwn(properties, key) ? properties[key] : undefined;
    if (schema?.type === "array") read[key] = texts.flatMap((text) => (hasChoices(schema) ? text.split(",") : [text]));
    else if (texts.length > 1) throw refused([{ path: key, message: "is given more than once" }]);
    else read[key] = fromText(texts[0] ?? "", schema);
  }
  return read;
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
  return value as Record<string, unknown>;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new ApiError(400, "NOT_JSON", `the body is not JSON: ${(error as Error).message.slice(0, 200)}`);
  }
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
