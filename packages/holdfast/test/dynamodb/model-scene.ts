import { describe, it } from "vitest";
import { openStore } from "#src/engine/open-store.js";
import { compareWithModel } from "#src/testing/model-run.js";
import { dynamoServer } from "./server.js";

/** Compares stores on tables with so many shards with the reference model. */
export function comparesWithModel({ shards, runs }: { shards: number; runs: number }): void {
  const server = dynamoServer();
  describe(`DynamoDB with ${shards} shards`, () => {
    it("matches the reference model", { timeout: 60_000 * runs }, async () => {
      await compareWithModel(
        async (clock) => {
          const table = server.newTable();
          const address = server.address(table, `&shards=${shards}&marginMs=0&slack=0`);
          const store = await openStore(address, { clock });
          await store.migrate();
          return {
            store,
            address,
            again: () => openStore(address, { clock }),
            dispose: () => server.drop(table),
          };
        },
        { runs, seed: process.env["HOLDFAST_SEED"] },
      );
    });
  });
}
