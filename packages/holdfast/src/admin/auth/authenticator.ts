import { isThenable, watchResult } from "../../callbacks.js";
import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import type { TokenIdentity } from "../../engine/client/tokens.js";
import { callerBy, callerOf, refuseOthers, refuseOtherSites, type Caller } from "./access.js";
import { ApiError } from "../http/api-error.js";
import type { Attempts } from "./login-throttle.js";
import { mayCall, readIdentity, type Identity } from "./identity.js";
import { PLACES, type RouteLine } from "../contract/routes.js";
import { setCookie, type Sessions } from "./sessions.js";
import { TokenChecks } from "./token-checks.js";

/** Who may call: see `AdminOptions`. */
export type Auth = "tokens" | "open" | ((request: Request) => Identity | null | Promise<Identity | null>);
export type ClientAddress = (request: Request, env: unknown) => string | null | undefined;

export interface DoorOptions {
  auth: Auth;
  sessions: Sessions;
  attempts: Attempts;
  clientAddress: ClientAddress;
  basePath: string;
}

/** The identity of everybody where no token is asked for. */
const LOCAL: Caller = { identity: { name: "local", role: "admin", user: null }, tokenId: null, sessionEndsAt: null };

/** Where callers come in: who they are, what they may do, and how browsers log in and out. */
export class Door {
  readonly #hf: Holdfast;
  readonly #options: DoorOptions;
  readonly #checks: TokenChecks;
  readonly #envs = new WeakMap<Request, unknown>();
  #isOpen: boolean;

  constructor(hf: Holdfast, options: DoorOptions) {
    this.#hf = hf;
    this.#options = options;
    this.#isOpen = options.auth === "open";
    this.#checks = new TokenChecks(hf, options.attempts);
  }

  /** Keeps what the server says of a request's connection. Every request comes by here, so that no route can forget it. */
  arrived(request: Request, env: unknown): void {
    this.#envs.set(request, env);
  }

  /** Whoever calls, if they may. */
  async permitted(request: Request, line: Pick<RouteLine, "role" | "ofUser">): Promise<Caller> {
    const caller = await this.#caller(request);
    if (caller === null) {
      throw new ApiError(401, "UNAUTHENTICATED", "send a token that is valid: authorization: Bearer hf_…", {
        headers: { "www-authenticate": "Bearer" },
      });
    }
    if (mayCall(caller.identity, line)) return caller;
    const { role } = caller.identity;
    throw new ApiError(403, "FORBIDDEN", `the role ${role} may not do this; it takes ${line.role ?? "none"}`);
  }

  /** Exchanges a token for cookies. */
  async startSession(request: Request, token: string): Promise<{ caller: Caller; cookies: string[] }> {
    const { sessions } = this.#options;
    if (!(await this.#wantsTokens()))
      throw new ApiError(404, "NO_SESSIONS", "this server asks for no tokens, and has no sessions");
    const checked = await this.#checks.check(token, this.#addressOf(request));
    const { found } = checked;
    if (found === null) throw checked.waitMs > 0 ? tooMany(checked.waitMs) : notValid();
    const now = engineOf(this.#hf).clock.now();
    // No session outlives its token.
    const expiresAt = Math.min(now + sessions.lengthMs, found.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY);
    const value = sessions.sign({ tokenId: found.id, expiresAt });
    return {
      caller: callerBy(found, expiresAt),
      cookies: this.#cookies(request, value, Math.ceil((expiresAt - now) / 1_000)),
    };
  }

  /** Cookies that take the place of those there are. */
  endSession(request: Request): string[] {
    return this.#cookies(request, "", 0);
  }

  async #caller(request: Request): Promise<Caller | null> {
    const { auth, sessions } = this.#options;
    refuseOtherSites(request);
    if (typeof auth === "function") {
      const identity = await named(auth, request);
      return identity === null ? null : { identity, tokenId: null, sessionEndsAt: null };
    }
    if (await this.#wantsTokens()) {
      const check = async (token: string): Promise<TokenIdentity | null> =>
        (await this.#checks.check(token, this.#addressOf(request))).found;
      return callerOf(request, { hf: this.#hf, sessions, check });
    }
    refuseOthers(request, socketAddress(request, this.#envs.get(request)));
    return LOCAL;
  }

  /** Where a request comes from; null: nobody knows. */
  #addressOf(request: Request): string | null {
    const given: unknown = this.#options.clientAddress(request, this.#envs.get(request));
    if (isThenable(given)) {
      watchResult(given, () => {});
      throw new Error("the function clientAddress returned a promise; it must return the address itself");
    }
    return typeof given === "string" && given !== "" ? given : null;
  }

  /** A server that was open asks for tokens from when there is one. It stays so, whatever becomes of that token. */
  async #wantsTokens(): Promise<boolean> {
    if (this.#isOpen && (await this.#checks.any())) this.#isOpen = false;
    return typeof this.#options.auth !== "function" && !this.#isOpen;
  }

  /** One for each place where the API stands, so that what else there is on this host never gets one. */
  #cookies(request: Request, value: string, maxAgeS: number): string[] {
    const { protocol } = new URL(request.url);
    const secure = protocol === "https:" || request.headers.get("x-forwarded-proto") === "https";
    return PLACES.map((place) => setCookie(value, { path: `${this.#options.basePath}${place}`, secure, maxAgeS }));
  }
}

function tooMany(waitMs: number): ApiError {
  return new ApiError(429, "TOO_MANY_ATTEMPTS", "too many tokens that are not valid; wait a while", {
    headers: { "retry-after": String(Math.ceil(waitMs / 1_000)) },
  });
}

function notValid(): ApiError {
  return new ApiError(401, "UNAUTHENTICATED", "this token is not valid");
}

/** What an application's function says; a mistake in it is the application's, and not the caller's. */
async function named(auth: Exclude<Auth, string>, request: Request): Promise<Identity | null> {
  try {
    return readIdentity(await auth(request));
  } catch (error) {
    throw new Error("the function auth failed", { cause: error });
  }
}

/** Who Node's own server says is at the other end; null where nobody says so. */
export function socketAddress(_request: Request, env: unknown): string | null {
  const { incoming } = (env ?? {}) as { incoming?: { socket?: { remoteAddress?: string } } };
  return incoming?.socket?.remoteAddress ?? null;
}
