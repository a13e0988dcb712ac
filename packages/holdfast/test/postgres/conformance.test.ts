import { describe, it } from "vitest";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import { exerciseStore } from "#src/testing/exercise-store/index.js";
import { onSchema } from "./conformance-scene.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

exerciseStore(
  { describe, it },
  {
    name: "PostgreSQL",
    createUnmigrated: (clock) => onSchema(server, clock),
    async create(clock) {
      const under = await onSchema(server, clock);
      await under.store.migrate();
      // After one that finds nothing, claims begin with the quick statement; those in whose way something is, and those
      // after a full one, come to the whole one.
      await under.store.claim(claimRequest());
      return under;
    },
  },
);
