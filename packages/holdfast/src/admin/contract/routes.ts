import type { Role } from "../../access/roles.js";
import type { Calls } from "./api-types.js";

/** Where the API stands. */
export const BASE = "/api/admin";
export const SUMMARY_PATH = "/api/v1/admin/jobs";
export const METRICS_PATH = "/metrics";
/** The places that ask who calls: a session's cookie goes to these and no others. */
export const PLACES: readonly string[] = [BASE, SUMMARY_PATH, METRICS_PATH];
export const HEALTH_PATH = "/healthz";
export const READY_PATH = "/readyz";

/** The header that tells an answer of Holdfast's from one of whatever stands before it. */
export const MARK = "x-holdfast";

/** A path without the one that the API stands below, where it has that. Some that mount it take it away, others do not. */
export function pathBelow(basePath: string, path: string): string {
  const isOwn =
    path.startsWith(`${BASE}/`) || [BASE, SUMMARY_PATH, METRICS_PATH, HEALTH_PATH, READY_PATH].includes(path);
  return !isOwn && path.startsWith(`${basePath}/`) ? path.slice(basePath.length) : path;
}

/** One route of the API. What goes in and comes out is in `Calls`; schemas that check it are in `shapes.ts`. */
export interface RouteLine {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Below `/api/admin`. */
  path: `/${string}`;
  /** The least role that may call it; `null`: anybody, also without a token. */
  role: Role | null;
  /** A token that is bound to a user may call it too, and sees and touches only that user's jobs. */
  ofUser?: true;
  /** What it is for, in one sentence. */
  about: string;
}

/**
 * Every route that answers JSON. The server, the OpenAPI document, the client and the tests of who may do what are made of
 * this one list.
 */
