import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { adminScene, adminStores, mail, type AdminScene } from "./scene.js";

/** The parts of the OpenAPI document that are needed to generate calls. */
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}
interface Operation {
  operationId: string;
  parameters?: Parameter[];
  requestBody?: { content: { "application/json": { schema: Schema } } };
  responses: Record<string, { content?: Record<string, unknown> }>;
}
interface Parameter {
  name: string;
  in: "path" | "query";
  required: boolean;
  schema?: Schema;
  content?: { "application/json": { schema: Schema } };
}
interface Schema {
  $ref?: string;
  type?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  format?: string;
}

const ODD_STRINGS = [
  "",
  " ",
  "\0",
  "\u{202e}abc",
  "\ud800",
  "é".repeat(300),
  "%00",
  "../../etc/passwd",
  "..%2f..%2f",
  "' OR 1=1 --",
  "; DROP TABLE live; --",
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "$(id)",
  "{{7*7}}",
  "<script>alert(1)</script>",
  "\r\nx-injected: 1",
  // These are there, and are called for more than the others.
  ...Array<string[]>(4).fill(["01a1e0d0-d1c0-79bf-a2c2-8d02453060e6", "default", "mail", "never"]).flat(),
  "*/5 * * * *",
  "Europe/Berlin",
  "2026-01-01T00:00:00Z",
  "-1",
  "1e308",
  "NaN",
  "9".repeat(400),
];
const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(...ODD_STRINGS, null, true, -1, 0, 1.5, 2 ** 53, -(2 ** 63), 1e308, [], {}, [[[]]], {
    __proto__: 1,
    a: { b: [null] },
  }),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.jsonValue({ maxDepth: 3 }),
);

/** Values that match a schema. Mostly valid ones: invalid requests never reach the handlers. */
function matching(schema: Schema, document: Document): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined)
    return matching(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {}, document);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((each) => matching(each, document)));
  switch (schema.type) {
    case "string":
      if (schema.format === "date-time") return fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
      return fc.oneof(
        fc.constantFrom(...ODD_STRINGS),
        fc.string({ minLength: 1, maxLength: Math.min(20, schema.maxLength ?? 20) }),
      );
    case "integer":
    case "number":
      return fc.integer({
        min: Math.max(-1_000, Math.ceil(schema.minimum ?? 0)),
        max: Math.min(1_000, schema.maximum ?? 1_000),
      });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(matching(schema.items ?? {}, document), { maxLength: 4 });
    case "object": {
      const fields = Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, each]) => [name, matching(each, document)]),
      );
      return fc.record(fields, { requiredKeys: schema.required ?? [] });
    }
    default:
      return odd;
  }
}
const mostly = (likely: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 5, arbitrary: likely }, { weight: 1, arbitrary: odd });

/** "", "." and ".." cannot be path segments: they lead to another route. */
function asSegment(value: string): string {
  return /^\.{0,2}$/.test(value) ? "%20" : encodeURIComponent(value);
}

interface Sent {
  path: string;
  init: RequestInit;
}

function calls(path: string, method: string, operation: Operation, document: Document): fc.Arbitrary<Sent> {
  const { parameters = [], requestBody } = operation;
  const text = (value: unknown): string =>
    typeof value === "string" ? value.toWellFormed() : (JSON.stringify(value) ?? "");
  const given = fc.record(
    Object.fromEntries(
      parameters.map(({ name, schema, content }) => [
        name,
        mostly(matching(schema ?? content?.["application/json"].schema ?? {}, document)),
      ]),
    ),
    { requiredKeys: parameters.filter((each) => each.in === "path").map(({ name }) => name) },
  );
  const body =
    requestBody === undefined
      ? fc.constant(undefined)
      : mostly(matching(requestBody.content["application/json"].schema, document));
  return fc.tuple(given, body).map(([values, content]) => {
    const query = new URLSearchParams();
    let filled = path;
    for (const { name, in: where } of parameters) {
      const value = (values as Record<string, unknown>)[name];
      if (value === undefined) continue;
      if (where === "path") filled = filled.replace(`{${name}}`, asSegment(text(value)));
      else for (const each of Array.isArray(value) ? value : [value]) query.append(name, text(each));
    }
    return {
      path: query.size === 0 ? filled : `${filled}?${query.toString()}`,
      init: {
        method,
        ...(content !== undefined && {
          body: JSON.stringify(content) ?? "null",
          headers: { "content-type": "application/json" },
        }),
      },
    };
  });
}

