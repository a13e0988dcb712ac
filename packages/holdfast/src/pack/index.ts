/** For authors of packs: ready-made jobs with tables of their own on SQLite and PostgreSQL. */
export { checkTransactions } from "./check-transactions.js";
export type { TransactionClient } from "./check-transactions.js";
export { database } from "./database.js";
export type {
  Database,
  DatabaseOptions,
  Dialect,
  PostgresClient,
  PostgresPool,
  SqliteDatabase,
  SqlRow,
  SqlValue,
  Steps,
  Transaction,
  TransactionOptions,
} from "./sql.js";
export { quoteIdentifier } from "./identifier.js";
export { COLUMN_TYPES, readBoolean, readCount, readJson, readTime, readTimeOrNull } from "./columns.js";
export type { ColumnTypes } from "./columns.js";
export { migrate } from "./migrate.js";
export type { PackSchema } from "./migrate.js";
export { requirePeer } from "./require-peer.js";
export { systemClock } from "../clock.js";
export type { Clock, Timer } from "../clock.js";
export { durationMs, instantMs } from "../duration.js";
export type { Duration } from "../duration.js";
export { optionKeys, readName, refuseUnknown, refuseUnknownIn, show } from "../options.js";