export const ROUTES: Readonly<Record<RouteName, RouteLine>> = {
  "jobs.list": {
    method: "GET",
    path: "/jobs",
    role: "viewer",
    ofUser: true,
    about: "Jobs that match, newest first, without their payloads.",
  },
  "jobs.stats": {
    method: "GET",
    path: "/jobs/stats",
    role: "viewer",
    about:
      "Counts by state, queue and type, and the age of the oldest due job. The 200 queues and types with the most jobs by name, the rest as `other`.",
  },
  "jobs.get": {
    method: "GET",
    path: "/jobs/:id",
    role: "viewer",
    ofUser: true,
    about: "A job with its payload, history and log.",
  },
  "jobs.enqueue": {
    method: "POST",
    path: "/jobs",
    role: "operator",
    about: "Adds a job. The input is checked if the server knows the type.",
  },
  "jobs.retry": {
    method: "POST",
    path: "/jobs/:id/retry",
    role: "operator",
    ofUser: true,
    about: "Runs a dead or cancelled job again, or a failed one now.",
  },
  "jobs.cancel": {
    method: "POST",
    path: "/jobs/:id/cancel",
    role: "operator",
    ofUser: true,
    about: "Cancels a job that waits, or asks a running one to stop.",
  },
  "jobs.rerun": {
    method: "POST",
    path: "/jobs/:id/rerun",
    role: "operator",
    about: "Adds a new job like an old one, with another input if one is given.",
  },
  "jobs.remove": { method: "DELETE", path: "/jobs/:id", role: "admin", about: "Deletes a job that is not running." },
  "jobs.retryMany": {
    method: "POST",
    path: "/jobs/retry",
    role: "operator",
    about: "Retries jobs by their ids or by a filter, in the background.",
  },
  "jobs.cancelMany": {
    method: "POST",
    path: "/jobs/cancel",
    role: "operator",
    about: "Cancels jobs by their ids or by a filter, in the background.",
  },
  "jobs.removeMany": {
    method: "POST",
    path: "/jobs/delete",
    role: "admin",
    about: "Deletes jobs by their ids or by a filter, in the background.",
  },
  "jobs.purge": {
    method: "POST",
    path: "/jobs/purge",
    role: "admin",
    about: "Deletes finished jobs that ended long enough ago, in the background.",
  },
  "operations.list": {
    method: "GET",
    path: "/operations",
    role: "viewer",
    about: "Background operations of this server, newest first.",
  },
  "operations.get": {
    method: "GET",
    path: "/operations/:id",
    role: "viewer",
    about: "How far a background operation is.",
  },
  "operations.stop": {
    method: "POST",
    path: "/operations/:id/stop",
    role: "operator",
    about: "Stops a background operation; what it has changed stays changed.",
  },
  "schedules.list": { method: "GET", path: "/schedules", role: "viewer", about: "Schedules by name." },
  "schedules.preview": {
    method: "POST",
    path: "/schedules/preview",
    role: "viewer",
    about: "The next runs of a timing that is only thought of.",
  },
  "schedules.get": {
    method: "GET",
    path: "/schedules/:name",
    role: "viewer",
    about: "A schedule with what became of its last slots.",
  },
  "schedules.next": {
    method: "GET",
    path: "/schedules/:name/preview",
    role: "viewer",
    about: "The next runs of a schedule.",
  },
  "schedules.create": { method: "POST", path: "/schedules", role: "operator", about: "Makes a schedule." },
  "schedules.update": {
    method: "PUT",
    path: "/schedules/:name",
    role: "operator",
    about: "Changes what is given of a schedule and leaves the rest.",
  },
  "schedules.remove": {
    method: "DELETE",
    path: "/schedules/:name",
    role: "operator",
    about: "Deletes a schedule; its jobs stay.",
  },
  "schedules.enable": {
    method: "POST",
    path: "/schedules/:name/enable",
    role: "operator",
    about: "Lets a schedule run again, from now on.",
  },
  "schedules.disable": {
    method: "POST",
    path: "/schedules/:name/disable",
    role: "operator",
    about: "Lets a schedule rest.",
  },
  "schedules.reset": {
    method: "POST",
    path: "/schedules/:name/reset",
    role: "operator",
    about: "Takes back what was changed over the definition in code.",
  },
  "schedules.run": {
    method: "POST",
    path: "/schedules/:name/run",
    role: "operator",
    about: "Makes a job of a schedule now.",
  },
  "queues.list": {
    method: "GET",
    path: "/queues",
    role: "viewer",
    about: "Queues with their priorities, and whether they are paused.",
  },
  "queues.pause": {
    method: "POST",
    path: "/queues/:queue/pause",
    role: "operator",
    about: "Stops the claiming from a queue; jobs under way go on.",
  },
  "queues.resume": {
    method: "POST",
    path: "/queues/:queue/resume",
    role: "operator",
    about: "Lets workers claim from a queue again.",
  },
  "workers.list": { method: "GET", path: "/workers", role: "viewer", about: "Workers heard of in the last hour." },
  "types.list": {
    method: "GET",
    path: "/types",
    role: "viewer",
    about: "Job types that this server or a live worker knows.",
  },
  "audit.list": { method: "GET", path: "/audit", role: "admin", about: "Who changed what and when, newest first." },
  "tokens.list": { method: "GET", path: "/tokens", role: "admin", about: "Tokens, without their secrets." },
  "tokens.create": {
    method: "POST",
    path: "/tokens",
    role: "admin",
    about: "Makes a token. Its text is told this once.",
  },
  "tokens.revoke": { method: "DELETE", path: "/tokens/:id", role: "admin", about: "Makes a token worthless." },
  "session.get": {
    method: "GET",
    path: "/session",
    role: "viewer",
    ofUser: true,
    about: "Who is asking, and what they may do.",
  },
  "session.start": { method: "POST", path: "/session", role: null, about: "Exchanges a token for a session cookie." },
  "session.end": { method: "DELETE", path: "/session", role: null, about: "Ends the session of this browser." },
};

export type RouteName = keyof Calls;
export const ROUTE_NAMES: readonly RouteName[] = Object.keys(ROUTES) as RouteName[];

/** Names of the parts of a path that stand for something: `id` of `/jobs/:id`. */
export function pathParts(path: string): string[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => name as string);
}
