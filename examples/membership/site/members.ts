import { randomBytes, randomUUID } from "node:crypto";
import type { Db } from "./database.js";

export interface Member {
  readonly id: string;
  readonly email: string;
  readonly name: string;
  readonly isStaff: boolean;
  /** Whether the member gets the newsletter. */
  readonly newsletter: boolean;
  readonly unsubscribeKey: string;
  /** Null: no Discord account is linked. */
  readonly discordId: string | null;
}

/** What a new member has. */
export interface NewMember {
  readonly email: string;
  readonly name: string;
  /** From `hashPassword`. */
  readonly password: string;
  readonly newsletter: boolean;
  readonly isStaff?: boolean;
}

interface Row {
  id: string;
  email: string;
  name: string;
  is_staff: number;
  newsletter: number;
  unsubscribe_key: string;
  discord_id: string | null;
}

const PAGE = 500;

/** The members of the site. */
export class Members {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  byId(id: string): Member | null {
    return memberOf(this.#db.prepare("SELECT * FROM members WHERE id = ?").get(id));
  }

  byEmail(email: string): Member | null {
    return memberOf(this.#db.prepare("SELECT * FROM members WHERE email = ?").get(email));
  }

  byDiscord(discordId: string): Member | null {
    return memberOf(this.#db.prepare("SELECT * FROM members WHERE discord_id = ?").get(discordId));
  }

  byUnsubscribeKey(key: string): Member | null {
    return memberOf(this.#db.prepare("SELECT * FROM members WHERE unsubscribe_key = ?").get(key));
  }

  passwordOf(id: string): string | null {
    return this.#db.prepare<[string], string>("SELECT password FROM members WHERE id = ?").pluck().get(id) ?? null;
  }

  /** Null: the address belongs to a member. */
  add({ email, name, password, newsletter, isStaff = false }: NewMember): Member | null {
    const row = this.#db
      .prepare(
        `INSERT INTO members (id, email, name, password, is_staff, newsletter, unsubscribe_key)
          VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (email) DO NOTHING RETURNING *`,
      )
      .get(
        randomUUID(),
        email,
        name,
        password,
        Number(isStaff),
        Number(newsletter),
        randomBytes(16).toString("base64url"),
      );
    return memberOf(row);
  }

  setPassword(id: string, password: string): void {
    this.#db.prepare("UPDATE members SET password = ? WHERE id = ?").run(password, id);
  }

  setNewsletter(id: string, newsletter: boolean): void {
    this.#db.prepare("UPDATE members SET newsletter = ? WHERE id = ?").run(Number(newsletter), id);
  }

  /** False: the Discord account belongs to another member. */
  setDiscord(id: string, discordId: string | null): boolean {
    const { changes } = this.#db.prepare("UPDATE OR IGNORE members SET discord_id = ? WHERE id = ?").run(discordId, id);
    return changes === 1;
  }

  /** The members who have linked a Discord account. */
  linkedToDiscord(): string[] {
    return this.#db.prepare<[], string>("SELECT id FROM members WHERE discord_id IS NOT NULL").pluck().all();
  }

  countSubscribers(): number {
    return this.#db.prepare<[], number>("SELECT count(*) FROM members WHERE newsletter = 1").pluck().get() ?? 0;
  }

  /** Who gets the newsletter. In pages: a query that stays open would block the connection while mails are enqueued. */
  *subscribers(): Generator<Member> {
    const page = this.#db.prepare<[string], Row>(
      `SELECT * FROM members WHERE newsletter = 1 AND id > ? ORDER BY id LIMIT ${PAGE}`,
    );
    for (let last = ""; ;) {
      const rows = page.all(last);
      for (const row of rows) yield toMember(row);
      if (rows.length < PAGE) return;
      last = rows.at(-1)?.id ?? last;
    }
  }
}

function memberOf(row: unknown): Member | null {
  return row === undefined ? null : toMember(row as Row);
}

function toMember(row: Row): Member {
  return {
    id: row.id,
    email: row.email,
    name: row.name,
    isStaff: row.is_staff === 1,
    newsletter: row.newsletter === 1,
    unsubscribeKey: row.unsubscribe_key,
    discordId: row.discord_id,
  };
}
