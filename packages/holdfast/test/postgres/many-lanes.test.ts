import { describe, it } from "vitest";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import { exerciseStore } from "#src/testing/exercise-store/index.js";
import { onSchema } from "./conformance-scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

/** What has to do with finding jobs; the rest is the same, however many lanes there are. */
const SUBJECTS = new Set([
  "PostgreSQL among many empty queues",
  "insert",
  "insert in a transaction",
  "unique keys",
  "claim",
  "settle",
  "cancel, retry and remove",
  "upkeep",
  "schedules: fire",
  "concurrency",
  "processes",
]);

exerciseStore(
  { describe: (name, cases) => (SUBJECTS.has(name) ? describe(name, cases) : undefined), it },
  {
    name: "PostgreSQL among many empty queues",
    async create(clock) {
      const under = await onSchema(server, clock);
      await under.store.migrate();
      const { schema } = under;
      await server.query(
        `INSERT INTO ${schema}.lanes SELECT 'empty ' || n, 0, false, 9e15 FROM generate_series(1, 200) AS n`,
      );
      await under.store.claim(claimRequest());
      return under;
    },
  },
);
