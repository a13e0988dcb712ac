import { QueryCommand } from "@aws-sdk/client-dynamodb";
import { dynamodb, type DynamoStore } from "holdfast/dynamodb";
import type { NewJob } from "holdfast/store";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { claim, claimOne, finish, insertOne, key, newJob } from "#src/testing/exercise-store/builders.js";
import { addSchedule, newSchedule } from "#src/testing/exercise-store/schedule-builders.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

/** Jobs and schedules that are created again while their predecessor is being deleted. */
const server = dynamoServer();

const LARGE = JSON.stringify("x".repeat(2_000));

interface DelayedStore {
  store: DynamoStore;
  /** Delays requests of this operation that contain `text`, until `release`. */
  delay(operation: string, text: string): { reached: Promise<void>; release: () => void };
}

/** A store whose requests can be delayed. */
function openDelayed(table: string): DelayedStore {
  const client = server.client();
  let delayed: { operation: string; text: string; reach: () => void; gate: Promise<void> } | null = null;
  client.middlewareStack.add(
    (next, context) => async (args) => {
      if (delayed !== null && isDelayed(delayed, context["commandName"], args.input)) {
        delayed.reach();
        await delayed.gate;
      }
      return next(args);
    },
    { step: "initialize", name: "delay" },
  );
  const store = dynamodb({ client, table });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
  });
  return {
    store,
    delay(operation, text) {
      let release = (): void => {};
      const gate = new Promise<void>((resolve) => (release = resolve));
      const reached = new Promise<void>((resolve) => (delayed = { operation, text, reach: resolve, gate }));
      return { reached, release };
    },
  };
}

function isDelayed({ operation, text }: { operation: string; text: string }, name: unknown, input: object): boolean {
  return name === `${operation}Command` && JSON.stringify(input).includes(text);
}

describe("a job keeps its input while a job of the same id is", () => {
  it.each<[string, (store: DynamoStore, job: NewJob) => Promise<() => Promise<unknown>>]>([
    [
      "removed",
      async (store, { id }) =>
        () =>
          store.remove([id]),
    ],
    [
      "purged",
      async (store, { id }) => {
        await store.cancel([id]);
        return () => store.purge({ state: "cancelled", before: null, keep: null, limit: 10 });
      },
    ],
    [
      "completed and not kept",
      async (store) => {
        const [leased] = await claim(store);
        return async () => leased !== undefined && finish(store, leased, "completed", { keep: false });
      },
    ],
  ])("%s", async (_what, prepare) => {
    const { store, table } = await openScene(server);
    const slow = openDelayed(table);
    const job = newJob({ input: LARGE });
    await insertOne(store, job);
    // With a log, so that there is more to delete.
    const begun = await claimOne(store);
    await store.note([{ id: job.id, fence: begun.fence, progress: null, log: [{ at: 1, line: "begun" }] }]);
    await finish(store, begun, "pending");
    const end = await prepare(slow.store, job);
    const { reached, release } = slow.delay("Query", "job#");
    const ending = end();
    await reached;
    expect(await insertOne(store, job)).toEqual({ status: "inserted" });
    release();
    await ending;
    expect(await claim(store)).toMatchObject([{ id: job.id, input: LARGE }]);
  });
});

it("deletes an abandoned input with the next job of that id", async () => {
  const clock = fakeClock();
  const { store, table, proxy } = await openScene(server, { clock });
  const job = newJob({ input: LARGE });
  const refused = proxy.refuse("AccessDeniedException", 1, ({ text }) => text.includes(`"sk":{"S":"job"}`));
  await expect(insertOne(store, job)).rejects.toMatchObject({ code: "STORE_UNREADABLE" });
  refused.end();
  await clock.advance("2h");
  await insertOne(store, job);
  expect(await inputsOf(table, job.id)).toBe(2);
  expect(await store.remove([job.id])).toEqual(["removed"]);
  expect(await inputsOf(table, job.id)).toBe(0);
});

async function inputsOf(table: string, id: string): Promise<number> {
  const client = server.client();
  const { Count } = await client.send(
    new QueryCommand({
      TableName: table,
      KeyConditionExpression: "pk = :pk AND begins_with(sk, :input)",
      ExpressionAttributeValues: { ":pk": { S: `job#${id}` }, ":input": { S: "input#" } },
    }),
  );
  client.destroy();
  return Count ?? 0;
}

it("a schedule keeps its input while one of the same name is removed", async () => {
  const { store, table } = await openScene(server);
  await addSchedule(store, { input: LARGE });
  const slow = openDelayed(table);
  const { reached, release } = slow.delay("Query", "slots#");
  const removing = slow.store.removeSchedule("digest");
  await reached;
  expect(await store.putSchedule(newSchedule({ input: LARGE, nextRunAt: 1 }), null)).toBe("put");
  release();
  expect(await removing).toBe(true);
  expect((await store.dueSchedules(10)).schedules).toMatchObject([{ name: "digest", input: LARGE }]);
});

describe("a job whose predecessor left its unique key", () => {
  it.each([
    ["not kept", { keep: false }],
    ["kept for a second", { keepMs: 1_000 }],
  ])("can be enqueued after a predecessor that was %s", async (_what, outcome) => {
    const clock = fakeClock();
    const { store, proxy } = await openScene(server, { clock });
    const job = newJob({ unique: key("k") });
    await insertOne(store, job);
    // Simulates a crash between the two requests.
    const crash = proxy.refuse("AccessDeniedException", 1, ({ operation, text }) => {
      return operation === "DeleteItem" && text.includes("key#k");
    });
    await finish(store, await claimOne(store), "completed", outcome);
    crash.end();
    await clock.advance("5s");
    expect(await store.get(job.id)).toBeNull();
    expect(await insertOne(store, job)).toEqual({ status: "inserted" });
    const other = newJob({ unique: key("k") });
    expect(await insertOne(store, other)).toEqual({ status: "duplicate", of: job.id, replaced: false });
  });

  it("keeps the key when the predecessor deletes it late", async () => {
    const { store, table } = await openScene(server);
    const slow = openDelayed(table);
    const job = newJob({ unique: key("k") });
    await insertOne(store, job);
    const leased = await claimOne(slow.store);
    const { reached, release } = slow.delay("DeleteItem", "key#k");
    const finishing = finish(slow.store, leased, "completed", { keep: false });
    await reached;
    expect(await insertOne(store, job)).toEqual({ status: "inserted" });
    release();
    await finishing;
    const other = newJob({ unique: key("k") });
    expect(await insertOne(store, other)).toEqual({ status: "duplicate", of: job.id, replaced: false });
  });
});

it("an update of a deleted job is missing and registers no queue", async () => {
  const { store } = await openScene(server);
  const job = newJob();
  await insertOne(store, job);
  await store.remove([job.id]);
  expect(await store.update([{ id: job.id, queue: "other", input: LARGE }])).toEqual([{ status: "missing" }]);
  expect((await store.queues()).map(({ queue }) => queue)).toEqual(["default"]);
});
