import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import { currentIdentity, type TokenIdentity } from "../../engine/client/tokens.js";
import type { Identity } from "./identity.js";
import { readSessionCookie, type Sessions } from "./sessions.js";

/** The authenticated sender of a request. */
export interface Caller {
  identity: Identity;
  /** Null: authenticated without an API token. */
  tokenId: string | null;
  /** Null: the request has no session. */
  sessionEndsAt: number | null;
}

interface Verification {
  hf: Holdfast;
  sessions: Sessions;
  verifyToken: (token: string) => Promise<TokenIdentity | null>;
}

/** Reads the bearer token, or else the session cookie. Null: neither is present and valid. */
export async function callerFromRequest(
  request: Request,
  { hf, sessions, verifyToken }: Verification,
): Promise<Caller | null> {
  const header = request.headers.get("authorization") ?? "";
  // Other schemes, such as Basic, belong to a proxy in front of the server and are ignored.
  if (/^Bearer(?: |$)/i.test(header)) {
    const [, token] = /^Bearer +(\S+)$/i.exec(header) ?? [];
    const found = token === undefined ? null : await verifyToken(token);
    return found === null ? null : callerFromToken(found, null);
  }
  const cookie = readSessionCookie(request.headers.get("cookie"));
  if (cookie === null) return null;
  const session = sessions.verify(cookie, engineOf(hf).clock.now());
  const found = session === null ? null : await currentIdentity(engineOf(hf), session.tokenId);
  return session === null || found === null ? null : callerFromToken(found, session.expiresAt);
}

export function callerFromToken({ id, name, role, user }: TokenIdentity, sessionEndsAt: number | null): Caller {
  return { identity: { name: `token:${name}`, role, user }, tokenId: id, sessionEndsAt };
}
