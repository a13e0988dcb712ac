import { Hono, type Context } from "hono";
import { getPath } from "hono/utils/url";
import { readBasePath } from "../../base-path.js";
import { callSafely } from "../../callbacks.js";
import { recordAudit } from "../../engine/client/audit.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { durationMs, lengthOf, type Duration } from "../../duration.js";
import { InvalidOptionError, StoreUnavailableError } from "../../errors.js";
import { Metrics } from "../../observe/metrics.js";
import { readCount, refuseUnknown } from "../../options.js";
import { readSessionSecret } from "../../access/session-secret.js";
import { refuseOtherSites, type Caller } from "../auth/access.js";
import { ApiError, invalidAddress } from "./api-error.js";
import { jobSummary } from "../calls/serializers.js";
import { Attempts } from "../auth/login-throttle.js";
import type { Calls, SessionResult, SummaryResult } from "../contract/api-types.js";
import { deedOf, endOf, isDeed } from "../calls/audit-entry.js";
import { Door, socketAddress, type Auth, type ClientAddress } from "../auth/authenticator.js";
import { Feed } from "../events/feed.js";
import { HANDLERS, type CallContext } from "../calls/handlers.js";
import { LaneLimit } from "../calls/lane-limit.js";
import { readInput } from "./input.js";
import { openApi, statusOf } from "../contract/openapi.js";
import { Operations } from "../calls/operations.js";
import { Outages } from "../calls/store-outages.js";
import { remembered } from "../calls/cached.js";
import { errorResponse, HEADERS, jsonResponse } from "./responses.js";
import { BASE, HEALTH_PATH, METRICS_PATH, pathBelow, READY_PATH, SUMMARY_PATH } from "../contract/routes.js";
import { latestFailures } from "./pages.js";
import { ROUTE_NAMES, ROUTES, type RouteName } from "../contract/routes.js";
import { Sessions } from "../auth/sessions.js";
import { UnderWay } from "../calls/in-flight.js";

export interface AdminOptions {
  /**
   * Who may call. `tokens` (default): who has a token, see `hf.tokens`. A function: whom it names, for an application that knows
   * its users itself; null turns a request away. `open`: whoever is on this machine and reaches it as localhost, for
   * development; and as soon as there is a token, who has one.
   */
  auth?: Auth;
  /** Signs the cookies of sessions. Left out: they end with the process, and hold on one server only. */
  sessionSecret?: string;
  /** How long a session lasts. Default 12 h. */
  sessionLength?: Duration;
  /**
   * Tokens that are not valid which one address may send in a minute, to log in or to call. Others from there are refused then without
   * asking the store; those that are right come in. Default 10.
   */
  loginAttempts?: number;
  /**
   * Streams of events that one caller may read at once: one token with its sessions, or one name that `auth` gives. More are
   * refused with 429. All callers together have 200. Default 20.
   */
  viewersPerCaller?: number;
  /**
   * Lanes, queues with a priority, that there may be for callers to make another one. Jobs for those that are there are always
   * taken, and what code makes is not limited. Default 10,000.
   */
  maxLanes?: number;
  /**
   * The address that a token comes from, of the request and of what `fetch` was given with it; null if nobody knows. Left out: that
   * of the connection, on Node's own server. Behind a proxy only the application knows which header to trust.
   */
  clientAddress?: ClientAddress;
  /** The path that the API is reached below, `/ops`, for cookies and the OpenAPI document. Requests may still have it or not. */
  basePath?: string;
  /** What `/metrics` tells. Left out: those of this client. `false`: there are none. */
  metrics?: Pick<Metrics, "text"> | false;
  /** Told of what went wrong inside. Default: the client's logger, which also gets what this one throws or rejects with. */
  onError?: (error: unknown) => unknown;
}

