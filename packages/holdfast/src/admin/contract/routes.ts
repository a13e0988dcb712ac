import type { Role } from "../../access/roles.js";
import type { Calls } from "./api-types.js";

export const BASE = "/api/admin";
export const SUMMARY_PATH = "/api/v1/admin/jobs";
export const METRICS_PATH = "/metrics";
/** The paths that require authentication. Browsers send the session cookie to these only. */
export const COOKIE_PATHS: readonly string[] = [BASE, SUMMARY_PATH, METRICS_PATH];
export const HEALTH_PATH = "/healthz";
export const READY_PATH = "/readyz";

/** A response header that distinguishes responses of Holdfast from those of a proxy. */
export const HOLDFAST_HEADER = "x-holdfast";
/** A response header with the time of the server's clock, in milliseconds: the clock of a browser may be wrong. */
export const TIME_HEADER = "x-holdfast-time";

/** Whether a path is one of the API. The base path is not part of it. */
export function isApiPath(path: string): boolean {
  return path.startsWith(`${BASE}/`) || [BASE, SUMMARY_PATH, METRICS_PATH, HEALTH_PATH, READY_PATH].includes(path);
}

/** One route of the API. Its types are in `Calls`, its schemas in `schemas.ts`. */
export interface RouteLine {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Relative to `/api/admin`. */
  path: `/${string}`;
  /** The lowest role that may call it; `null`: no authentication. */
  role: Role | null;
  /** The role `user` may call it too, and sees and changes only the jobs of that user. */
  ofUser?: true;
  /** It changes nothing, although its method is POST. */
  readOnly?: true;
  /** The route that takes the same input as a body. The client uses it for a query that is too long for a URL. */
  withBody?: RouteName;
  /** One sentence for the OpenAPI document and the reference. */
  about: string;
}

/**
 * Every JSON route. The server, the client, the OpenAPI document, the reference and the authorization tests are generated from this
 * list.
 */
