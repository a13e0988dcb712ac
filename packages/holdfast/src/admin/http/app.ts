import { Hono, type Context } from "hono";
import { getPath } from "hono/utils/url";
import { readBasePath } from "../../base-path.js";
import { callSafely } from "../../callbacks.js";
import { recordAudit } from "../../engine/client/audit.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { durationMs, lengthOf, type Duration } from "../../duration.js";
import { InvalidOptionError, StoreUnavailableError } from "../../errors.js";
import { Metrics } from "../../observe/metrics.js";
import { optionKeys, readCount, refuseUnknown } from "../../options.js";
import { readSessionSecret } from "../../access/session-secret.js";
import type { Caller } from "../auth/credentials.js";
import { rejectCrossSite } from "../auth/request-origin.js";
import { ApiError, INTERNAL_ERROR, invalidUrl } from "./api-error.js";
import { jobSummary } from "../calls/serializers.js";
import { LoginThrottle } from "../auth/login-throttle.js";
import type { Calls, SessionResult, SummaryResult } from "../contract/api-types.js";
import { auditEntryFor, isAudited } from "../calls/audit-entry.js";
import {
  Authenticator,
  socketAddress,
  type Auth,
  type AuthenticatorOptions,
  type ClientAddress,
} from "../auth/authenticator.js";
import { assetResponse, isAsset, isView, pageResponse, wantsPage } from "../dashboard/dashboard.js";
import { Feed } from "../events/feed.js";
import type { CallContext } from "../calls/call-context.js";
import { HANDLERS } from "../calls/handlers.js";
import { LaneLimit } from "../calls/lane-limit.js";
import { readInput } from "./input.js";
import { openApi, statusOf } from "../contract/openapi.js";
import { OPERATION_LEASE_MS, Operations, type OperationsOptions } from "../calls/operations.js";
import { RecentStats } from "../calls/recent-stats.js";
import { maxAgeOf, SharedReads } from "../calls/shared-reads.js";
import { StoreOutages } from "../calls/store-outages.js";
import { cached } from "../calls/cached.js";
import { errorResponse, HEADERS, jsonResponse } from "./responses.js";
import {
  BASE,
  HEALTH_PATH,
  HOLDFAST_HEADER,
  METRICS_PATH,
  READY_PATH,
  SUMMARY_PATH,
  TIME_HEADER,
} from "../contract/routes.js";
import { latestFailures } from "./list-paging.js";
import { ROUTE_NAMES, ROUTES, type RouteName } from "../contract/routes.js";
import { pathBelow } from "./path-below.js";
import { Sessions } from "../auth/sessions.js";
import { InFlightChanges } from "../calls/in-flight.js";

export interface AdminOptions {
  /**
   * How callers authenticate. `tokens` (default): with an API token, see `hf.tokens`. A function: for an application with its own
   * users; it returns the identity of the caller, null to reject the request, or `"tokens"` to require an API token for it. `open`: for
   * development; requests from localhost need no authentication until the first API token exists.
   */
  auth?: Auth;
  /** Signs session cookies. Without it, sessions end when the process ends and are valid on one server only. */
  sessionSecret?: string;
  /** How long a session lasts. Default 12 h. */
  sessionLength?: Duration;
  /**
   * Invalid tokens allowed per client address per minute. Further ones are rejected without a read of the store. Valid tokens are
   * always accepted. Default 10.
   */
  loginAttempts?: number;
  /**
   * Concurrent event streams per caller: per token with its sessions, or per name that `auth` returns. More are rejected with
   * 429. The limit for all callers together is 200. Default 20.
   */
  streamsPerCaller?: number;
  /**
   * Callers cannot create a new lane (a pair of queue and priority) while this many exist. Jobs for existing lanes are always
   * accepted, and code is not limited. Default 10,000.
   */
  maxLanes?: number;
  /**
   * Returns the client address of a request, for `loginAttempts`; null: unknown. `env` is the second argument of `fetch`. Default: the
   * remote address of the connection on Node's server. Behind a proxy, read the header that your proxy sets.
   */
  clientAddress?: ClientAddress;
  /** The path that the API is mounted under, e.g. `/ops`. Used for cookies and the OpenAPI document; requests may include it or not. */
  basePath?: string;
  /** What `/metrics` returns. Default: metrics of this client. `false`: no metrics. */
  metrics?: Pick<Metrics, "text"> | false;
  /** Serve the dashboard to browsers at `/` and below, next to the API. Default: true. */
  dashboard?: boolean;
  /** Called with internal errors. Default: logs them. If it throws or rejects, both errors are logged. */
  onError?: (error: unknown) => unknown;
}

