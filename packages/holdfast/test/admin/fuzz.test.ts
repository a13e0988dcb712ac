import { connect } from "node:net";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { adminScene, mail, STORES, type AdminScene } from "./scene.js";

/** As much of the OpenAPI document as is needed to call what it describes. */
interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}
interface Operation {
  operationId: string;
  parameters?: { name: string; in: "path" | "query"; required: boolean; schema: Schema }[];
  requestBody?: { content: { "application/json": { schema: Schema } } };
  responses: Record<string, { content?: Record<string, unknown> }>;
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

const ODD_TEXTS = [
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
  fc.constantFrom<unknown>(...ODD_TEXTS, null, true, -1, 0, 1.5, 2 ** 53, -(2 ** 63), 1e308, [], {}, [[[]]], {
    __proto__: 1,
    a: { b: [null] },
  }),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.jsonValue({ maxDepth: 3 }),
);

/** Values that fit a schema, mostly: what is refused at the door tells little of what is behind it. */
function fitting(schema: Schema, document: Document): fc.Arbitrary<unknown> {
  if (schema.$ref !== undefined)
    return fitting(document.components.schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {}, document);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((each) => fitting(each, document)));
  switch (schema.type) {
    case "string":
      if (schema.format === "date-time") return fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
      return fc.oneof(
        fc.constantFrom(...ODD_TEXTS),
        fc.string({ minLength: 1, maxLength: Math.min(20, schema.maxLength ?? 20) }),
      );
    case "integer":
    case "number":
      return fc.integer({ min: Math.max(-1_000, schema.minimum ?? 0), max: Math.min(1_000, schema.maximum ?? 1_000) });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(fitting(schema.items ?? {}, document), { maxLength: 4 });
    case "object": {
      const fields = Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, each]) => [name, fitting(each, document)]),
      );
      return fc.record(fields, { requiredKeys: schema.required ?? [] });
    }
    default:
      return odd;
  }
}
const mostly = (likely: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 5, arbitrary: likely }, { weight: 1, arbitrary: odd });

/** Dots alone, and nothing, no address can carry: they lead to another route. */
function asSegment(value: string): string {
  return /^\.{0,2}$/.test(value) ? "%20" : encodeURIComponent(value);
}

interface Sent {
  path: string;
  init: RequestInit;
}

/** Calls of one operation. */
function calls(path: string, method: string, operation: Operation, document: Document): fc.Arbitrary<Sent> {
  const { parameters = [], requestBody } = operation;
  const text = (value: unknown): string =>
    typeof value === "string" ? value.toWellFormed() : (JSON.stringify(value) ?? "");
  const given = fc.record(
    Object.fromEntries(parameters.map(({ name, schema }) => [name, mostly(fitting(schema, document))])),
    { requiredKeys: parameters.filter((each) => each.in === "path").map(({ name }) => name) },
  );
  const body =
    requestBody === undefined
      ? fc.constant(undefined)
      : mostly(fitting(requestBody.content["application/json"].schema, document));
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

async function checked({ send }: AdminScene, { path, init }: Sent, token: string, operation: Operation): Promise<void> {
  const response = await send(path, { ...init, token, signal: AbortSignal.timeout(10_000) });
  const text = await textOf(response, init.method === "HEAD");
  const kind = response.headers.get("content-type")?.split(";")[0] ?? "";
  const described = Object.hasOwn(operation.responses, response.status)
    ? operation.responses[response.status]
    : undefined;
  const isDescribed = described !== undefined && Object.hasOwn(described.content ?? {}, kind);
  const isTold = init.method === "HEAD" ? text === "" : response.ok ? text !== "" : isError(text);
  if (response.status < 500 && isDescribed && isTold) return;
  throw new Error(`${init.method} ${path} ${JSON.stringify(init.body)}: ${response.status} ${kind} ${text}`);
}

/** The body; of a stream that goes on, what comes first. */
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

describe.each(STORES)("whatever is sent to the API on %s", (name, store) => {
  it("is answered as its own description says: never with a fault of the server's", { timeout: 120_000 }, async () => {
    const faults: unknown[] = [];
    const scene = await adminScene(store(), { onError: (error) => void faults.push(error) });
    const token = await scene.token("admin");
    await scene.hf.enqueue(mail, { to: "nobody" }, { id: "01a1e0d0-d1c0-79bf-a2c2-8d02453060e6" });
    await scene.hf.drain();
    await scene.hf.schedules.create("default", { job: "mail", input: { to: "a" }, every: "1h" });
    const document = scene.api.openApi() as unknown as Document;
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).flatMap(([method, operation]) =>
        // Whatever can be got can be asked for without its body.
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
        fc.asyncProperty(calls(path, method, operation, document), (sent) => checked(scene, sent, token, operation)),
        { numRuns: name === "SQLite" ? 60 : 25, ...seeded() },
      );
    }
    expect(faults).toEqual([]);
  });
});

