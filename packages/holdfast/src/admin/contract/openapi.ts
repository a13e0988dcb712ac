import { z } from "zod";
import { inputSchema, type JsonSchema } from "../http/input.js";
import { BASE, hasQuery, HEALTH_PATH, METRICS_PATH, pathParameters, READY_PATH, SUMMARY_PATH } from "./routes.js";
import { ROUTE_NAMES, ROUTES, type RouteName } from "./routes.js";
import { ERROR, SCHEMAS, SUMMARY } from "./schemas.js";

/** Error responses that any call may return. */
const ERRORS: Readonly<Record<string, string>> = {
  400: "Invalid request. `issues` lists the invalid fields.",
  401: "Missing, invalid, expired or revoked token.",
  403: "The role lacks permission, or the request comes from another site.",
  404: "Not found.",
  409: "The current state does not allow this, or a name or key is taken.",
  413: "The body or a job's payload is too large.",
  415: "The content type is not application/json.",
  429: "A rate or concurrency limit was reached. `retry-after` contains the seconds to wait.",
  503: "The store does not respond, or the server is shutting down.",
};

/** The OpenAPI 3.1 document, generated from the schemas that validate requests. */
export function openApi(version: string, basePath: string): Record<string, unknown> {
  const schemas: Record<string, unknown> = {};
  const ref = (schema: z.ZodType): unknown => withSharedSchemas(z.toJSONSchema(schema, { io: "output" }), schemas);
  const error = { description: "", content: json(ref(ERROR)) };
  const errors = Object.fromEntries(
    Object.entries(ERRORS).map(([status, description]) => [status, { ...error, description }]),
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
          ? "No authentication."
          : `Requires the role ${role} or higher${ofUser ? ", or the role user (own jobs only)" : ""}.`,
      ...(role === null && { security: [] }),
      ...inputOf(name, schemas),
      responses: { [statusOf(name)]: { description: "Success.", content: json(ref(SCHEMAS[name].result)) }, ...errors },
    });
  }
  add(SUMMARY_PATH, "GET", {
    operationId: "summary",
    tags: ["jobs"],
    summary: "Get counts by state and the latest failures.",
    description: "Requires the role viewer or higher.",
    responses: { 200: { description: "Success.", content: json(ref(SUMMARY)) }, ...errors },
  });
  add(`${BASE}/events`, "GET", {
    operationId: "events",
    tags: ["events"],
    summary:
      "Stream server-sent events: `stats` every second, `job` for each change found in the store, the events of this process, and `missed` if a slow reader missed events.",
    description: "Requires the role viewer or higher.",
    responses: {
      200: { description: "An event stream.", content: { "text/event-stream": { schema: { type: "string" } } } },
      ...errors,
    },
  });
  add(METRICS_PATH, "GET", {
    operationId: "metrics",
    tags: ["health"],
    summary: "Get metrics in the Prometheus text format.",
    description: "Requires the role viewer or higher.",
    responses: {
      200: { description: "Success.", content: { "text/plain": { schema: { type: "string" } } } },
      ...errors,
    },
  });
  const health = (path: string, name: string, summary: string, status: string): void => {
    const schema = ref(z.object({ status: z.literal(status) }));
    add(path, "GET", {
      operationId: name,
      tags: ["health"],
      summary,
      description: "No authentication.",
      security: [],
      responses: { 200: { description: "Success.", content: json(schema) }, 503: errors["503"] },
    });
  };
  health(HEALTH_PATH, "healthy", "Check that the process is alive.", "ok");
  health(READY_PATH, "ready", "Check that the store responds.", "ready");
  return {
    openapi: "3.1.0",
    info: {
      title: "Holdfast admin API",
      version,
      description: "Manage jobs, schedules, queues and workers.",
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

/** The status of a successful call. */
export function statusOf(name: RouteName): 200 | 201 | 202 {
  if (["jobs.enqueue", "jobs.rerun", "schedules.create", "schedules.run", "tokens.create"].includes(name)) return 201;
  return /Many$|purge$/.test(name) ? 202 : 200;
}

function inputOf(name: RouteName, schemas: Record<string, unknown>): Record<string, unknown> {
  const { path } = ROUTES[name];
  const takesQuery = hasQuery(ROUTES[name]);
  const {
    properties = {},
    required = [],
    ...rest
  } = withSharedSchemas({ ...inputSchema(name) }, schemas) as JsonSchema;
  const inPath = pathParameters(path);
  const others = Object.entries(properties).filter(([field]) => !inPath.includes(field));
  const parameter = (field: string, where: string): unknown => ({
    name: field,
    in: where,
    required: required.includes(field),
    ...(properties[field]?.["description"] !== undefined && { description: properties[field]["description"] }),
    // The value of an object is its JSON.
    ...(properties[field]?.type === "object" ? { content: json(properties[field]) } : { schema: properties[field] }),
  });
  const parameters = [
    ...inPath.map((field) => parameter(field, "path")),
    ...(takesQuery ? others.map(([field]) => parameter(field, "query")) : []),
  ];
  if (takesQuery || others.length === 0) return parameters.length === 0 ? {} : { parameters };
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

/** Moves shared definitions to `components.schemas` and returns the schema with references to them. */
function withSharedSchemas(schema: object, schemas: Record<string, unknown>): unknown {
  const { $defs = {}, $schema: _schema, ...own } = schema as { $defs?: Record<string, object>; $schema?: string };
  for (const [name, shared] of Object.entries($defs)) schemas[name] ??= rewriteRefs(shared);
  const { id, ...rest } = own as { id?: string };
  if (typeof id !== "string") return rewriteRefs(own);
  schemas[id] ??= rewriteRefs(rest);
  return { $ref: `#/components/schemas/${id}` };
}

function rewriteRefs(schema: object): unknown {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    key === "id" && typeof value === "string" && /^[A-Z]/.test(value) ? undefined : value,
  );
  return JSON.parse(text.replaceAll('"$ref":"#/$defs/', '"$ref":"#/components/schemas/')) as unknown;
}