/** The admin API of a client: a `Request` goes in, a `Response` comes out. */
export interface Admin {
  /** `env`: what the server says of the connection, as Hono's and Node's do; see `clientAddress`. */
  readonly fetch: (request: Request, env?: unknown) => Promise<Response>;
  /** The OpenAPI document. */
  openApi(): Record<string, unknown>;
  /**
   * Ends streams and operations, and refuses further changes with 503. What was changed by then is in the audit log when this is
   * over. The client stays open: close it after this.
   */
  close(): Promise<void>;
}

const FIELDS: ReadonlySet<string> = new Set([
  "auth",
  "sessionSecret",
  "sessionLength",
  "loginAttempts",
  "viewersPerCaller",
  "maxLanes",
  "clientAddress",
  "basePath",
  "metrics",
  "onError",
]);
const READY_MS = 2_000;
const READY_FOR_MS = 1_000;
const FAILURES = 20;
/**
 * Serves a client's jobs over HTTP.
 *
 * ```ts
 * const api = admin(hf);
 * export default { fetch: (request: Request) => api.fetch(request) };
 * ```
 */
export function admin(hf: Holdfast, options: AdminOptions = {}): Admin {
  return adminOf(hf, options, { tellsOutages: true });
}

/** The same. `tellsOutages: false`: for a caller in this process that tells its errors itself. */
export function adminOf(hf: Holdfast, options: AdminOptions, { tellsOutages }: { tellsOutages: boolean }): Admin {
  refuseUnknown(options, FIELDS, "admin");
  const { logger, clock, redact, restore, events } = engineOf(hf);
  const outages = tellsOutages ? new Outages(events) : null;
  const basePath = readBasePath(options.basePath ?? "");
  const door = new Door(hf, readDoor(options, basePath));
  const operations = new Operations(() => clock.now());
  const underWay = new UnderWay();
  const lanes = new LaneLimit(hf, readCount(options.maxLanes ?? 10_000, "maxLanes", 1, 1_000_000_000));
  const feed = new Feed(hf, {
    viewersPerCaller: readCount(options.viewersPerCaller ?? 20, "viewersPerCaller", 1, 200),
  });
  const own = options.metrics === undefined ? new Metrics(hf) : null;
  const metrics = options.metrics === false ? null : (options.metrics ?? own);
  const log = (error: unknown): void => void logger.error({ error }, "the admin API failed");
  const given = options.onError ?? log;
  // Not even an onError that fails may end the process; what it was told of is in the log then.
  const onError = (error: unknown): void =>
    callSafely(
      () => given(error),
      (own) => [error, own].forEach(log),
    );
  let document: Record<string, unknown> | null = null;
  const documented = (): Record<string, unknown> => (document ??= openApi(VERSION, basePath));
  const app = new Hono({ getPath: (request) => pathBelow(basePath, getPath(request)) });

  /** `begun`: when it is written down that an operation began. It may end before. */
  const contextOf = (caller: Caller, begun: Promise<void>): CallContext => ({
    hf,
    identity: caller.identity,
    operations,
    lanes,
    redact,
    restore,
    ended: (answer, target) =>
      begun.then(() => recordAudit(engineOf(hf), endOf(answer, caller, target as object))).catch(onError),
  });

  const watched = (name: RouteName | "summary", work: () => Promise<Response>): Promise<Response> =>
    outages === null ? work() : outages.watch(name, work);

  async function call<Name extends RouteName>(name: Name, { req }: Context): Promise<Response> {
    const { raw: request } = req;
    const path = req.param() as Record<string, string>;
    if (name === "session.start") {
      refuseOtherSites(request);
      const { token } = await readInput("session.start", request, path);
      const { caller, cookies } = await door.startSession(request, token);
      return jsonResponse(sessionAnswer(caller), 200, setting(cookies));
    }
    if (name === "session.end") {
      refuseOtherSites(request);
      await readInput("session.end", request, path);
      return jsonResponse({ status: "ended" }, 200, setting(door.endSession(request)));
    }
    const caller = await door.permitted(request, ROUTES[name]);
    const input = await readInput(name, request, path);
    if (name === "session.get") return jsonResponse(sessionAnswer(caller), 200);
    const handler = HANDLERS[name as keyof typeof HANDLERS] as (
      context: CallContext,
      input: Calls[Name]["input"],
    ) => Promise<Calls[Name]["answer"]>;
    const change = async (): Promise<Calls[Name]["answer"]> => {
      let written: () => void = () => {};
      const begun = new Promise<void>((resolve) => (written = resolve));
      const answer = await handler(contextOf(caller, begun), input);
      try {
        // What was done is in the log before it is answered.
        await recordAudit(engineOf(hf), deedOf(name, caller, input, answer, redact));
      } finally {
        written();
      }
      return answer;
    };
    const answer = await (isDeed(name) ? underWay.run(change) : handler(contextOf(caller, Promise.resolve()), input));
    return jsonResponse(answer, statusOf(name));
  }

  async function summary(request: Request): Promise<Response> {
    await door.permitted(request, { role: "viewer" });
    const [stats, failures] = await Promise.all([hf.stats(), latestFailures(hf, FAILURES)]);
    const answer: SummaryResult = {
      stats: { ...stats.states, oldestDueMs: stats.oldestDueMs },
      recentFailures: failures.map(jobSummary),
    };
    return jsonResponse(answer, 200);
  }

  /** Anybody may ask, as often as they like: the store is asked once a second, also while it does not answer. */
  const storeAnswers = remembered(async () => {
    const late = new Promise<"late">((resolve) => void setTimeout(() => resolve("late"), READY_MS).unref());
    const answers = engineOf(hf)
      .store.dueSchedules(0)
      .then(
        () => (outages?.answered("look"), true),
        (error: unknown) => (outages?.failed("look", error), false),
      );
    const first = await Promise.race([answers, late]);
    if (first !== "late") return first;
    outages?.failed("look", new StoreUnavailableError(`the store has not answered for ${lengthOf(READY_MS)}`));
    return false;
  }, READY_FOR_MS);

  async function ready(): Promise<Response> {
    // Anybody may ask, so that no more is told.
    if (await storeAnswers()) return jsonResponse({ status: "ready" }, 200);
    throw new ApiError(503, "NOT_READY", "the store does not answer");
  }

  /** Every route goes through here: what is thrown is answered, and nothing is thrown. */
  async function guarded(work: () => Promise<Response>): Promise<Response> {
    try {
      return await work();
    } catch (error) {
      const known = errorResponse(error);
      if (known !== null) return known;
      onError(error);
      return jsonResponse({ error: { code: "INTERNAL", message: "the server failed; its log says why" } }, 500);
    }
  }

  const on = (method: string, path: string, work: (context: Context) => Promise<Response>): void => {
    app.on(method, path, (c) => guarded(() => work(c)));
  };
  on("GET", HEALTH_PATH, async () => jsonResponse({ status: "ok" }, 200));
  on("GET", READY_PATH, ready);
  on("GET", METRICS_PATH, async ({ req }) => {
    await door.permitted(req.raw, { role: "viewer" });
    if (metrics === null) throw new ApiError(404, "NO_METRICS", "this server keeps no metrics");
    return new Response(await metrics.text(), { headers: { ...HEADERS, "content-type": Metrics.contentType } });
  });
  on("GET", SUMMARY_PATH, ({ req }) => watched("summary", () => summary(req.raw)));
  on("GET", `${BASE}/openapi.json`, async () => jsonResponse(documented(), 200));
  for (const path of [BASE, `${BASE}/`]) on("GET", path, async () => jsonResponse(frontPage(basePath), 200));
  on("GET", `${BASE}/events`, async ({ req }) => {
    const { tokenId, identity } = await door.permitted(req.raw, { role: "viewer" });
    // To the routing HEAD is GET without a body; a viewer that reads nothing would stay for long.
    if (req.method === "HEAD")
      return new Response(null, { headers: { ...HEADERS, "content-type": "text/event-stream" } });
    return new Response(feed.open(tokenId ?? identity.name), {
      headers: { ...HEADERS, "content-type": "text/event-stream", "x-accel-buffering": "no" },
    });
  });
  for (const name of ROUTE_NAMES) {
    const { method, path } = ROUTES[name];
    on(method, `${BASE}${path}`, (c) => watched(name, () => call(name, c)));
  }
  app.notFound(({ req }) => guarded(() => noRoute(req.method, req.path)));

  return {
    async fetch(request, env) {
      door.arrived(request, env);
      // As it stands, it would mean something else than what was sent, or nothing.
      if (!isWellEncoded(request.url)) return guarded(async () => Promise.reject(malformed()));
      return app.fetch(request, env);
    },
    openApi: documented,
    async close() {
      feed.close();
      own?.stop();
      // A change under way may begin an operation yet.
      await underWay.close();
      await operations.close();
    },
  };
}