/** The same each time, so that a failure is one of the change at hand; `HOLDFAST_SEED` looks elsewhere. */
function seeded(): { seed: number } {
  return { seed: Number(process.env["HOLDFAST_SEED"] ?? 20_261_115) };
}

describe("what is sent to break it", () => {
  it("bodies of 10 MB are refused, many at once, without filling the memory", { timeout: 60_000 }, async () => {
    const scene = await adminScene("sqlite::memory:");
    const token = await scene.token("admin");
    const body = JSON.stringify({ type: "mail", input: "x".repeat(10_000_000) });
    const headers = { "content-type": "application/json" };
    const before = process.memoryUsage().rss;
    for (let round = 0; round < 3; round++) {
      const statuses = await Promise.all(
        Array.from({ length: 10 }, () =>
          scene.send("/api/admin/jobs", { method: "POST", body, headers, token }).then(
            async (response) => {
              await response.text().catch(() => {});
              return response.status;
            },
            // The server hung up while it was still being sent.
            () => 413,
          ),
        ),
      );
      expect(new Set(statuses)).toEqual(new Set([413]));
    }
    expect(process.memoryUsage().rss - before).toBeLessThan(400_000_000);
    expect((await scene.send("/healthz")).status).toBe(200);
  });

  it.each([
    ["lists in lists, a hundred thousand deep", `{"type":"mail","input":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
    [
      "objects in objects, a hundred thousand deep",
      `{"type":"mail","input":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}`,
    ],
    ["a number longer than any", `{"type":"mail","priority":${"9".repeat(10_000)}}`],
    ["what is no JSON", `{"type":`],
    ["a list", "[]"],
    ["a text", '"mail"'],
    ["a key that objects share", '{"__proto__":{"type":"mail"},"type":"mail"}'],
    ["the same key twice", '{"type":"a","type":5}'],
  ])("%s is refused with a reason", async (_what, body) => {
    const scene = await adminScene("sqlite::memory:");
    const response = await scene.send("/api/admin/jobs", {
      method: "POST",
      body,
      headers: { "content-type": "application/json" },
      token: await scene.token("admin"),
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { message: expect.any(String) } });
  });

  it("a body of another kind is refused, whatever is in it", async () => {
    const scene = await adminScene("sqlite::memory:");
    const token = await scene.token("admin");
    for (const type of [
      "text/plain",
      "application/x-www-form-urlencoded",
      "multipart/form-data",
      "application/json-patch",
      "",
    ]) {
      const response = await scene.send("/api/admin/jobs", {
        method: "POST",
        body: '{"type":"mail"}',
        headers: { "content-type": type },
        token,
      });
      expect(response.status).toBe(415);
    }
  });

  it.each([
    "/api/admin/../admin/jobs",
    "/api/admin//jobs",
    "/api/admin/jobs/",
    "/api/admin/jobs/%2e%2e/stats",
    "/api/admin/jobs/%",
    "/api/admin/jobs/%ff%fe",
    "/api/admin/jobs/%00",
    "/api/admin/jobs/..%2f..%2f",
    `/api/admin/jobs/${"a".repeat(8_000)}`,
    "/api/admin/jobs?limit=5&limit=6",
    "/api/admin/jobs?limit=1e3",
    "/api/admin/jobs?offset=10001",
    "/api/admin/jobs?limit=0",
    "/api/admin/jobs?cursor=%00",
    "/api/admin/jobs?unknown=1",
    "/api/admin/jobs?state=dead,nope",
    "/api/admin/jobs?createdAfter=yesterday",
  ])("the path %s is answered, and not by a fault", async (path) => {
    const scene = await adminScene("sqlite::memory:");
    const token = await scene.token("admin");
    const status = await new Promise<number>((resolve, reject) => {
      const { hostname, port } = new URL(scene.url);
      const socket = connect(Number(port), hostname, () => {
        socket.write(
          `GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${token}\r\nconnection: close\r\n\r\n`,
        );
      });
      let text = "";
      socket.on("data", (chunk) => (text += chunk.toString()));
      socket.on("end", () => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1])));
      socket.on("error", reject);
    });
    expect(status).toBeGreaterThanOrEqual(200);
    expect(status).toBeLessThan(500);
    if (path.includes("?")) expect(status).toBe(400);
  });
});
