import { LIMITS } from "../../defaults.js";
import { StoreUnreadableError } from "../../errors.js";
import type { PutTokenResult, TokenRecord } from "../../store.js";
import type { Row, Runner, Transaction } from "./connection/db.js";
import type { Sql } from "./connection/sql.js";

export interface TokenOperations {
  put(transaction: Transaction, token: TokenRecord): Promise<PutTokenResult>;
  get(runner: Runner, id: string): Promise<TokenRecord | null>;
  list(runner: Runner): Promise<TokenRecord[]>;
  remove(runner: Runner, id: string): Promise<boolean>;
  cursorKey(runner: Runner): Promise<string>;
}

export function tokenOperations(sql: Sql): TokenOperations {
  const { s } = sql;
  const row = "id, name, hash, role, user_id, created_at::float8, expires_at::float8";
  const byId = sql.statement("token_get", `SELECT ${row} FROM ${s}.tokens WHERE id = $1`);
  const all = sql.statement("tokens_list", `SELECT ${row} FROM ${s}.tokens ORDER BY created_at, id COLLATE "C"`);
  const remove = sql.statement("token_remove", `DELETE FROM ${s}.tokens WHERE id = $1 RETURNING 1`);
  const key = sql.statement("cursor_key", `SELECT value FROM ${s}.settings WHERE name = 'cursorKey'`);
  const check = sql.statement(
    "token_check",
    `SELECT EXISTS (SELECT 1 FROM ${s}.tokens WHERE id = $1), (SELECT pg_catalog.count(*) FROM ${s}.tokens)::float8`,
  );
  const add = sql.statement(
    "token_add",
    `INSERT INTO ${s}.tokens (id, name, hash, role, user_id, created_at, expires_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7)`,
  );

  return {
    async put(transaction, { id, name, hash, role, user, createdAt, expiresAt }) {
      // One at a time: two concurrent calls could both take the last free place. Readers do not wait.
      await transaction.script(`LOCK TABLE ${s}.tokens IN SHARE ROW EXCLUSIVE MODE`);
      const [seen] = await transaction.run(check, [id]);
      if (seen?.[0] === true) return "exists";
      if ((seen?.[1] as number) >= LIMITS.tokens) return "full";
      await transaction.run(add, [id, name, hash, role, user, createdAt, expiresAt]);
      return "put";
    },
    async get(runner, id) {
      const [found] = await runner.run(byId, [id]);
      return found === undefined ? null : readToken(found);
    },
    list: async (runner) => (await runner.run(all, [])).map(readToken),
    remove: async (runner, id) => (await runner.run(remove, [id])).length > 0,
    async cursorKey(runner) {
      const [found] = await runner.run(key, []);
      if (found === undefined) {
        throw new StoreUnreadableError(
          "permission denied to read the cursor key; use the role work or admin, or call store.migrate()",
        );
      }
      return found[0] as string;
    },
  };
}

function readToken([id, name, hash, role, user, createdAt, expiresAt]: Row): TokenRecord {
  return {
    id: id as string,
    name: name as string,
    hash: hash as string,
    role: role as TokenRecord["role"],
    user: user as string | null,
    createdAt: createdAt as number,
    expiresAt: expiresAt as number | null,
  };
}
