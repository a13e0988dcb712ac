import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { currentIdentity, type TokenIdentity } from "../../engine/client/tokens.js";
import { ApiError } from "../http/api-error.js";
import type { Identity } from "./identity.js";
import { isFromHere, isLoopback, nameIn } from "./loopback.js";
import { cookieIn, type Sessions } from "./sessions.js";

/** Who sent a request, with which token, and until when that holds, where it ends. */
export interface Caller {
  identity: Identity;
  tokenId: string | null;
  sessionEndsAt: number | null;
}

interface Knowing {
  hf: Holdfast;
  sessions: Sessions;
  /** Who a token stands for. */
  check: (token: string) => Promise<TokenIdentity | null>;
}

/** By a bearer token, or by the cookie of a session. Null: nobody that is known. */
export async function callerOf(request: Request, { hf, sessions, check }: Knowing): Promise<Caller | null> {
  const header = request.headers.get("authorization") ?? "";
  // Other kinds are a proxy's, which has asked for a password of its own.
  if (/^Bearer(?: |$)/i.test(header)) {
    const [, token] = /^Bearer +(\S+)$/i.exec(header) ?? [];
    const found = token === undefined ? null : await check(token);
    return found === null ? null : callerBy(found, null);
  }
  const cookie = cookieIn(request.headers.get("cookie"));
  if (cookie === null) return null;
  const session = sessions.read(cookie, engineOf(hf).clock.now());
  const found = session === null ? null : await currentIdentity(engineOf(hf), session.tokenId);
  return session === null || found === null ? null : callerBy(found, session.expiresAt);
}

/** Whoever came with a token, or with a session that was started with it. */
export function callerBy({ id, name, role, user }: TokenIdentity, sessionEndsAt: number | null): Caller {
  return { identity: { name: `token:${name}`, role, user }, tokenId: id, sessionEndsAt };
}

/**
 * Refuses what a page of another site has sent by its visitor's browser. Browsers say so in `Sec-Fetch-Site`, and older ones in
 * `Origin`; programs that are no browsers send neither, and have no cookie that could be misused.
 */
export function refuseOtherSites(request: Request): void {
  const site = request.headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") throw crossSite();
  // What the browser says of itself counts: behind a proxy the host may be another than the page's.
  if (site === "same-origin") return;
  const origin = request.headers.get("origin");
  if (origin === null) return;
  const host = request.headers.get("host") ?? new URL(request.url).host;
  if (!URL.canParse(origin) || new URL(origin).host !== host) throw crossSite();
}

function crossSite(): ApiError {
  return new ApiError(
    403,
    "CROSS_SITE",
    "this request comes from a page of another site; the API answers only its own",
  );
}

/** A proxy says localhost itself, whoever it asks for. */
const FORWARDED = ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"] as const;

/**
 * Where no token is asked for, only this machine is let in. Whoever connects from another one can write any name into `Host`; and a
 * page that is open on this one reaches us by a name that was made to point here. `peer`: the other end of the connection; null: nobody
 * knows.
 */
export function refuseOthers(request: Request, peer: string | null): void {
  if (peer !== null && !isFromHere(peer)) {
    throw new ApiError(403, "NOT_LOCALHOST", "without tokens this server answers this machine only");
  }
  const proxied = FORWARDED.find((name) => request.headers.has(name));
  if (proxied !== undefined) {
    throw new ApiError(403, "PROXIED", `without tokens this server answers nobody by way of a proxy (${proxied})`);
  }
  const host = request.headers.get("host") ?? new URL(request.url).host;
  if (isLoopback(nameIn(host))) return;
  throw new ApiError(
    403,
    "OTHER_HOST",
    `without tokens this server answers as localhost only, and not as ${host.slice(0, 100)}`,
  );
}