/** The admin API: a function from `Request` to `Response`. */
export interface Admin {
  /** `env`: connection details from the server, as Hono and `nodeListener` pass them; see `clientAddress`. */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>;
  /** The OpenAPI document. */
  openApi(): Record<string, unknown>;
  /**
   * Ends event streams, rejects further changes with 503, and releases operations, which other servers on the store continue.
   * Resolves when all changes are in the audit log. Does not close the client: do that afterwards.
   */
  close(): Promise<void>;
}

const FIELDS: ReadonlySet<string> = optionKeys<AdminOptions>({
  auth: true,
  sessionSecret: true,
  sessionLength: true,
  loginAttempts: true,
  streamsPerCaller: true,
  maxLanes: true,
  clientAddress: true,
  basePath: true,
  metrics: true,
  dashboard: true,
  onError: true,
});
const READY_TIMEOUT_MS = 2_000;
const READY_CACHE_MS = 1_000;
const RECENT_FAILURES = 20;

/**
 * Creates the admin API of a client.
 *
 * ```ts
 * const api = admin(hf);
 * export default { fetch: (request: Request) => api.fetch(request) };
 * ```
 */
export function admin(hf: Holdfast, options: AdminOptions = {}): Admin {
  return adminOf(hf, options);
}

/** What the CLI and tests change. */
interface OwnOptions extends Partial<OperationsOptions> {
  /** False: for the CLI, which prints the errors of its own calls. */
  emitOutages?: boolean;
}

