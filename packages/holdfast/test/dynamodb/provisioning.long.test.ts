import { DescribeTableCommand, UpdateTableCommand } from "@aws-sdk/client-dynamodb";
import { expect, it } from "vitest";
import { add } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { migratedShape, openUnmigrated } from "./provisioning-scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

// The emulator takes half a minute to delete and create the indexes.
it("migrate adds missing indexes and keeps the jobs", async () => {
  const opened = openUnmigrated(server);
  const { store, client, table } = opened;
  await store.migrate();
  const whole = await migratedShape(opened);
  const parent = "018f4d2e-7b3a-7c11-8a55-00000000000a";
  const id = await add(store, { user: "ada", parent });
  for (const IndexName of ["owned", "expiring", "children"]) {
    await client.send(
      new UpdateTableCommand({ TableName: table, GlobalSecondaryIndexUpdates: [{ Delete: { IndexName } }] }),
    );
    // One index at a time; the emulator takes a while.
    await until(`${IndexName} to be gone`, async () => {
      const { Table } = await client.send(new DescribeTableCommand({ TableName: table }));
      return Table?.GlobalSecondaryIndexes?.every((index) => index.IndexName !== IndexName) === true;
    });
  }
  const children = async (): Promise<string[]> =>
    (await store.list({ parent }, { limit: 10, cursor: null })).jobs.map((job) => job.id);
  expect(await children()).toEqual([id]);
  await store.migrate();
  // `migrate` does not wait for this index.
  expect(await children()).toEqual([id]);
  expect((await migratedShape(opened)).indexes).toEqual(whole.indexes);
  const { jobs } = await store.list({ user: "ada" }, { limit: 10, cursor: null });
  expect(jobs.map((job) => job.id)).toEqual([id]);
}, 90_000);
