import { Hono, type Context } from "hono";
import { Holdfast } from "../engine/holdfast.js";
import { durationMs, type Duration } from "../duration.js";
import { InvalidOption } from "../errors.js";
import { Metrics } from "../observe/metrics.js";
import { readCount, refuseUnknown } from "../options.js";
import { callerOf, identityOf, refuseOtherHosts, refuseOtherSites, type Caller } from "./access.js";
import { answerTo, ApiError } from "./api-error.js";
import { jobSummary } from "./answers.js";
import type { Calls, OperationAnswer, SessionAnswer, SummaryAnswer } from "./calls.js";
import { Feed } from "./feed.js";
import { HANDLERS, type CallContext } from "./handlers.js";
import { mayCall, readIdentity, type Identity } from "./identity.js";
import { readInput } from "./input.js";
import { openApi, statusOf } from "./openapi.js";
import { Operations } from "./operations.js";
import { BASE, pathParts, ROUTE_NAMES, ROUTES, SUMMARY_PATH, type RouteName } from "./routes.js";
import { Attempts, Sessions, setCookie } from "./sessions.js";

export interface AdminOptions {
  /**
   * Who may call. `tokens` (default): who has a token, see `hf.tokens`. A function: whom it names, for an application that knows
   * its users itself; null turns a request away. `open`: anybody who reaches it as localhost; for development.
   */
  auth?: "tokens" | "open" | ((request: Request) => Identity | null | Promise<Identity | null>);
  /** Signs the cookies of sessions. Left out: they end with the process, and hold on one server only. */
  sessionSecret?: string;
  /** How long a session lasts. Default 12 h. */
  sessionLength?: Duration;
  /** Failed logins that one address has a minute. Default 10. */
  loginAttempts?: number;
  /** What `/metrics` tells. Left out: those of this client. `false`: there are none. */
  metrics?: Pick<Metrics, "text"> | false;
  /** Told of what went wrong inside. Default: the client's logger. */
  onError?: (error: unknown) => void;
}

/** The admin API of a client: a `Request` goes in, a `Response` comes out. */
export interface Admin {
  fetch(request: Request, env?: unknown): Promise<Response>;
  /** The OpenAPI document. */
  openApi(): Record<string, unknown>;
  /** Ends streams and operations. The client stays open. */
  close(): Promise<void>;
}

const FIELDS: ReadonlySet<string> = new Set([
  "auth",
  "sessionSecret",
  "sessionLength",
  "loginAttempts",
  "metrics",
  "onError",
]);
const READY_MS = 2_000;
const FAILURES = 20;
/** A page that somebody makes of an answer can load nothing, run nothing and be framed by nobody. */
const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

/** The identity of everybody where no token is asked for. */
const LOCAL: Identity = { name: "local", role: "admin", user: null };

/**
 * Serves a client's jobs over HTTP.
 *
 * ```ts
 * const api = admin(hf);
 * export default { fetch: (request: Request) => api.fetch(request) };
 * ```
 */
