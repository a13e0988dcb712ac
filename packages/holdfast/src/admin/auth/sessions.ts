import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** The content of a session cookie. */
export interface Session {
  /** The API token that started the session. Revoking it ends the session. */
  tokenId: string;
  expiresAt: number;
}

export const COOKIE = "holdfast_session";
const FORMAT = /^([0-9a-f]{16})\.(\d{13})\.([\w-]{43})$/;

/**
 * Browser sessions. They are stored only in their cookies: token id and expiry, signed with HMAC. With a configured secret they
 * survive restarts and are valid on several servers.
 */
export class Sessions {
  readonly #secret: string | Buffer;
  readonly lengthMs: number;

  constructor({ secret, lengthMs }: { secret: string | null; lengthMs: number }) {
    this.#secret = secret ?? randomBytes(32);
    this.lengthMs = lengthMs;
  }

  /** Returns the value of the cookie. */
  sign({ tokenId, expiresAt }: Session): string {
    const content = `${tokenId}.${expiresAt}`;
    return `${content}.${this.#mac(content).toString("base64url")}`;
  }

  /** Null: malformed, not signed with our secret, or expired. */
  verify(cookie: string, now: number): Session | null {
    const [, tokenId, end, mac] = FORMAT.exec(cookie) ?? [];
    if (tokenId === undefined || end === undefined || mac === undefined) return null;
    const expected = this.#mac(`${tokenId}.${end}`);
    const given = Buffer.from(mac, "base64url");
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    return Number(end) <= now ? null : { tokenId, expiresAt: Number(end) };
  }

  #mac(content: string): Buffer {
    return createHmac("sha256", this.#secret).update(content).digest();
  }
}

/** The value of the session cookie in a `Cookie` header. */
export function readSessionCookie(header: string | null): string | null {
  for (const part of (header ?? "").split(";")) {
    const [name, value] = part.trim().split("=", 2);
    if (name === COOKIE && value !== undefined) return value;
  }
  return null;
}

/** A `Set-Cookie` header. Scripts cannot read the cookie, and browsers do not send it to other paths or from other sites. */
export function setCookie(
  value: string,
  { path, secure, maxAgeS }: { path: string; secure: boolean; maxAgeS: number },
): string {
  return `${COOKIE}=${value}; Path=${path}; Max-Age=${maxAgeS}; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
}