export const ROUTES: Readonly<Record<RouteName, RouteLine>> = {
  "jobs.list": {
    method: "GET",
    path: "/jobs",
    role: "viewer",
    ofUser: true,
    withBody: "jobs.search",
    about: "List jobs that match the conditions, newest first or oldest first, without payloads.",
  },
  "jobs.search": {
    method: "POST",
    path: "/jobs/search",
    role: "viewer",
    ofUser: true,
    readOnly: true,
    about: "The same as `jobs.list`, with the conditions in a body: for many ids and long values.",
  },
  "jobs.count": {
    method: "GET",
    path: "/jobs/count",
    role: "viewer",
    ofUser: true,
    withBody: "jobs.searchCount",
    about:
      "Count jobs that match the conditions. Stops at `atMost` (default 10,000; no more for the role user) and after a limited time.",
  },
  "jobs.searchCount": {
    method: "POST",
    path: "/jobs/count",
    role: "viewer",
    ofUser: true,
    readOnly: true,
    about: "The same as `jobs.count`, with the conditions in a body.",
  },
  "jobs.stats": {
    method: "GET",
    path: "/jobs/stats",
    role: "viewer",
    about:
      "Get counts by state, queue and type, and the age of the oldest due job. Lists the 200 largest queues and types by name, and adds up the others as `other`.",
  },
  "jobs.get": {
    method: "GET",
    path: "/jobs/:id",
    role: "viewer",
    ofUser: true,
    about:
      "Get a job with its payload, attempts and log. Numbers of the payload have all digits that are stored, unless a part of it is redacted.",
  },
  "jobs.explain": {
    method: "GET",
    path: "/jobs/:id/explain",
    role: "viewer",
    ofUser: true,
    about: "Explain why a job does not run, or what it does instead. The decisive reason comes first.",
  },
  "jobs.steps": {
    method: "GET",
    path: "/jobs/:id/steps",
    role: "viewer",
    about:
      "List the steps of a job, in the order in which its handler began them: at most 2,000. `total` counts all of them; a set of children has one for each.",
  },
  "jobs.enqueue": {
    method: "POST",
    path: "/jobs",
    role: "operator",
    about: "Enqueue a job. The input is validated if the server knows the job type.",
  },
  "jobs.update": {
    method: "PATCH",
    path: "/jobs/:id",
    role: "operator",
    about: "Change a pending or failed job.",
  },
  "jobs.promote": {
    method: "POST",
    path: "/jobs/:id/promote",
    role: "operator",
    about: "Make a pending or failed job due now.",
  },
  "jobs.retry": {
    method: "POST",
    path: "/jobs/:id/retry",
    role: "operator",
    ofUser: true,
    about: "Retry a failed, dead or cancelled job now.",
  },
  "jobs.cancel": {
    method: "POST",
    path: "/jobs/:id/cancel",
    role: "operator",
    ofUser: true,
    about: "Cancel a waiting job, or request cancellation of a running one.",
  },
  "jobs.rerun": {
    method: "POST",
    path: "/jobs/:id/rerun",
    role: "operator",
    about: "Enqueue a copy of a job, optionally with another input.",
  },
  "jobs.remove": {
    method: "DELETE",
    path: "/jobs/:id",
    role: "admin",
    about: "Delete a job that is not claimed or running.",
  },
  "jobs.updateMany": {
    method: "POST",
    path: "/jobs/update",
    role: "operator",
    about: "Change pending and failed jobs by ids or by filter, in the background.",
  },
  "jobs.promoteMany": {
    method: "POST",
    path: "/jobs/promote",
    role: "operator",
    about: "Make pending and failed jobs due now, by ids or by filter, in the background.",
  },
  "jobs.retryMany": {
    method: "POST",
    path: "/jobs/retry",
    role: "operator",
    about: "Retry jobs by ids or by filter, in the background.",
  },
  "jobs.cancelMany": {
    method: "POST",
    path: "/jobs/cancel",
    role: "operator",
    about: "Cancel jobs by ids or by filter, in the background.",
  },
  "jobs.removeMany": {
    method: "POST",
    path: "/jobs/delete",
    role: "admin",
    about: "Delete jobs by ids or by filter, in the background.",
  },
  "jobs.purge": {
    method: "POST",
    path: "/jobs/purge",
    role: "admin",
    about: "Delete finished jobs older than a given age, in the background.",
  },
  "jobs.preview": {
    method: "POST",
    path: "/jobs/preview",
    role: "viewer",
    readOnly: true,
    about:
      "Count the jobs that a change of many jobs would change, and those that it would skip, by state. Stops after a limited time.",
  },
  "errors.list": {
    method: "GET",
    path: "/errors",
    role: "viewer",
    about: "List groups of failed attempts with the same error, the latest first.",
  },
  "history.get": {
    method: "GET",
    path: "/history",
    role: "viewer",
    about: "Get counts, wait times and run times of the past: by minute for a day, by hour for 30 days.",
  },
  "transitions.list": {
    method: "GET",
    path: "/transitions",
    role: "viewer",
    about:
      "List the changes of state of all jobs after a cursor. Without a cursor the list is empty, and its cursor is where to begin.",
  },
  "operations.list": {
    method: "GET",
    path: "/operations",
    role: "viewer",
    about: "List background operations of all servers, newest first. Ended ones are kept for 7 days, at most 200.",
  },
  "operations.get": {
    method: "GET",
    path: "/operations/:id",
    role: "viewer",
    about: "Get the progress of a background operation.",
  },
  "operations.stop": {
    method: "POST",
    path: "/operations/:id/stop",
    role: "operator",
    about: "Stop a background operation, whichever server runs it. Changes made so far remain.",
  },
  "schedules.list": { method: "GET", path: "/schedules", role: "viewer", about: "List schedules by name." },
  "schedules.preview": {
    method: "POST",
    path: "/schedules/preview",
    role: "viewer",
    readOnly: true,
    about: "Preview the next runs of a timing without creating a schedule.",
  },
  "schedules.get": {
    method: "GET",
    path: "/schedules/:name",
    role: "viewer",
    about: "Get a schedule with its input and the outcomes of its last slots.",
  },
  "schedules.next": {
    method: "GET",
    path: "/schedules/:name/preview",
    role: "viewer",
    about: "Preview the next runs of a schedule.",
  },
  "schedules.create": { method: "POST", path: "/schedules", role: "operator", about: "Create a schedule." },
  "schedules.update": {
    method: "PUT",
    path: "/schedules/:name",
    role: "operator",
    about: "Update the given fields of a schedule.",
  },
  "schedules.remove": {
    method: "DELETE",
    path: "/schedules/:name",
    role: "operator",
    about: "Delete a schedule. Its jobs remain.",
  },
  "schedules.enable": {
    method: "POST",
    path: "/schedules/:name/enable",
    role: "operator",
    about: "Enable a schedule, starting with its next slot.",
  },
  "schedules.disable": {
    method: "POST",
    path: "/schedules/:name/disable",
    role: "operator",
    about: "Disable a schedule.",
  },
  "schedules.reset": {
    method: "POST",
    path: "/schedules/:name/reset",
    role: "operator",
    about: "Reset a schedule to its definition in code.",
  },
  "schedules.run": {
    method: "POST",
    path: "/schedules/:name/run",
    role: "operator",
    about: "Enqueue a job of a schedule now.",
  },
  "queues.list": {
    method: "GET",
    path: "/queues",
    role: "viewer",
    about: "List queues with their priorities and whether they are paused.",
  },
  "queues.pauseAll": {
    method: "POST",
    path: "/pause",
    role: "operator",
    about: "Pause all queues. Running jobs continue.",
  },
  "queues.resumeAll": {
    method: "POST",
    path: "/resume",
    role: "operator",
    about: "Resume all queues, except those that were paused one by one.",
  },
  "queues.pause": {
    method: "POST",
    path: "/queues/:queue/pause",
    role: "operator",
    about: "Pause a queue. Running jobs continue.",
  },
  "queues.resume": {
    method: "POST",
    path: "/queues/:queue/resume",
    role: "operator",
    about: "Resume a paused queue.",
  },
  "events.emit": {
    method: "POST",
    path: "/emit",
    role: "operator",
    about: "Emit an event that steps of jobs wait for, now or within its time. The first event of a name wins.",
  },
  "keys.free": {
    method: "DELETE",
    path: "/keys/:key",
    role: "operator",
    about: "Free a unique key of scope `forever` whose job was deleted.",
  },
  "workers.list": {
    method: "GET",
    path: "/workers",
    role: "viewer",
    about: "List workers with a heartbeat in the last hour.",
  },
  "workers.drain": {
    method: "POST",
    path: "/workers/:id/drain",
    role: "operator",
    about:
      "Drain a worker: it claims no more jobs, and its running jobs finish. It learns of it with its next heartbeat.",
  },
  "workers.resume": {
    method: "POST",
    path: "/workers/:id/resume",
    role: "operator",
    about: "Let a draining worker claim jobs again.",
  },
  "types.list": {
    method: "GET",
    path: "/types",
    role: "viewer",
    about: "List job types that this server or a live worker knows.",
  },
  "types.get": {
    method: "GET",
    path: "/types/:type",
    role: "viewer",
    about: "Get what this server knows of a job type: its defaults, and the JSON Schema of its input.",
  },
  "audit.list": { method: "GET", path: "/audit", role: "admin", about: "List audit entries, newest first." },
  "tokens.list": { method: "GET", path: "/tokens", role: "admin", about: "List API tokens, without their secrets." },
  "tokens.create": {
    method: "POST",
    path: "/tokens",
    role: "admin",
    about: "Create an API token. The secret is returned only once.",
  },
  "tokens.revoke": { method: "DELETE", path: "/tokens/:id", role: "admin", about: "Revoke an API token." },
  "session.get": {
    method: "GET",
    path: "/session",
    role: "viewer",
    ofUser: true,
    about: "Get the identity and role of the caller.",
  },
  "session.start": {
    method: "POST",
    path: "/session",
    role: null,
    about: "Start a session: exchange an API token for a cookie.",
  },
  "session.end": { method: "DELETE", path: "/session", role: null, about: "End the session of this browser." },
};

export type RouteName = keyof Calls;
export const ROUTE_NAMES: readonly RouteName[] = Object.keys(ROUTES) as RouteName[];

/** Whether a route reads its fields from the query. Other routes read a body. */
export function hasQuery({ method }: Pick<RouteLine, "method">): boolean {
  return method === "GET" || method === "DELETE";
}

/** Whether a call changes something. */
export function isChange({ method, readOnly }: Pick<RouteLine, "method" | "readOnly">): boolean {
  return method !== "GET" && readOnly !== true;
}

/** The parameters of a path: `id` in `/jobs/:id`. */
export function pathParameters(path: string): string[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => name as string);
}
