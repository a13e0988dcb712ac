import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** What a session cookie says, and nobody else could have written. */
export interface Session {
  /** The token that it was started with: once that is revoked, the session is worth nothing. */
  tokenId: string;
  expiresAt: number;
}

export const COOKIE = "holdfast_session";
const FORM = /^([0-9a-f]{16})\.(\d{13})\.([\w-]{43})$/;

/**
 * Sessions of browsers, kept nowhere but in their cookies: the token's id and the end, signed. With a secret of your own they
 * outlive a restart and hold on several servers.
 */
export class Sessions {
  readonly #secret: string | Buffer;
  readonly lengthMs: number;

  constructor({ secret, lengthMs }: { secret: string | null; lengthMs: number }) {
    this.#secret = secret ?? randomBytes(32);
    this.lengthMs = lengthMs;
  }

  /** The value of a cookie. */
  sign({ tokenId, expiresAt }: Session): string {
    const text = `${tokenId}.${expiresAt}`;
    return `${text}.${this.#mac(text).toString("base64url")}`;
  }

  /** Null: it is none of ours, or over. */
  read(cookie: string, now: number): Session | null {
    const [, tokenId, end, mac] = FORM.exec(cookie) ?? [];
    if (tokenId === undefined || end === undefined || mac === undefined) return null;
    const expected = this.#mac(`${tokenId}.${end}`);
    const given = Buffer.from(mac, "base64url");
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return null;
    return Number(end) <= now ? null : { tokenId, expiresAt: Number(end) };
  }

  #mac(text: string): Buffer {
    return createHmac("sha256", this.#secret).update(text).digest();
  }
}

/** The value of our cookie in a `Cookie` header. */
export function cookieIn(header: string | null): string | null {
  for (const part of (header ?? "").split(";")) {
    const [name, value] = part.trim().split("=", 2);
    if (name === COOKIE && value !== undefined) return value;
  }
  return null;
}

/** A `Set-Cookie` header. Scripts cannot read it, other sites cannot send it, and other paths do not get it. */
export function setCookie(
  value: string,
  { path, secure, maxAgeS }: { path: string; secure: boolean; maxAgeS: number },
): string {
  return `${COOKIE}=${value}; Path=${path}; Max-Age=${maxAgeS}; HttpOnly; SameSite=Strict${secure ? "; Secure" : ""}`;
}
