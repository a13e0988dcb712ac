import type { Clock } from "#src/clock.js";
import { openPostgres } from "#src/stores/postgres/open.js";
import type { CallerTransaction, StoreUnderTest } from "#src/testing/exercise-store/index.js";
import type { postgresServer } from "./server.js";

type Server = ReturnType<typeof postgresServer>;

/** A store on a schema of its own, which serves as a database and is made in a moment. */
export async function onSchema(server: Server, clock: Clock): Promise<StoreUnderTest & { schema: string }> {
  const schema = server.newSchema();
  const address = `${server.url()}?schema=${schema}`;
  return {
    schema,
    store: openPostgres(address, { clock }),
    again: async () => openPostgres(address, { clock }),
    address,
    begin: () => transaction(server),
    dispose: async () => void (await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)),
  };
}

async function transaction(server: Server): Promise<CallerTransaction> {
  const tx = await server.client();
  await tx.query("BEGIN");
  const end = (how: string) => async () => {
    await tx.query(how);
    await tx.end();
  };
  return { tx, commit: end("COMMIT"), rollback: end("ROLLBACK") };
}
