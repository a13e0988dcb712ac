import { z } from "zod";
import { inputSchema, type JsonSchema } from "../http/input.js";
import { BASE, HEALTH_PATH, METRICS_PATH, pathParts, READY_PATH, SUMMARY_PATH } from "./routes.js";
import { ROUTE_NAMES, ROUTES, type RouteName } from "./routes.js";
import { ERROR, SHAPES, SUMMARY } from "./schemas.js";

/** The statuses that any call may be refused with. */
const REFUSALS: Readonly<Record<string, string>> = {
  400: "The request is not as described here; `issues` names the fields.",
  401: "No token, or one that is not known or has expired.",
  403: "The token's role may not do this, or the request comes from another site.",
  404: "There is no such thing.",
  409: "It is not in a state for this.",
  413: "The body or a payload is too large.",
  415: "The body is not JSON.",
  429: "Too much at once; `retry-after` says when to try again.",
  503: "The store does not answer, or the server is closing.",
};

/** The API described by OpenAPI 3.1, made of the schemas that check it. */
export function openApi(version: string, basePath: string): Record<string, unknown> {
  const schemas: Record<string, unknown> = {};
  const ref = (schema: z.ZodType): unknown => withShared(z.toJSONSchema(schema, { io: "output" }), schemas);
  const error = { description: "", content: json(ref(ERROR)) };
  const refusals = Object.fromEntries(
    Object.entries(REFUSALS).map(([status, description]) => [status, { ...error, description }]),
  );
  const paths: Record<string, Record<string, unknown>> = {};
  const add = (path: string, method: string, operation: unknown): void => {
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation };
  };
  for (const name of ROUTE_NAMES) {
    const { method, path, role, ofUser, about } = ROUTES[name];
    add(`${BASE}${path.replaceAll(/:(\w+)/g, "{$1}")}`, method, {
      operationId: name,
      tags: [name.split(".")[0]],
      summary: about,
      description:
        role === null
          ? "Open to all."
          : `For the role ${role} and above${ofUser ? ", and for a user's own jobs" : ""}.`,
      ...(role === null && { security: [] }),
      ...inputOf(name, schemas),
      responses: { [statusOf(name)]: { description: "Done.", content: json(ref(SHAPES[name].answer)) }, ...refusals },
    });
  }
  add(SUMMARY_PATH, "GET", {
    operationId: "summary",
    tags: ["jobs"],
    summary: "Counts by state and the latest failures, in one answer.",
    description: "For the role viewer and above.",
    responses: { 200: { description: "Done.", content: json(ref(SUMMARY)) }, ...refusals },
  });
  add(`${BASE}/events`, "GET", {
    operationId: "events",
    tags: ["events"],
    summary:
      "What happens, as server-sent events: `stats` each second, `job` for a change seen in the store, this process's own events, and `missed` where a slow reader missed some.",
    description: "For the role viewer and above.",
    responses: {
      200: { description: "A stream.", content: { "text/event-stream": { schema: { type: "string" } } } },
      ...refusals,
    },
  });
  add(METRICS_PATH, "GET", {
    operationId: "metrics",
    tags: ["health"],
    summary: "Prometheus' text format.",
    description: "For the role viewer and above.",
    responses: {
      200: { description: "Done.", content: { "text/plain": { schema: { type: "string" } } } },
      ...refusals,
    },
  });
  const health = (path: string, name: string, summary: string, status: string): void => {
    const schema = ref(z.object({ status: z.literal(status) }));
    add(path, "GET", {
      operationId: name,
      tags: ["health"],
      summary,
      description: "Open to all.",
      security: [],
      responses: { 200: { description: "Yes.", content: json(schema) }, 503: refusals["503"] },
    });
  };
  health(HEALTH_PATH, "healthy", "Whether the process lives.", "ok");
  health(READY_PATH, "ready", "Whether the store answers.", "ready");
  return {
    openapi: "3.1.0",
    info: {
      title: "Holdfast",
      version,
      description: "Jobs, schedules, queues and workers.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: basePath === "" ? "/" : basePath }],
    security: [{ token: [] }, { session: [] }],
    paths,
    components: {
      schemas,
      securitySchemes: {
        token: { type: "http", scheme: "bearer" },
        session: { type: "apiKey", in: "cookie", name: "holdfast_session" },
      },
    },
  };
}

/** What a call that went well answers with. */
export function statusOf(name: RouteName): 200 | 201 | 202 {
  if (["jobs.enqueue", "jobs.rerun", "schedules.create", "schedules.run", "tokens.create"].includes(name)) return 201;
  return /Many$|purge$/.test(name) ? 202 : 200;
}

function inputOf(name: RouteName, schemas: Record<string, unknown>): Record<string, unknown> {
  const { method, path } = ROUTES[name];
  const { properties = {}, required = [], ...rest } = withShared({ ...inputSchema(name) }, schemas) as JsonSchema;
  const inPath = pathParts(path);
  const others = Object.entries(properties).filter(([field]) => !inPath.includes(field));
  const parameter = (field: string, where: string): unknown => ({
    name: field,
    in: where,
    required: required.includes(field),
    schema: properties[field],
  });
  const parameters = [
    ...inPath.map((field) => parameter(field, "path")),
    ...(method === "GET" ? others.map(([field]) => parameter(field, "query")) : []),
  ];
  if (method === "GET" || others.length === 0) return parameters.length === 0 ? {} : { parameters };
  const needed = required.filter((field) => !inPath.includes(field));
  const schema = { ...rest, properties: Object.fromEntries(others), ...(needed.length > 0 && { required: needed }) };
  return {
    ...(parameters.length > 0 && { parameters }),
    requestBody: { required: needed.length > 0, content: json(schema) },
  };
}

function json(schema: unknown): unknown {
  return { "application/json": { schema } };
}

/** What schemas share goes to one place, where every description finds it. */
function withShared(schema: object, schemas: Record<string, unknown>): unknown {
  const { $defs = {}, $schema: _schema, ...own } = schema as { $defs?: Record<string, object>; $schema?: string };
  for (const [name, shared] of Object.entries($defs)) schemas[name] ??= moved(shared);
  const { id, ...rest } = own as { id?: string };
  if (typeof id !== "string") return moved(own);
  schemas[id] ??= moved(rest);
  return { $ref: `#/components/schemas/${id}` };
}

function moved(schema: object): unknown {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    key === "id" && typeof value === "string" && /^[A-Z]/.test(value) ? undefined : value,
  );
  return JSON.parse(text.replaceAll('"$ref":"#/$defs/', '"$ref":"#/components/schemas/')) as unknown;
}