async function check({ send }: AdminScene, { path, init }: Sent, token: string, operation: Operation): Promise<void> {
  const response = await send(path, { ...init, token, signal: AbortSignal.timeout(10_000) });
  const text = await textOf(response, init.method === "HEAD");
  const kind = response.headers.get("content-type")?.split(";")[0] ?? "";
  const described = Object.hasOwn(operation.responses, response.status)
    ? operation.responses[response.status]
    : undefined;
  const isDescribed = described !== undefined && Object.hasOwn(described.content ?? {}, kind);
  const hasBody = init.method === "HEAD" ? text === "" : response.ok ? text !== "" : isError(text);
  if (response.status < 500 && isDescribed && hasBody) return;
  throw new Error(`${init.method} ${path} ${JSON.stringify(init.body)}: ${response.status} ${kind} ${text}`);
}

/** The body, or the first chunk of an event stream. */
async function textOf(response: Response, isHead: boolean): Promise<string> {
  if (response.headers.get("content-type") !== "text/event-stream" || isHead) return response.text();
  const reader = response.body?.getReader();
  const { value } = (await reader?.read()) ?? {};
  await reader?.cancel();
  return new TextDecoder().decode(value);
}

function isError(text: string): boolean {
  const { error } = JSON.parse(text) as { error?: { code?: unknown; message?: unknown } };
  return typeof error?.code === "string" && typeof error.message === "string";
}

/** Sends so many requests to each route, on each store. */
export function sendsRandomRequests(runs: { SQLite: number; PostgreSQL: number }): void {
  describe.each(adminStores())("random requests on %s", (name, store) => {
    it("get the responses that the OpenAPI document describes", { timeout: 120_000 }, async () => {
      const internalErrors: unknown[] = [];
      const scene = await adminScene(store(), { onError: (error) => void internalErrors.push(error) });
      const token = await scene.token("admin");
      await scene.hf.enqueue(mail, { to: "invalid" }, { id: "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6" });
      await scene.hf.drain();
      await scene.hf.schedules.create("default", { job: "mail", input: { to: "a" }, every: "1h" });
      const document = scene.api.openApi() as unknown as Document;
      const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
        Object.entries(methods).flatMap(([method, operation]) =>
          // Every GET route supports HEAD too.
          (method === "get" ? ["GET", "HEAD"] : [method.toUpperCase()]).map((sent) => ({
            path,
            method: sent,
            operation,
          })),
        ),
      );
      expect(operations.length).toBeGreaterThan(55);
      expect(operations.map(({ operation }) => operation.operationId)).toEqual(
        expect.arrayContaining(["events", "metrics", "ready", "healthy", "summary"]),
      );
      for (const { path, method, operation } of operations) {
        await fc.assert(
          fc.asyncProperty(calls(path, method, operation, document), (sent) => check(scene, sent, token, operation)),
          { numRuns: name === "SQLite" ? runs.SQLite : runs.PostgreSQL, ...seeded() },
        );
      }
      expect(internalErrors).toEqual([]);
    });
  });
}

/** A fixed seed, so that a failure is caused by a change. Set `HOLDFAST_SEED` to try other values. */
function seeded(): { seed: number } {
  return { seed: Number(process.env["HOLDFAST_SEED"] ?? 20_261_115) };
}