export function admin(hf: Holdfast, options: AdminOptions = {}): Admin {
  refuseUnknown(options, FIELDS, "admin");
  const { auth = "tokens", sessionSecret = null } = options;
  if (auth !== "tokens" && auth !== "open" && typeof auth !== "function") {
    throw new InvalidOption("auth", 'is none of "tokens", "open", a function');
  }
  if (sessionSecret !== null && (typeof sessionSecret !== "string" || sessionSecret.length < 32)) {
    throw new InvalidOption("sessionSecret", "must be a text of at least 32 characters");
  }
  const { logger, clock, redact } = Holdfast.coreOf(hf);
  const lengthMs = durationMs(options.sessionLength ?? "12h", "sessionLength");
  const sessions = new Sessions({ secret: sessionSecret, lengthMs });
  const attempts = new Attempts(readCount(options.loginAttempts ?? 10, "loginAttempts", 1, 10_000));
  const operations = new Operations(() => clock.now());
  const feed = new Feed(hf);
  const own = options.metrics === undefined ? new Metrics(hf) : null;
  const metrics = options.metrics === false ? null : (options.metrics ?? own);
  const onError = options.onError ?? ((error) => logger.error({ error }, "the admin API failed"));
  const document = openApi(VERSION);
  const app = new Hono();

  async function known(request: Request): Promise<Caller | null> {
    refuseOtherSites(request);
    if (auth === "tokens") return callerOf(request, hf, sessions);
    if (auth === "open") refuseOtherHosts(request);
    const identity = auth === "open" ? LOCAL : await named(auth, request);
    return identity === null ? null : { identity, sessionEndsAt: null };
  }

  /** Whoever calls, if they may. */
  async function permitted(request: Request, line: Parameters<typeof mayCall>[1]): Promise<Caller> {
    const caller = await known(request);
    if (caller === null) {
      throw new ApiError(401, "NOT_KNOWN", "send a token that is valid: authorization: Bearer hf_…", {
        headers: { "www-authenticate": "Bearer" },
      });
    }
    if (mayCall(caller.identity, line)) return caller;
    const { role } = caller.identity;
    throw new ApiError(403, "NOT_ALLOWED", `the role ${role} may not do this; it takes ${line.role ?? "none"}`);
  }

  /** What was done is in the log before it is answered. */
  async function wroteDown(name: RouteName, { name: actor }: Identity, input: object, answer: object): Promise<void> {
    const inPath = pathParts(ROUTES[name].path)[0];
    const fields = input as Record<string, unknown>;
    const made = (answer as { id?: unknown }).id;
    const operation = "looked" in answer ? (answer as OperationAnswer) : null;
    const target =
      inPath === undefined ? (operation === null ? made : (fields["filter"] ?? fields["ids"])) : fields[inPath];
    const { token: _token, ...given } = Object.fromEntries(
      Object.entries(fields).filter(([field]) => field !== inPath),
    );
    const detail = redact({
      ...given,
      ...(operation !== null && { operation: operation.id }),
      ...(operation === null && inPath !== undefined && typeof made === "string" && made !== target && { made }),
    });
    await hf.audit.record({
      actor,
      action: name,
      target: target ?? fields["name"] ?? null,
      count: operation === null && (answer as { duplicate?: unknown }).duplicate !== true ? 1 : 0,
      detail,
    });
  }

  /** `begun`: when it is written down that an operation began. It may end before. */
  const context = (identity: Identity, begun: Promise<void>): CallContext => ({
    hf,
    identity,
    operations,
    redact,
    ended(answer, target) {
      const { actor, action, state, changed: count, error } = answer;
      const detail = { operation: answer.id, state, ...(error !== null && { error }) };
      const deed = { actor, action: `operation.${action}`, target: target as object, count, detail };
      return begun.then(() => hf.audit.record(deed)).catch(onError);
    },
  });

  async function call<Name extends RouteName>(
    name: Name,
    request: Request,
    path: Record<string, string>,
    from: string,
  ): Promise<Response> {
    const line = ROUTES[name];
    if (name === "session.start") {
      refuseOtherSites(request);
      return startSession(request, (await readInput("session.start", request, path)).token, from);
    }
    if (name === "session.end") {
      refuseOtherSites(request);
      return answered({ status: "ended" }, 200, { "set-cookie": cookie(request, "", 0) });
    }
    const caller = await permitted(request, line);
    if (name === "session.get") return answered(sessionAnswer(caller), 200);
    const input = await readInput(name, request, path);
    const handler = HANDLERS[name as keyof typeof HANDLERS] as (
      context: CallContext,
      input: Calls[Name]["input"],
    ) => Promise<Calls[Name]["answer"]>;
    let written: () => void = () => {};
    const begun = new Promise<void>((resolve) => (written = resolve));
    const answer = await handler(context(caller.identity, begun), input);
    const changes = line.method !== "GET" && name !== "schedules.preview";
    try {
      if (changes) await wroteDown(name, caller.identity, input, answer);
    } finally {
      written();
    }
    return answered(answer, statusOf(name));
  }

  async function startSession(request: Request, token: string, from: string): Promise<Response> {
    if (auth !== "tokens")
      throw new ApiError(404, "NO_SESSIONS", "this server asks for no tokens, and has no sessions");
    const now = clock.now();
    const waitMs = attempts.waitMs(from, now);
    if (waitMs > 0) {
      throw new ApiError(429, "TOO_MANY_ATTEMPTS", "too many tokens that are not valid; wait a while", {
        headers: { "retry-after": String(Math.ceil(waitMs / 1_000)) },
      });
    }
    // Counted before it is known, so that guesses at the same time are counted too.
    attempts.failed(from, now);
    const found = await hf.tokens.check(token);
    if (found === null) throw new ApiError(401, "NOT_KNOWN", "this token is not valid");
    attempts.succeeded(from);
    const expiresAt = now + sessions.lengthMs;
    const value = sessions.sign({ tokenId: found.id, expiresAt });
    const caller = { identity: identityOf(found), sessionEndsAt: expiresAt };
    return answered(sessionAnswer(caller), 200, {
      "set-cookie": cookie(request, value, Math.ceil(sessions.lengthMs / 1_000)),
    });
  }

  async function summary(request: Request): Promise<Response> {
    await permitted(request, { role: "viewer" });
    const failed = { state: ["failed", "dead"], limit: FAILURES, payloads: false } as const;
    const [stats, failures] = await Promise.all([hf.stats(), hf.list(failed)]);
    const answer: SummaryAnswer = {
      stats: { ...stats.states, oldestDueMs: stats.oldestDueMs },
      recentFailures: failures.jobs.map(jobSummary),
    };
    return answered(answer, 200);
  }

  async function ready(): Promise<Response> {
    const late = new Promise<boolean>((resolve) => void setTimeout(() => resolve(false), READY_MS).unref());
    const answers = Holdfast.coreOf(hf)
      .store.dueSchedules(0)
      .then(
        () => true,
        () => false,
      );
    // Anybody may ask, so that no more is told.
    if (await Promise.race([answers, late])) return answered({ status: "ready" }, 200);
    throw new ApiError(503, "NOT_READY", "the store does not answer");
  }

  /** Every route goes through here: what is thrown is answered, and nothing is thrown. */
  async function guarded(work: () => Promise<Response>): Promise<Response> {
    try {
      return await work();
    } catch (error) {
      const told = answerTo(error);
      if (told !== null) return answered(told.body, told.status, told.headers);
      onError(error);
      return answered({ error: { code: "INTERNAL", message: "the server failed; its log says why" } }, 500);
    }
  }

  const on = (method: string, path: string, work: (context: Context) => Promise<Response>): void => {
    app.on(method, path, (c) => guarded(() => work(c)));
  };
  on("GET", "/healthz", async () => answered({ status: "ok" }, 200));
  on("GET", "/readyz", ready);
  on("GET", "/metrics", async ({ req }) => {
    await permitted(req.raw, { role: "viewer" });
    if (metrics === null) throw new ApiError(404, "NO_METRICS", "this server keeps no metrics");
    return new Response(await metrics.text(), { headers: { ...HEADERS, "content-type": Metrics.contentType } });
  });
  on("GET", SUMMARY_PATH, ({ req }) => summary(req.raw));
  on("GET", `${BASE}/openapi.json`, async () => answered(document, 200));
  on("GET", `${BASE}/events`, async ({ req }) => {
    await permitted(req.raw, { role: "viewer" });
    // To the routing HEAD is GET without a body; a viewer that reads nothing would stay for long.
    if (req.method === "HEAD")
      return new Response(null, { headers: { ...HEADERS, "content-type": "text/event-stream" } });
    return new Response(feed.open(), {
      headers: { ...HEADERS, "content-type": "text/event-stream", "x-accel-buffering": "no" },
    });
  });
  for (const name of ROUTE_NAMES) {
    const { method, path } = ROUTES[name];
    on(method, `${BASE}${path}`, (c) =>
      call(name, c.req.raw, c.req.param() as Record<string, string>, addressOf(c.env)),
    );
  }
  app.notFound(({ req }) => guarded(() => noRoute(req.raw)));

  return {
    fetch: async (request, env) => app.fetch(request, env),
    openApi: () => document,
    async close() {
      feed.close();
      own?.stop();
      await operations.close();
    },
  };
}

