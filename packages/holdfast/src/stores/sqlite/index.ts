/** The SQLite store, to open it with options: `holdfast({ store: sqlite("jobs.db", { durability: "normal" }) })`. */
export { openSqlite as sqlite } from "./open.js";
export type { Durability } from "./durability.js";
export type { SqliteOptions } from "./open.js";
