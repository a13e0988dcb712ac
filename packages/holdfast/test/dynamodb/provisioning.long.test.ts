import { DescribeTableCommand, UpdateTableCommand } from "@aws-sdk/client-dynamodb";
import { expect, it } from "vitest";
import { add } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { migratedShape, openUnmigrated } from "./provisioning-scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

// The emulator takes half a minute to delete and create two indexes.
it("migrate adds missing indexes and keeps the jobs", async () => {
  const opened = openUnmigrated(server);
  const { store, client, table } = opened;
  await store.migrate();
  const whole = await migratedShape(opened);
  const id = await add(store, { user: "ada" });
  for (const IndexName of ["owned", "expiring"]) {
    await client.send(
      new UpdateTableCommand({ TableName: table, GlobalSecondaryIndexUpdates: [{ Delete: { IndexName } }] }),
    );
    // One index at a time; the emulator takes a while.
    await until(`${IndexName} to be gone`, async () => {
      const { Table } = await client.send(new DescribeTableCommand({ TableName: table }));
      return Table?.GlobalSecondaryIndexes?.every((index) => index.IndexName !== IndexName) === true;
    });
  }
  await store.migrate();
  expect((await migratedShape(opened)).indexes).toEqual(whole.indexes);
  const { jobs } = await store.list({ user: "ada" }, { limit: 10, cursor: null });
  expect(jobs.map((job) => job.id)).toEqual([id]);
}, 90_000);