export function adminOf(hf: Holdfast, options: AdminOptions, { emitOutages = true, ...own }: OwnOptions = {}): Admin {
  refuseUnknown(options, FIELDS, "admin");
  const { logger, redact, restore, events } = engineOf(hf);
  const outages = emitOutages ? new StoreOutages(events) : null;
  const basePath = readBasePath(options.basePath ?? "");
  const authenticator = new Authenticator(hf, readAuthOptions(options, basePath));
  const inFlight = new InFlightChanges();
  const lanes = new LaneLimit(hf, readCount(options.maxLanes ?? 10_000, "maxLanes", 1, 1_000_000_000));
  const stats = new RecentStats(hf);
  const shared = new SharedReads();
  const feed = new Feed(hf, {
    streamsPerCaller: readCount(options.streamsPerCaller ?? 20, "streamsPerCaller", 1, 200),
    redact,
    isMetered: engineOf(hf).store.capabilities.metered,
    stats,
  });
  const ownMetrics = options.metrics === undefined ? new Metrics(hf) : null;
  const metrics = options.metrics === false ? null : (options.metrics ?? ownMetrics);
  const log = (error: unknown): void => void logger.error({ error }, "the admin API failed");
  const report = options.onError ?? log;
  // A failing onError must not end the process; log both errors instead.
  const onError = (error: unknown): void =>
    callSafely(
      () => report(error),
      (thrown) => [error, thrown].forEach(log),
    );
  const operations = new Operations(hf, { leaseMs: OPERATION_LEASE_MS, isServer: true, ...own }, onError);
  let document: Record<string, unknown> | null = null;
  const openApiDocument = (): Record<string, unknown> => (document ??= openApi(VERSION, basePath));
  const app = new Hono({ getPath: (request) => pathBelow(basePath, getPath(request)) });

  /** `startRecorded`: an operation may end before its start is in the audit log; its end is recorded after that. */
  const contextOf = (caller: Caller, startRecorded: Promise<void>, maxAgeMs: number): CallContext => ({
    hf,
    caller,
    startRecorded,
    stats,
    maxAgeMs,
    identity: caller.identity,
    operations,
    lanes,
    redact,
    restore,
  });

  const watchOutages = (name: RouteName | "summary", work: () => Promise<Response>): Promise<Response> =>
    outages === null ? work() : outages.watch(name, work);

  async function call<Name extends RouteName>(name: Name, { req }: Context): Promise<Response> {
    const { raw: request } = req;
    const path = req.param() as Record<string, string>;
    if (name === "session.start") {
      rejectCrossSite(request);
      const { token } = await readInput("session.start", request, path);
      const { caller, cookies } = await authenticator.startSession(request, token);
      return jsonResponse(sessionResult(caller), 200, cookieHeaders(cookies));
    }
    if (name === "session.end") {
      rejectCrossSite(request);
      await readInput("session.end", request, path);
      return jsonResponse({ status: "ended" }, 200, cookieHeaders(authenticator.endSession(request)));
    }
    const caller = await authenticator.authorize(request, ROUTES[name]);
    const input = await readInput(name, request, path);
    if (name === "session.get") return jsonResponse(sessionResult(caller), 200);
    const handler = HANDLERS[name as keyof typeof HANDLERS] as (
      context: CallContext,
      input: Calls[Name]["input"],
    ) => Promise<Calls[Name]["result"]>;
    const change = async (): Promise<Calls[Name]["result"]> => {
      let recorded: () => void = () => {};
      const startRecorded = new Promise<void>((resolve) => (recorded = resolve));
      try {
        const result = await handler(contextOf(caller, startRecorded, 0), input);
        // Recorded before the response is sent.
        await recordAudit(engineOf(hf), auditEntryFor(name, caller, input, result, redact));
        return result;
      } finally {
        recorded();
        shared.forget();
        stats.forget();
      }
    };
    // Callers who see only some jobs share nothing.
    const maxAgeMs = caller.identity.user === null ? maxAgeOf(request) : 0;
    const result = await (isAudited(name)
      ? inFlight.run(change)
      : shared.read(name, input, maxAgeMs, () => handler(contextOf(caller, Promise.resolve(), maxAgeMs), input)));
    return jsonResponse(result, statusOf(name));
  }

  async function summary(request: Request): Promise<Response> {
    await authenticator.authorize(request, { role: "viewer" });
    const [stats, paused, failures] = await Promise.all([
      hf.stats(),
      hf.isPaused(),
      latestFailures(engineOf(hf), RECENT_FAILURES),
    ]);
    const result: SummaryResult = {
      stats: { ...stats.states, oldestDueMs: stats.oldestDueMs, paused },
      recentFailures: failures.map((job) => jobSummary(job, redact)),
    };
    return jsonResponse(result, 200);
  }

  /** This route needs no authentication, so the store is queried at most once per second, even while it does not respond. */
  const storeResponds = cached(async () => {
    const late = new Promise<"late">((resolve) => void setTimeout(() => resolve("late"), READY_TIMEOUT_MS).unref());
    const response = engineOf(hf)
      .store.dueSchedules(0)
      .then(
        () => (outages?.succeeded("read"), true),
        (error: unknown) => (outages?.failed("read", error), false),
      );
    const first = await Promise.race([response, late]);
    if (first !== "late") return first;
    outages?.failed("read", new StoreUnavailableError(`the store has not responded for ${lengthOf(READY_TIMEOUT_MS)}`));
    return false;
  }, READY_CACHE_MS);

  async function ready(): Promise<Response> {
    // No authentication here, so the response has no details.
    if (await storeResponds()) return jsonResponse({ status: "ready" }, 200);
    throw new ApiError(503, "NOT_READY", "the store does not respond");
  }

  /** Wraps every route: turns errors into responses and never throws. */
  async function guarded(work: () => Promise<Response>): Promise<Response> {
    try {
      return await work();
    } catch (error) {
      const known = errorResponse(error);
      if (known !== null) return known;
      onError(error);
      return jsonResponse({ error: { code: "INTERNAL_ERROR", message: INTERNAL_ERROR } }, 500);
    }
  }

  const on = (method: string, path: string, work: (context: Context) => Promise<Response>): void => {
    app.on(method, path, (c) => guarded(() => work(c)));
  };
  on("GET", HEALTH_PATH, async () => jsonResponse({ status: "ok" }, 200));
  on("GET", READY_PATH, ready);
  on("GET", METRICS_PATH, async ({ req }) => {
    await authenticator.authorize(req.raw, { role: "viewer" });
    if (metrics === null) throw new ApiError(404, "METRICS_DISABLED", "metrics are disabled on this server");
    return new Response(await metrics.text(), { headers: { ...HEADERS, "content-type": Metrics.contentType } });
  });
  on("GET", SUMMARY_PATH, ({ req }) => watchOutages("summary", () => summary(req.raw)));
  on("GET", `${BASE}/openapi.json`, async () => jsonResponse(openApiDocument(), 200));
  for (const path of [BASE, `${BASE}/`]) on("GET", path, async () => jsonResponse(indexPage(basePath), 200));
  on("GET", `${BASE}/events`, async ({ req }) => {
    const viewer = { role: "viewer" } as const;
    const caller = await authenticator.authorize(req.raw, viewer);
    const { tokenId, identity, sessionEndsAt } = caller;
    // Hono routes HEAD requests here too. A stream that is never read would stay open for minutes.
    if (req.method === "HEAD")
      return new Response(null, { headers: { ...HEADERS, "content-type": "text/event-stream" } });
    const body = feed.open(tokenId ?? identity.name, {
      maxMs: sessionEndsAt === null ? null : sessionEndsAt - engineOf(hf).clock.now(),
      isAuthorized: () => authenticator.isStillAuthorized(caller, viewer),
    });
    return new Response(body, {
      headers: {
        ...HEADERS,
        "content-type": "text/event-stream",
        // Middleware that compresses would hold events back.
        "cache-control": "no-store, no-transform",
        "x-accel-buffering": "no",
      },
    });
  });
  const { dashboard = true } = options;
  if (typeof dashboard !== "boolean") throw new InvalidOptionError("dashboard", "must be true or false");
  if (dashboard) {
    // Anyone may load the page: it contains no data. Its calls are authenticated.
    app.get("*", async ({ req }, next) => {
      const { raw: request, path } = req;
      if (isAsset(path)) return guarded(() => assetResponse(request, path));
      // Without a redirect to the path with a slash at its end: Next.js redirects from there to this one.
      const isPage = isView(path) || path === basePath;
      if (!isPage || !wantsPage(request)) return next();
      return guarded(() => pageResponse(basePath, path));
    });
  }
  for (const name of ROUTE_NAMES) {
    const { method, path } = ROUTES[name];
    on(method, `${BASE}${path}`, (c) => watchOutages(name, () => call(name, c)));
  }
  app.notFound(({ req }) => guarded(() => rejectUnrouted(req.method, req.path)));

  return {
    async fetch(request, env) {
      authenticator.registerRequest(request, env);
      // Reject invalid percent-encoding: the router would decode it to something that the client did not send.
      if (!isWellEncoded(request.url))
        return guarded(async () => Promise.reject(invalidUrl("invalid percent-encoding")));
      const response = await app.fetch(request, env);
      if (response.headers.has(HOLDFAST_HEADER)) response.headers.set(TIME_HEADER, String(engineOf(hf).clock.now()));
      return response;
    },
    openApi: openApiDocument,
    async close() {
      feed.close();
      ownMetrics?.stop();
      // First, because a change in flight may still start an operation.
      await inFlight.close();
      await operations.close();
    },
  };
}