function readDoor(options: AdminOptions, basePath: string): ConstructorParameters<typeof Door>[1] {
  const { auth = "tokens", sessionSecret = null, clientAddress = socketAddress } = options;
  if (auth !== "tokens" && auth !== "open" && typeof auth !== "function") {
    throw new InvalidOptionError("auth", 'is none of "tokens", "open", a function');
  }
  const secret = sessionSecret === null ? null : readSessionSecret(sessionSecret, "sessionSecret");
  if (typeof clientAddress !== "function") throw new InvalidOptionError("clientAddress", "must be a function");
  const lengthMs = durationMs(options.sessionLength ?? "12h", "sessionLength");
  const attempts = new Attempts(readCount(options.loginAttempts ?? 10, "loginAttempts", 1, 10_000));
  return { auth, sessions: new Sessions({ secret, lengthMs }), attempts, clientAddress, basePath };
}

/** The version of the API's description. */
const VERSION = "1.0.0";

/** What whoever opens the address that the command prints finds there: where to go on, and nothing of jobs. */
function frontPage(basePath: string): object {
  const links = { openapi: `${BASE}/openapi.json`, health: HEALTH_PATH, ready: READY_PATH, metrics: METRICS_PATH };
  const below = Object.entries(links).map(([name, path]) => [name, `${basePath}${path}`]);
  return { name: "Holdfast admin API", version: VERSION, links: Object.fromEntries(below) as object };
}

