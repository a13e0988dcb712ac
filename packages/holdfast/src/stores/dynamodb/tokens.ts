import { randomBytes } from "node:crypto";
import { LIMITS } from "../../defaults.js";
import type { PutTokenResult, TokenRecord } from "../../store.js";
import { itemOf, numberOf, stringOf, type Item } from "./connection/attributes.js";
import { Change } from "./connection/expressions.js";
import { CURSOR_KEY, TOKEN_COUNT, TOKENS, type Key } from "./jobs/item-keys.js";
import type { Table } from "./connection/table.js";

/**
 * API tokens. They are few, so all are in one partition. Each write also changes their count, which enforces the limit.
 */
export class Tokens {
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  async put(token: TokenRecord): Promise<PutTokenResult> {
    const { id, name, hash, role, user, createdAt, expiresAt } = token;
    const item = itemOf({ ...keyOf(id), name, hash, role, user, created_at: createdAt, expires_at: expiresAt });
    const count = new Change();
    count.setTo("n", `if_not_exists(#n, ${count.value(0)}) + ${count.value(1)}`);
    count.when(`attribute_not_exists(#n) OR #n < ${count.value(LIMITS.tokens)}`);
    const written = await this.#table.transact([
      { put: item, when: new Change().when("attribute_not_exists(#pk)") },
      { update: TOKEN_COUNT, change: count },
    ]);
    if (written.done) return "put";
    return written.failed[0] === undefined ? "full" : "exists";
  }

  async get(id: string): Promise<TokenRecord | null> {
    const item = await this.#table.get(keyOf(id));
    return item === null ? null : readToken(item);
  }

  async list(): Promise<TokenRecord[]> {
    const items = await this.#table.all({ hash: TOKENS, consistent: true });
    // The query returns them by id. The stable sort keeps that order for equal times.
    return items.map(readToken).toSorted((a, b) => a.createdAt - b.createdAt);
  }

  async remove(id: string): Promise<boolean> {
    const count = new Change();
    count.setTo("n", `if_not_exists(#n, ${count.value(1)}) - ${count.value(1)}`);
    const removed = await this.#table.transact([
      { delete: keyOf(id), when: new Change().when("attribute_exists(#pk)") },
      { update: TOKEN_COUNT, change: count },
    ]);
    return removed.done;
  }
}

/** The key that encrypts cursors. The first process that needs it creates it. */
export async function cursorKey(table: Table): Promise<string> {
  const known = await table.get(CURSOR_KEY);
  if (known !== null) return stringOf(known, "value") ?? "";
  const value = randomBytes(32).toString("hex");
  await table.put(itemOf({ ...CURSOR_KEY, value }), new Change().when("attribute_not_exists(#pk)"));
  return stringOf((await table.get(CURSOR_KEY)) ?? {}, "value") ?? "";
}

function keyOf(id: string): Key {
  return { pk: TOKENS, sk: id };
}

function readToken(item: Item): TokenRecord {
  return {
    id: stringOf(item, "sk") ?? "",
    name: stringOf(item, "name") ?? "",
    hash: stringOf(item, "hash") ?? "",
    role: stringOf(item, "role") as TokenRecord["role"],
    user: stringOf(item, "user"),
    createdAt: numberOf(item, "created_at") ?? 0,
    expiresAt: numberOf(item, "expires_at"),
  };
}
