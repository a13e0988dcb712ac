import { describe, it } from "vitest";
import { openStore } from "#src/engine/open-store.js";
import { compareWithModel } from "#src/testing/model-run.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

describe.each([1, 3])("DynamoDB with %i shards", (shards) => {
  it("cannot be told from the reference model", { timeout: 600_000 }, async () => {
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
      { runs: 10, seed: process.env["HOLDFAST_SEED"] },
    );
  });
});
