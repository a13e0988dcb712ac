import { ROUTE_NAMES, ROUTES } from "./routes.js";

/** The table in docs/reference/http-api.md, which `scripts/http-reference.mjs` generates and a test compares. */
export function routeTable(): string {
  const rows = ROUTE_NAMES.map((name) => {
    const { method, path, role, ofUser, about } = ROUTES[name];
    const who = role === null ? "none" : `${role}${ofUser === true ? ", user" : ""}`;
    return `| \`${method} ${path}\` | \`${name}\` | ${who} | ${about} |`;
  });
  return ["| Route | Client | Role | Description |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

/** The whole page. */
export function referenceText(): string {
  return `# HTTP reference

All routes of the [admin API](../guides/admin-api.md). Paths in the first table are relative to \`/api/admin\`. A server returns the schemas of requests
and responses as an OpenAPI document at \`/api/admin/openapi.json\`.

- **Client** is the method of \`adminClient\`: \`jobs.list\` is \`client.jobs.list()\`.
- **Role** is the lowest role that may call the route: viewer, operator or admin. "user" means that tokens of the role user may call it too, for jobs of
  that user. "none" means no authentication.

${routeTable()}

Other routes:

| Route | Role | Description |
| --- | --- | --- |
| \`GET /api/v1/admin/jobs\` | viewer | Get counts by state and the latest failures: \`client.summary()\`. |
| \`GET /api/admin/events\` | viewer | Stream job events as server-sent events. |
| \`GET /api/admin\` | none | Get the name and version of the API, and links. |
| \`GET /api/admin/openapi.json\` | none | Get the OpenAPI 3.1 document. |
| \`GET /metrics\` | viewer | Get metrics in the Prometheus text format. |
| \`GET /healthz\` | none | Check that the process is alive. |
| \`GET /readyz\` | none | Check that the store responds. |

## Errors

Every error response has the body \`{ "error": { "code", "message", "issues"? } }\`. \`code\` is stable. \`issues\` lists the invalid fields, each with its \`path\`.

| Status | Meaning |
| --- | --- |
| 400 | The request is malformed, a field is invalid, or the input does not match the schema of the job type. |
| 401 | The token is missing, invalid, expired or revoked. |
| 403 | The role lacks permission, a token of the role user filters by another user, or the request comes from another site. |
| 404 | The job, schedule, token, operation or route does not exist. |
| 405 | The route does not support this method. The \`allow\` header lists those that it does. |
| 409 | The current state does not allow this: a running job cannot be deleted, a job that no longer waits cannot be changed, a name or unique key is taken, or the limit on lanes is reached. |
| 413 | The body is larger than 1 MB (128 KB for routes without an input), or a payload is larger than 256 KB. |
| 415 | The content type is not \`application/json\`. |
| 429 | Too many operations, event streams or invalid tokens. The \`retry-after\` header contains the seconds to wait. |
| 503 | The store does not respond, or the server is shutting down. |
`;
}
