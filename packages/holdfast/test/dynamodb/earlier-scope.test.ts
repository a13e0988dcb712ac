import { UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { expect, it, onTestFinished } from "vitest";
import { claimOne, finish, insertOne, key, newJob } from "#src/testing/exercise-store/builders.js";
import { openScene, type Scene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();
const unique = key("invoice-7", { scope: "forever" });

/** A table with a job whose unique key has the scope `ever`, as earlier builds stored it. */
async function openWithEarlierScope(): Promise<Scene & { id: string }> {
  const scene = await openScene(server);
  const job = newJob({ unique });
  await insertOne(scene.store, job);
  const client = server.client();
  onTestFinished(() => client.destroy());
  const keys = [
    { pk: { S: `job#${job.id}` }, sk: { S: "job" } },
    { pk: { S: `key#${unique.key}` }, sk: { S: "key" } },
  ];
  for (const Key of keys) {
    await client.send(
      new UpdateItemCommand({
        TableName: scene.table,
        Key,
        UpdateExpression: "SET #scope = :earlier",
        ConditionExpression: "#scope = :now",
        ExpressionAttributeNames: { "#scope": "scope" },
        ExpressionAttributeValues: { ":earlier": { S: "ever" }, ":now": { S: "forever" } },
      }),
    );
  }
  return { ...scene, id: job.id };
}

it("keeps a key of the earlier scope ever after its job", async () => {
  const { store, id } = await openWithEarlierScope();
  await finish(store, await claimOne(store), "completed", { keep: false });
  expect(await store.get(id)).toBeNull();
  expect(await insertOne(store, newJob({ unique }))).toEqual({ status: "duplicate", of: id, replaced: false });
});

it("frees a key of the earlier scope ever when its job is removed", async () => {
  const { store, id } = await openWithEarlierScope();
  expect(await store.remove([id])).toEqual(["removed"]);
  expect(await insertOne(store, newJob({ unique }))).toEqual({ status: "inserted" });
});
