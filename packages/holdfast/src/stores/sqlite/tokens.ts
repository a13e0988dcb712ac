import type { Database } from "better-sqlite3";
import { LIMITS } from "../../defaults.js";
import type { PutTokenResult, TokenRecord } from "../../store.js";

export interface TokenOperations {
  put(token: TokenRecord): PutTokenResult;
  get(id: string): TokenRecord | null;
  list(): TokenRecord[];
  remove(id: string): boolean;
}

const ROW = `id, name, hash, role, user, created_at AS createdAt, expires_at AS expiresAt`;

export function tokenOperations(db: Database): TokenOperations {
  const add = db.prepare(
    `INSERT INTO holdfast_tokens (id, name, hash, role, user, created_at, expires_at)
     VALUES (@id, @name, @hash, @role, @user, @createdAt, @expiresAt)`,
  );
  const byId = db.prepare(`SELECT ${ROW} FROM holdfast_tokens WHERE id = ?`);
  const all = db.prepare(`SELECT ${ROW} FROM holdfast_tokens ORDER BY created_at, id`);
  const count = db.prepare("SELECT count(*) FROM holdfast_tokens").pluck();
  const removeOne = db.prepare("DELETE FROM holdfast_tokens WHERE id = ?");

  return {
    put(token) {
      if (byId.get(token.id) !== undefined) return "exists";
      if ((count.get() as number) >= LIMITS.tokens) return "full";
      add.run(token);
      return "put";
    },
    get: (id) => (byId.get(id) as TokenRecord | undefined) ?? null,
    list: () => all.all() as TokenRecord[],
    remove: (id) => removeOne.run(id).changes > 0,
  };
}
