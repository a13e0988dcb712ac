import { describe, it } from "vitest";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import { exerciseStore, type TestRunner } from "#src/testing/exercise-store/index.js";
import { onSchema } from "./conformance-scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

const NAME = "PostgreSQL among many empty queues";
/** Groups of cases that depend on finding jobs. The others do not depend on the number of lanes. */
const SUBJECTS = new Set([NAME, "insert in a transaction", "claim", "cancel, retry and remove", "concurrency"]);
const group: TestRunner["describe"] = describe;

exerciseStore(
  { describe: (name, cases) => (SUBJECTS.has(name) ? group(name, cases) : undefined), it },
  {
    name: NAME,
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
