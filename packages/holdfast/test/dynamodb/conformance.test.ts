import { describe, it } from "vitest";
import type { Clock } from "#src/clock.js";
import { openStore } from "#src/engine/open-store.js";
import { exerciseStore, type StoreUnderTest } from "#src/testing/exercise-store/index.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

// Leases that end to the instant: what the default settings save is proven where the units are counted.
const EXACT = "&marginMs=0&slack=0";

for (const [name, query] of [
  ["DynamoDB with one shard", `${EXACT}&shards=1`],
  ["DynamoDB with four shards", `${EXACT}&shards=4`],
] as const) {
  const onTable = async (clock: Clock): Promise<StoreUnderTest> => {
    const table = server.newTable();
    const address = server.address(table, query);
    return {
      store: await openStore(address, { clock }),
      again: () => openStore(address, { clock }),
      address,
      dispose: () => server.drop(table),
    };
  };
  exerciseStore(
    { describe, it },
    {
      name,
      many: 1_000,
      createUnmigrated: onTable,
      async create(clock) {
        const under = await onTable(clock);
        await under.store.migrate();
        return under;
      },
    },
  );
}
