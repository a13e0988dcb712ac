import { describe, it } from "vitest";
import type { Clock } from "#src/clock.js";
import { openStore } from "#src/engine/open-store.js";
import { exerciseStore, type StoreHarness, type StoreUnderTest } from "#src/testing/exercise-store/index.js";
import { CONFORMANCE_PARTS, type ConformancePart } from "../conformance-parts.js";
import { dynamoServer, type Server } from "./server.js";

/** Jobs of the cases with many workers. The storms of the long set have more. */
const MANY = 100;

interface Conforms {
  part?: ConformancePart;
  shards?: number;
  many?: number;
}

/** Runs the conformance suite, or one part of it, on tables with so many shards. */
export function conforms({ part, shards = 1, many = MANY }: Conforms): void {
  const server = dynamoServer();
  const name = `DynamoDB with ${shards === 1 ? "one shard" : `${shards} shards`}`;
  exerciseStore(
    { describe, it },
    { name, many, ...(part && { subjects: CONFORMANCE_PARTS[part] }), ...onDynamoDb(server, shards) },
  );
}

/** The conformance suite's stores on DynamoDB. */
export function onDynamoDb(
  server: Server,
  shards: number,
  query = "",
): Pick<StoreHarness, "create" | "createUnmigrated"> {
  const onTable = async (clock: Clock): Promise<StoreUnderTest> => {
    const table = server.newTable();
    // Leases that end to the millisecond. units.test.ts proves what the default settings save.
    const address = server.address(table, `&marginMs=0&slack=0&shards=${shards}${query}`);
    return {
      store: await openStore(address, { clock }),
      again: () => openStore(address, { clock }),
      address,
      dispose: () => server.drop(table),
    };
  };
  return {
    createUnmigrated: onTable,
    async create(clock) {
      const under = await onTable(clock);
      await under.store.migrate();
      return under;
    },
  };
}