/** What an application's function says; a mistake in it is the application's, and not the caller's. */
async function named(
  auth: (request: Request) => Identity | null | Promise<Identity | null>,
  request: Request,
): Promise<Identity | null> {
  try {
    return readIdentity(await auth(request));
  } catch (error) {
    throw new Error("the function auth failed", { cause: error });
  }
}

/** The version of the API's description. */
const VERSION = "1.0.0";

async function noRoute({ method, url }: Request): Promise<never> {
  const { pathname } = new URL(url);
  const others = ROUTE_NAMES.map((name) => ROUTES[name]).filter(({ path }) =>
    new RegExp(`^${BASE}${path.replaceAll(/:\w+/g, "[^/]+")}$`).test(pathname),
  );
  if (others.length === 0) throw new ApiError(404, "NO_ROUTE", `there is nothing at ${pathname.slice(0, 200)}`);
  const allow = [...new Set(others.map((line) => line.method))].join(", ");
  throw new ApiError(405, "WRONG_METHOD", `${method} is not for this route; ${allow} is`, { headers: { allow } });
}

function answered(body: unknown, status: number, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...HEADERS, "content-type": "application/json", ...headers },
  });
}

function sessionAnswer({ identity: { name, role, user }, sessionEndsAt }: Caller): SessionAnswer {
  return { name, role, user, expiresAt: sessionEndsAt === null ? null : new Date(sessionEndsAt).toISOString() };
}

function cookie(request: Request, value: string, maxAgeS: number): string {
  const isSecure = new URL(request.url).protocol === "https:" || request.headers.get("x-forwarded-proto") === "https";
  return setCookie(value, { path: BASE, secure: isSecure, maxAgeS });
}

/** Who a server says is at the other end; all are one where none says so. */
function addressOf(env: unknown): string {
  const { incoming } = (env ?? {}) as { incoming?: { socket?: { remoteAddress?: string } } };
  return incoming?.socket?.remoteAddress ?? "anybody";
}
