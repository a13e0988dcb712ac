import Sqlite from "better-sqlite3";
import type pg from "pg";
import { onTestFinished } from "vitest";
import type { PackDatabase } from "../../holdfast/test/pack/scene.js";

/** The statements on a database from now on, as they are sent. */
export function recordStatements(given: PackDatabase): { db: PackDatabase["db"]; take: () => string[] } {
  const statements: string[] = [];
  const take = (): string[] => statements.splice(0);
  const record = (sql: unknown): void => {
    if (typeof sql === "string") statements.push(sql.replaceAll(/\s+/g, " "));
  };
  if (given.dialect === "sqlite") {
    // better-sqlite3 shows the values: only the shape is compared.
    const db = new Sqlite((given.db as Sqlite.Database).name, {
      verbose: (sql) => record(String(sql).replaceAll(/'(?:[^']|'')*'(?:\/\*.*?\*\/)?|\b\d+(?:\.\d+)?\b/g, "?")),
    });
    onTestFinished(() => void db.close());
    return { db, take };
  }
  const pool = given.db as pg.Pool;
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    let isInTransaction = false;
    Object.assign(client, {
      query(...args: unknown[]) {
        const [first] = args as [string | { text?: string }];
        const text = String(typeof first === "string" ? first : first.text);
        if (/^(?:BEGIN|COMMIT|ROLLBACK$)/.test(text)) isInTransaction = text === "BEGIN";
        // The store's own notifications of what it wrote before: they are sent at any time.
        if (isInTransaction || !text.includes("pg_notify")) record(text);
        return query(...args);
      },
    });
  });
  return { db: pool, take };
}
