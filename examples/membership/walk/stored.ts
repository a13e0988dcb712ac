import type { Db } from "../site/database.js";

/** The tables that have one of the secrets in a row. */
export function tablesWith(db: Db, secrets: Iterable<string>): string[] {
  const known = [...secrets].filter((secret) => secret !== "");
  const tables = db.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all();
  return tables.filter((table) => {
    const rows = db.prepare(`SELECT * FROM "${table}"`).raw().all() as unknown[][];
    return rows.some((row) => {
      const text = row.map((value) => (Buffer.isBuffer(value) ? value.toString("latin1") : String(value))).join("\n");
      return known.some((secret) => text.includes(secret));
    });
  });
}
