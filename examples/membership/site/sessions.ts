import { createHash, randomBytes } from "node:crypto";
import type { Db } from "./database.js";

const SESSION_MS = 30 * 86_400_000;
const LINK_MS = 3_600_000;

/** Sessions of browsers, and links that start one. The database has only hashes, so a copy of it signs no one in. */
export class Sessions {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Returns the value of the cookie. */
  start(memberId: string): string {
    this.#db.prepare("DELETE FROM sessions WHERE expires_at <= ?").run(Date.now());
    return this.#insert("sessions", memberId, SESSION_MS);
  }

  memberIdOf(cookie: string): string | null {
    const find = this.#db.prepare<[string, number], string>(
      "SELECT member_id FROM sessions WHERE hash = ? AND expires_at > ?",
    );
    return find.pluck().get(sha256(cookie), Date.now()) ?? null;
  }

  end(cookie: string): void {
    this.#db.prepare("DELETE FROM sessions WHERE hash = ?").run(sha256(cookie));
  }

  /** Signs a member out everywhere. */
  endAll(memberId: string): void {
    this.#db.prepare("DELETE FROM sessions WHERE member_id = ?").run(memberId);
  }

  /** Returns a code that starts one session within an hour. */
  createLink(memberId: string): string {
    return this.#insert("sign_in_links", memberId, LINK_MS);
  }

  /** The member that a code is for; null if it was used, or has expired. */
  useLink(code: string): string | null {
    const take = this.#db.prepare<[string, number], string>(
      "DELETE FROM sign_in_links WHERE hash = ? AND expires_at > ? RETURNING member_id",
    );
    return take.pluck().get(sha256(code), Date.now()) ?? null;
  }

  #insert(table: "sessions" | "sign_in_links", memberId: string, lengthMs: number): string {
    const secret = randomBytes(32).toString("base64url");
    this.#db
      .prepare(`INSERT INTO ${table} (hash, member_id, expires_at) VALUES (?, ?, ?)`)
      .run(sha256(secret), memberId, Date.now() + lengthMs);
    return secret;
  }
}

function sha256(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}