function readAuthOptions(options: AdminOptions, basePath: string): AuthenticatorOptions {
  const { auth = "tokens", sessionSecret = null, clientAddress = socketAddress } = options;
  if (auth !== "tokens" && auth !== "open" && typeof auth !== "function") {
    throw new InvalidOptionError("auth", 'must be "tokens", "open" or a function');
  }
  const secret = sessionSecret === null ? null : readSessionSecret(sessionSecret, "sessionSecret");
  if (typeof clientAddress !== "function") throw new InvalidOptionError("clientAddress", "must be a function");
  const lengthMs = durationMs(options.sessionLength ?? "12h", "sessionLength");
  const throttle = new LoginThrottle(readCount(options.loginAttempts ?? 10, "loginAttempts", 1, 10_000));
  return { auth, sessions: new Sessions({ secret, lengthMs }), throttle, clientAddress, basePath };
}

/** The version of the OpenAPI document. */
const VERSION = "1.0.0";

/** The response at the URL that `holdfast serve` prints: links, and nothing about jobs. */
function indexPage(basePath: string): object {
  const links = { openapi: `${BASE}/openapi.json`, health: HEALTH_PATH, ready: READY_PATH, metrics: METRICS_PATH };
  const withBase = Object.entries(links).map(([name, path]) => [name, `${basePath}${path}`]);
  return { name: "Holdfast admin API", version: VERSION, links: Object.fromEntries(withBase) as object };
}

function isWellEncoded(url: string): boolean {
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

async function rejectUnrouted(method: string, path: string): Promise<never> {
  const matches = ROUTE_NAMES.map((name) => ROUTES[name]).filter((route) =>
    new RegExp(`^${BASE}${route.path.replaceAll(/:\w+/g, "[^/]+")}$`).test(path),
  );
  if (matches.length === 0) throw new ApiError(404, "ROUTE_NOT_FOUND", `no route at ${path.slice(0, 200)}`);
  const allow = [...new Set(matches.map((route) => route.method))].join(", ");
  throw new ApiError(405, "METHOD_NOT_ALLOWED", `method ${method} not allowed; use ${allow}`, { headers: { allow } });
}

function cookieHeaders(cookies: readonly string[]): Headers {
  return new Headers(cookies.map((cookie): [string, string] => ["set-cookie", cookie]));
}

function sessionResult({ identity: { name, role, user }, sessionEndsAt }: Caller): SessionResult {
  return { name, role, user, expiresAt: sessionEndsAt === null ? null : new Date(sessionEndsAt).toISOString() };
}
