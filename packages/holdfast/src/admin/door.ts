import { Holdfast } from "../engine/holdfast.js";
import { callerBy, callerOf, refuseOthers, refuseOtherSites, type Caller } from "./access.js";
import { ApiError } from "./api-error.js";
import type { Attempts } from "./attempts.js";
import { mayCall, readIdentity, type Identity } from "./identity.js";
import { remembered } from "./remembered.js";
import { PLACES, type RouteLine } from "./routes.js";
import { setCookie, type Sessions } from "./sessions.js";

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
// How old what is known of all tokens together may be. Whether one that was sent is right the store is asked each time.
const KNOWN_MS = 1_000;

/** Where callers come in: who they are, what they may do, and how browsers log in and out. */
export class Door {
  readonly #hf: Holdfast;
  readonly #options: DoorOptions;
  readonly #known: () => ReturnType<Holdfast["tokens"]["known"]>;
  readonly #envs = new WeakMap<Request, unknown>();
  #isOpen: boolean;

  constructor(hf: Holdfast, options: DoorOptions) {
    this.#hf = hf;
    this.#options = options;
    this.#isOpen = options.auth === "open";
    this.#known = remembered(() => hf.tokens.known(), KNOWN_MS);
  }

  /** Keeps what the server says of a request's connection. Every request comes by here, so that no route can forget it. */
  arrived(request: Request, env: unknown): void {
    this.#envs.set(request, env);
  }

  /** Whoever calls, if they may. */
  async permitted(request: Request, line: Pick<RouteLine, "role" | "ofUser">): Promise<Caller> {
    const caller = await this.#caller(request);
    if (caller === null) {
      throw new ApiError(401, "NOT_KNOWN", "send a token that is valid: authorization: Bearer hf_…", {
        headers: { "www-authenticate": "Bearer" },
      });
    }
    if (mayCall(caller.identity, line)) return caller;
    const { role } = caller.identity;
    throw new ApiError(403, "NOT_ALLOWED", `the role ${role} may not do this; it takes ${line.role ?? "none"}`);
  }

  /** Exchanges a token for cookies. */
  async startSession(request: Request, token: string): Promise<{ caller: Caller; cookies: string[] }> {
    const { sessions, attempts, clientAddress } = this.#options;
    if (!(await this.#wantsTokens()))
      throw new ApiError(404, "NO_SESSIONS", "this server asks for no tokens, and has no sessions");
    const now = Holdfast.coreOf(this.#hf).clock.now();
    const given: unknown = clientAddress(request, this.#envs.get(request));
    const address = typeof given === "string" && given !== "" ? given : null;
    const waitMs = attempts.waitMs(address, now);
    // Whoever guesses may share an address with everybody else: a token that is right comes in, and guesses together cost the
    // store one reading a second.
    if (waitMs > 0 && !(await this.#known()).has(token)) {
      throw new ApiError(429, "TOO_MANY_ATTEMPTS", "too many tokens that are not valid; wait a while", {
        headers: { "retry-after": String(Math.ceil(waitMs / 1_000)) },
      });
    }
    // Counted before it is known, so that guesses at the same time are counted too.
    const takeBack = attempts.failed(address, now);
    const found = await this.#hf.tokens.check(token);
    if (found === null) throw new ApiError(401, "NOT_KNOWN", "this token is not valid");
    takeBack();
    const expiresAt = now + sessions.lengthMs;
    const value = sessions.sign({ tokenId: found.id, expiresAt });
    return {
      caller: callerBy(found, expiresAt),
      cookies: this.#cookies(request, value, Math.ceil(sessions.lengthMs / 1_000)),
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
    if (await this.#wantsTokens()) return callerOf(request, this.#hf, sessions);
    refuseOthers(request, socketAddress(request, this.#envs.get(request)));
    return LOCAL;
  }

  /** A server that was open asks for tokens from when there is one. It stays so, whatever becomes of that token. */
  async #wantsTokens(): Promise<boolean> {
    if (this.#isOpen && (await this.#known()).any) this.#isOpen = false;
    return typeof this.#options.auth !== "function" && !this.#isOpen;
  }

  /** One for each place where the API stands, so that what else there is on this host never gets one. */
  #cookies(request: Request, value: string, maxAgeS: number): string[] {
    const { protocol } = new URL(request.url);
    const secure = protocol === "https:" || request.headers.get("x-forwarded-proto") === "https";
    return PLACES.map((place) => setCookie(value, { path: `${this.#options.basePath}${place}`, secure, maxAgeS }));
  }
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
