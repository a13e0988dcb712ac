import { isThenable, watchResult } from "../../callbacks.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import type { TokenIdentity } from "../../engine/client/tokens.js";
import { callerFromRequest, callerFromToken, type Caller } from "./credentials.js";
import { ApiError } from "../http/api-error.js";
import type { LoginThrottle } from "./login-throttle.js";
import { isAuthorized, readIdentity, type Identity } from "./identity.js";
import { COOKIE_PATHS, type RouteLine } from "../contract/routes.js";
import { rejectCrossSite, requireLocalhost } from "./request-origin.js";
import { setCookie, type Sessions } from "./sessions.js";
import { TokenVerifier } from "./token-verifier.js";

/** How callers authenticate: see `AdminOptions`. */
export type Auth = "tokens" | "open" | ((request: Request) => Decision | Promise<Decision>);
/** What the application's function says about a request. */
type Decision = Identity | "tokens" | null;
export type ClientAddress = (request: Request, env: unknown) => string | null | undefined;

export interface AuthenticatorOptions {
  auth: Auth;
  sessions: Sessions;
  throttle: LoginThrottle;
  clientAddress: ClientAddress;
  basePath: string;
}

/** Every caller, while authentication is off. */
const LOCAL: Caller = { identity: { name: "local", role: "admin", user: null }, tokenId: null, sessionEndsAt: null };

/** Authenticates and authorizes every request, and manages browser sessions. */
export class Authenticator {
  readonly #hf: Holdfast;
  readonly #options: AuthenticatorOptions;
  readonly #tokens: TokenVerifier;
  readonly #envs = new WeakMap<Request, unknown>();
  #allowsAnonymous: boolean;

  constructor(hf: Holdfast, options: AuthenticatorOptions) {
    this.#hf = hf;
    this.#options = options;
    this.#allowsAnonymous = options.auth === "open";
    this.#tokens = new TokenVerifier(hf, options.throttle);
  }

  /** Stores the server's connection details for a request. Called once for every request, so that no route can forget it. */
  registerRequest(request: Request, env: unknown): void {
    this.#envs.set(request, env);
  }

  /** Returns the authenticated caller, or throws 401 or 403. */
  async authorize(request: Request, route: Pick<RouteLine, "role" | "ofUser">): Promise<Caller> {
    const caller = await this.#authenticate(request);
    if (caller === null) {
      throw new ApiError(
        401,
        "UNAUTHENTICATED",
        "missing, invalid, expired or revoked bearer token; send authorization: Bearer hf_…",
        {
          headers: { "www-authenticate": "Bearer" },
        },
      );
    }
    if (isAuthorized(caller.identity, route)) return caller;
    const { role } = caller.identity;
    throw new ApiError(403, "FORBIDDEN", `permission denied for role ${role}; this needs ${route.role ?? "no role"}`);
  }

  /**
   * Whether a caller whose response is still open, an event stream, would be authorized again. What the application's function would
   * say is not known.
   */
  async isStillAuthorized({ tokenId }: Caller, route: Pick<RouteLine, "role" | "ofUser">): Promise<boolean> {
    if (tokenId !== null) return isAuthorized(await this.#tokens.identityOf(tokenId), route);
    return typeof this.#options.auth === "function" || (await this.#allowsAll());
  }

  /** Null: the request has no valid credentials. */
  async #authenticate(request: Request): Promise<Caller | null> {
    rejectCrossSite(request);
    const decision = await this.#decide(request);
    if (decision === "tokens") {
      const verifyToken = async (token: string): Promise<TokenIdentity | null> =>
        (await this.#tokens.verify(token, this.#addressOf(request))).identity;
      return callerFromRequest(request, { hf: this.#hf, sessions: this.#options.sessions, verifyToken });
    }
    if (decision === "open") {
      requireLocalhost(request, socketAddress(request, this.#envs.get(request)));
      return LOCAL;
    }
    return decision === null ? null : { identity: decision, tokenId: null, sessionEndsAt: null };
  }

  /** How to authenticate a request. The application's function cannot open the API: `open` is only an option. */
  async #decide(request: Request): Promise<Decision | "open"> {
    const { auth } = this.#options;
    if (typeof auth === "function") return decisionOfApplication(auth, request);
    return (await this.#allowsAll()) ? "open" : "tokens";
  }

  /** Exchanges an API token for session cookies. */
  async startSession(request: Request, token: string): Promise<{ caller: Caller; cookies: string[] }> {
    const { sessions } = this.#options;
    if ((await this.#decide(request)) !== "tokens") {
      throw new ApiError(404, "SESSIONS_DISABLED", "sign-in with an API token is disabled on this server");
    }
    const verified = await this.#tokens.verify(token, this.#addressOf(request));
    const { identity } = verified;
    if (identity === null) throw verified.waitMs > 0 ? tooManyAttempts(verified.waitMs) : invalidToken();
    const now = engineOf(this.#hf).clock.now();
    // A session never outlives its token.
    const expiresAt = Math.min(now + sessions.lengthMs, identity.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY);
    const value = sessions.sign({ tokenId: identity.id, expiresAt });
    return {
      caller: callerFromToken(identity, expiresAt),
      cookies: this.#cookies(request, value, Math.ceil((expiresAt - now) / 1_000)),
    };
  }

  /** Returns cookies that delete those of the session. */
  endSession(request: Request): string[] {
    return this.#cookies(request, "", 0);
  }

  /** The address of the client; null: unknown. */
  #addressOf(request: Request): string | null {
    const given: unknown = this.#options.clientAddress(request, this.#envs.get(request));
    if (isThenable(given)) {
      watchResult(given, () => {});
      throw new Error("the clientAddress function returned a promise; it must return a string or null");
    }
    return typeof given === "string" && given !== "" ? given : null;
  }

  /**
   * With `auth: "open"`, tokens are required once one exists, even if it has expired, and from then on until this process ends,
   * even if all are revoked.
   */
  async #allowsAll(): Promise<boolean> {
    if (this.#allowsAnonymous && (await this.#tokens.hasToken())) this.#allowsAnonymous = false;
    return this.#allowsAnonymous;
  }

  /** One cookie per path of the API, so that browsers do not send it to other applications on the same host. */
  #cookies(request: Request, value: string, maxAgeS: number): string[] {
    const { protocol } = new URL(request.url);
    const secure = protocol === "https:" || request.headers.get("x-forwarded-proto") === "https";
    return COOKIE_PATHS.map((path) => setCookie(value, { path: `${this.#options.basePath}${path}`, secure, maxAgeS }));
  }
}

function tooManyAttempts(waitMs: number): ApiError {
  return new ApiError(429, "TOO_MANY_ATTEMPTS", "too many invalid tokens from this address; retry later", {
    headers: { "retry-after": String(Math.ceil(waitMs / 1_000)) },
  });
}

function invalidToken(): ApiError {
  return new ApiError(401, "UNAUTHENTICATED", "invalid, expired or revoked token");
}

/** An error in the application's function becomes a 500: it is not the caller's fault. */
async function decisionOfApplication(auth: Exclude<Auth, string>, request: Request): Promise<Decision> {
  try {
    const decision = await auth(request);
    return decision === "tokens" ? decision : readIdentity(decision);
  } catch (error) {
    throw new Error("the auth function failed", { cause: error });
  }
}

/** The remote address of the connection on Node's HTTP server; null elsewhere. */
export function socketAddress(_request: Request, env: unknown): string | null {
  const { incoming } = (env ?? {}) as { incoming?: { socket?: { remoteAddress?: string } } };
  return incoming?.socket?.remoteAddress ?? null;
}
