import { GetItemCommand, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { describe, expect, it, onTestFinished } from "vitest";
import { claimOne, finish, insertOne, key, newJob } from "#src/testing/exercise-store/builders.js";
import { addSchedule, fireAll, firingFor, scheduleOf } from "#src/testing/exercise-store/schedule-builders.js";
import { openScene, type Scene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();
const unique = key("invoice-7", { scope: "forever" });

/** A table with a job whose unique key is held forever. Earlier builds stored that as `ever`, and read it so. */
async function openWithKeyForever(): Promise<Scene & { id: string }> {
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
    const { Item } = await client.send(new GetItemCommand({ TableName: scene.table, Key }));
    expect(Item?.["scope"]).toEqual({ S: "ever" });
  }
  return { ...scene, id: job.id };
}

it("keeps a key that is held forever after its job", async () => {
  const { store, id } = await openWithKeyForever();
  await finish(store, await claimOne(store), "completed", { keep: false });
  expect(await store.get(id)).toBeNull();
  expect(await insertOne(store, newJob({ unique }))).toEqual({ status: "duplicate", of: id, replaced: false });
});

it("frees a key that is held forever when its job is removed", async () => {
  const { store, id } = await openWithKeyForever();
  expect(await store.remove([id])).toEqual(["removed"]);
  expect(await insertOne(store, newJob({ unique }))).toEqual({ status: "inserted" });
});

it("reads the earlier slot reason of manual runs", async () => {
  const { store, table } = await openScene(server);
  const schedule = await addSchedule(store, { nextRunAt: 1_000 });
  await fireAll(store, firingFor(schedule, [1_000]));
  const client = server.client();
  onTestFinished(() => client.destroy());
  const slot = { slot: 1_000, through: null, job: null, reason: "by hand", at: 1_000 };
  await client.send(
    new UpdateItemCommand({
      TableName: table,
      Key: { pk: { S: `slots#${schedule.name}` }, sk: { S: "made#0" } },
      UpdateExpression: "SET #slot = :slot",
      ConditionExpression: "attribute_exists(#slot)",
      ExpressionAttributeNames: { "#slot": "slot" },
      ExpressionAttributeValues: { ":slot": { S: JSON.stringify(slot) } },
    }),
  );
  expect((await scheduleOf(store)).slots).toEqual([{ ...slot, reason: "manual" }]);
});

describe("pauses of earlier builds, which store only a time", () => {
  const Key = { pk: { S: "config" }, sk: { S: "config" } };

  /** Changes the shared config as an earlier build does. */
  async function change(table: string, expression: string, at?: number): Promise<void> {
    const client = server.client();
    await client.send(
      new UpdateItemCommand({
        TableName: table,
        Key,
        UpdateExpression: expression,
        ...(at !== undefined && { ExpressionAttributeValues: { ":at": { N: String(at) } } }),
      }),
    );
    client.destroy();
  }
  const paused = async ({ store }: Scene): Promise<unknown> =>
    (await store.queues()).map(({ queue, pausedAt, pausedBy }) => [queue, pausedAt, pausedBy]);

  it("have no name, and are resumed", async () => {
    const scene = await openScene(server);
    await change(scene.table, "REMOVE paused_by SET paused.mail = :at", 7);
    expect(await paused(scene)).toEqual([["mail", 7, null]]);
    await scene.store.pause("mail", "ada");
    expect(await paused(scene)).toEqual([["mail", 7, null]]);
    await scene.store.resume("mail");
    expect(await paused(scene)).toEqual([]);
    await scene.store.pause("mail", "ada");
    expect(await paused(scene)).toMatchObject([["mail", expect.any(Number), "ada"]]);
  });

  it("do not get the name of a pause that they resumed", async () => {
    const scene = await openScene(server);
    await scene.store.pause("mail", "ada");
    await change(scene.table, "REMOVE paused.mail");
    expect(await paused(scene)).toEqual([]);
    await change(scene.table, "SET paused.mail = :at", 8);
    expect(await paused(scene)).toEqual([["mail", 8, null]]);
  });
});
