import { describe, it } from "vitest";
import type { Clock } from "#src/clock.js";
import { openStore } from "#src/engine/open-store.js";
import { exerciseStore, type StoreUnderTest } from "#src/testing/exercise-store/index.js";
import { dynamoServer } from "./server.js";

/** The conformance suite, on tables with so many shards. */
export function conforms(name: string, shards: number): void {
  const server = dynamoServer();
  const onTable = async (clock: Clock): Promise<StoreUnderTest> => {
    const table = server.newTable();
    // Leases that end to the instant: what the default settings save is proven where the units are counted.
    const address = server.address(table, `&marginMs=0&slack=0&shards=${shards}`);
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
      many: 400,
      createUnmigrated: onTable,
      async create(clock) {
        const under = await onTable(clock);
        await under.store.migrate();
        return under;
      },
    },
  );
}