/** Whether all escapes in an address stand for something. */
function isWellEncoded(url: string): boolean {
  try {
    decodeURIComponent(url);
    return true;
  } catch {
    return false;
  }
}

function malformed(): ApiError {
  return invalidAddress("it has a % that begins no escape, or escapes that are not UTF-8");
}

async function noRoute(method: string, path: string): Promise<never> {
  const others = ROUTE_NAMES.map((name) => ROUTES[name]).filter((line) =>
    new RegExp(`^${BASE}${line.path.replaceAll(/:\w+/g, "[^/]+")}$`).test(path),
  );
  if (others.length === 0) throw new ApiError(404, "ROUTE_NOT_FOUND", `there is nothing at ${path.slice(0, 200)}`);
  const allow = [...new Set(others.map((line) => line.method))].join(", ");
  throw new ApiError(405, "METHOD_NOT_ALLOWED", `${method} is not for this route; ${allow} is`, { headers: { allow } });
}

function setting(cookies: readonly string[]): Headers {
  return new Headers(cookies.map((cookie): [string, string] => ["set-cookie", cookie]));
}

function sessionAnswer({ identity: { name, role, user }, sessionEndsAt }: Caller): SessionResult {
  return { name, role, user, expiresAt: sessionEndsAt === null ? null : new Date(sessionEndsAt).toISOString() };
}
