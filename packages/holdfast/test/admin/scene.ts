import { addressOf, clientSchema, prepareSchema } from "../postgres/scene.js";
import { postgresServer } from "../postgres/server.js";

// For tests on all stores. Those on SQLite alone need no database of PostgreSQL: they import api-scene.ts.
export * from "./api-scene.js";

const postgres = postgresServer();
prepareSchema(postgres);

/** The stores that the API is tested on, each with the URL of an empty one. */
export const STORES: readonly [name: string, url: () => string][] = [
  ["SQLite", () => "sqlite::memory:"],
  ["PostgreSQL", () => addressOf(postgres.url(), clientSchema(postgres))],
];
