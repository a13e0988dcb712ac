import { describe, it } from "vitest";
import type { Clock } from "#src/clock.js";
import { openPostgres } from "#src/stores/postgres/open.js";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import { exerciseStore, type CallerTransaction, type StoreUnderTest } from "#src/testing/exercise-store/index.js";
import { postgresServer } from "./server.js";

const server = postgresServer();

exerciseStore(
  { describe, it },
  {
    name: "PostgreSQL",
    createUnmigrated: onSchema,
    async create(clock) {
      const under = await onSchema(clock);
      await under.store.migrate();
      // After one that finds nothing, claims begin with the quick statement; those in whose way something is, and those
      // after a full one, come to the whole one.
      await under.store.claim(claimRequest());
      return under;
    },
  },
);

/** A schema of its own is as good as a database, and made in a moment. */
async function onSchema(clock: Clock): Promise<StoreUnderTest> {
  const schema = server.newSchema();
  const address = `${server.url()}?schema=${schema}`;
  return {
    store: openPostgres(address, { clock }),
    again: async () => openPostgres(address, { clock }),
    address,
    begin: transaction,
    dispose: async () => void (await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)),
  };
}

async function transaction(): Promise<CallerTransaction> {
  const tx = await server.client();
  await tx.query("BEGIN");
  const end = (how: string) => async () => {
    await tx.query(how);
    await tx.end();
  };
  return { tx, commit: end("COMMIT"), rollback: end("ROLLBACK") };
}
