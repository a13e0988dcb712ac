import { ROUTE_NAMES, ROUTES } from "./routes.js";

/** The table of docs/reference/http-api.md. A test compares; `scripts/http-reference.mjs` writes it. */
export function routeTable(): string {
  const rows = ROUTE_NAMES.map((name) => {
    const { method, path, role, ofUser, about } = ROUTES[name];
    const who = role === null ? "anybody" : `${role}${ofUser === true ? ", user" : ""}`;
    return `| \`${method} ${path}\` | \`${name}\` | ${who} | ${about} |`;
  });
  return ["| Route | Client | Role | What it does |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

/** The whole page. */
export function referenceText(): string {
  return `# HTTP reference

Every route of the [admin API](../guides/admin-api.md), below \`/api/admin\`. What goes in and comes out is described by the OpenAPI document that a server
answers at \`/api/admin/openapi.json\`. The column Client is the method of \`adminClient\`: \`jobs.list\` is \`client.jobs.list()\`. A role may do
what those before it may: viewer, operator, admin; a route that names user is open to a token that is bound to one user, for that user's jobs.

${routeTable()}

Besides these:

| Route | Role | What it does |
| --- | --- | --- |
| \`GET /api/v1/admin/jobs\` | viewer | Counts by state and the latest failures, in one answer: \`client.summary()\`. |
| \`GET /api/admin/events\` | viewer | What happens, as server-sent events. |
| \`GET /api/admin\` | anybody | Name and version of the API, and where its description is. |
| \`GET /api/admin/openapi.json\` | anybody | The OpenAPI 3.1 document. |
| \`GET /metrics\` | viewer | Prometheus' text format. |
| \`GET /healthz\` | anybody | The process lives. |
| \`GET /readyz\` | anybody | The store answers. |

## Errors

Every refusal is \`{ "error": { "code", "message", "issues"? } }\`; \`issues\` names the fields that are wrong, each with its \`path\`.

| Status | When |
| --- | --- |
| 400 | The request is not as described, or malformed; a type's schema does not take the input. |
| 401 | No token, or one that is not known, was revoked or has expired. |
| 403 | The role may not do this, the job is another user's, or the request comes from another site. |
| 404 | There is no such job, schedule, token, operation or route. |
| 405 | The route is there for other methods; the header \`allow\` names them. |
| 409 | It is not in a state for this: a job that runs cannot be deleted, a name is taken, a unique key is held, as many queues exist as callers may make. |
| 413 | The body is longer than 1 MB, or 128 KB where there is no input in it, or a payload than 256 KB. |
| 415 | The body is not \`application/json\`. |
| 429 | Too many operations, viewers or failed logins; the header \`retry-after\` says when to try again. |
| 503 | The store does not answer, or the server is closing. |
`;
}
