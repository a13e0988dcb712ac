import { describe, it } from "vitest";
import { systemClock, type Clock } from "#src/clock.js";
import { openPostgres } from "#src/stores/postgres/open.js";
import { claimRequest } from "#src/testing/exercise-store/builders.js";
import {
  exerciseStore,
  type CallerTransaction,
  type StoreHarness,
  type StoreUnderTest,
} from "#src/testing/exercise-store/index.js";
import { CONFORMANCE_PARTS, type ConformancePart } from "../conformance-parts.js";
import { schemaPool } from "./schema-pool.js";
import { postgresServer, type Server } from "./server.js";

export interface StoreOnSchema extends StoreUnderTest {
  schema: string;
}

/** The conformance suite's stores on PostgreSQL. */
export function onPostgres(server: Server): Pick<StoreHarness, "create" | "createUnmigrated"> {
  return {
    createUnmigrated: (clock) => onNewSchema(server, clock),
    async create(clock) {
      const under = await onMigratedSchema(server, clock);
      // After a claim that finds nothing, claims start with the quick statement. A case whose jobs are blocked, and a claim
      // after a full batch, reach the complete one.
      await under.store.claim(claimRequest());
      return under;
    },
  };
}

/** Runs one part of the conformance suite. */
export function conforms(part: ConformancePart): void {
  const server = postgresServer();
  exerciseStore({ describe, it }, { name: "PostgreSQL", subjects: CONFORMANCE_PARTS[part], ...onPostgres(server) });
}

/** A store on a new schema, not migrated. */
async function onNewSchema(server: Server, clock: Clock): Promise<StoreOnSchema> {
  const schema = server.newSchema();
  const dispose = async (): Promise<void> => void (await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`));
  return { ...storeOn(server, schema, clock), dispose };
}

/**
 * A store on a migrated schema that other cases may have used before. A case on the system's clock gets a new one: the
 * processes that it kills may still have a statement running.
 */
export async function onMigratedSchema(server: Server, clock: Clock): Promise<StoreOnSchema> {
  if (clock === systemClock) {
    const opened = await onNewSchema(server, clock);
    await opened.store.migrate();
    return opened;
  }
  const pool = schemaPool(server);
  const schema = await pool.acquire();
  return { ...storeOn(server, schema, clock), dispose: () => pool.release(schema) };
}

function storeOn(server: Server, schema: string, clock: Clock): Omit<StoreOnSchema, "dispose"> {
  const address = `${server.url()}?schema=${schema}`;
  return {
    schema,
    store: openPostgres(address, { clock }),
    again: async () => openPostgres(address, { clock }),
    address,
    begin: () => transaction(server),
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
