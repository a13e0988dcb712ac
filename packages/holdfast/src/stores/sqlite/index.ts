/** The SQLite store, for those who open it themselves: `holdfast({ store: sqlite("jobs.db", { durability: "normal" }) })`. */
export { openSqlite as sqlite } from "./open.js";
export type { SqliteOptions } from "./open.js";
