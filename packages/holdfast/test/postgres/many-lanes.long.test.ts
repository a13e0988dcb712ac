import { describe, it } from "vitest";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import { exerciseStore } from "#src/testing/exercise-store/index.js";
import { onMigratedSchema } from "./conformance-scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

exerciseStore(
  { describe, it },
  {
    name: "PostgreSQL among many empty queues",
    // The subjects that depend on how jobs are found.
    subjects: ["insert in a transaction", "claim", "cancel, retry and remove", "concurrency"],
    async create(clock) {
      const under = await onMigratedSchema(server, clock);
      const { schema } = under;
      await server.query(
        `INSERT INTO ${schema}.lanes SELECT 'empty ' || n, 0, false, 9e15 FROM generate_series(1, 200) AS n`,
      );
      await under.store.claim(claimRequest());
      return under;
    },
  },
);
