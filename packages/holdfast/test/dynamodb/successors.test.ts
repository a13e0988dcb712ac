import { QueryCommand } from "@aws-sdk/client-dynamodb";
import { dynamodb, type DynamoStore } from "holdfast/dynamodb";
import type { NewJob } from "holdfast/store";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { claim, claimOne, finish, insertOne, newJob } from "#src/testing/exercise-store/builders.js";
import { addSchedule, newSchedule } from "#src/testing/exercise-store/schedule-builders.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

/** A job or a schedule that is made anew under the same name while its predecessor is being deleted. */
const server = dynamoServer();

const LARGE = JSON.stringify("x".repeat(2_000));

interface HeldUp {
  store: DynamoStore;
  /** Its next query for items of this kind waits from now on, until it is let go. */
  hold(kind: string): { reached: Promise<void>; letGo: () => void };
}

/** A store on a table, some of whose requests can be held up. */
function openHeldUp(table: string): HeldUp {
  const client = server.client();
  let held: { kind: string; reach: () => void; gate: Promise<void> } | null = null;
  client.middlewareStack.add(
    (next, context) => async (args) => {
      if (
        held !== null &&
        context["commandName"] === "QueryCommand" &&
        JSON.stringify(args.input).includes(held.kind)
      ) {
        held.reach();
        await held.gate;
      }
      return next(args);
    },
    { step: "initialize", name: "held up" },
  );
  const store = dynamodb({ client, table });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
  });
  return {
    store,
    hold(kind) {
      let letGo = (): void => {};
      const gate = new Promise<void>((resolve) => (letGo = resolve));
      const reached = new Promise<void>((resolve) => (held = { kind, reach: resolve, gate }));
      return { reached, letGo };
    },
  };
}

describe("a job that is enqueued under the id of one that is being deleted keeps its input", () => {
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
    const slow = openHeldUp(table);
    const job = newJob({ input: LARGE });
    await insertOne(store, job);
    // With something beside it, so that there is more to delete.
    const begun = await claimOne(store);
    await store.note([{ id: job.id, fence: begun.fence, progress: null, log: [{ at: 1, line: "begun" }] }]);
    await finish(store, begun, "pending");
    const end = await prepare(slow.store, job);
    const { reached, letGo } = slow.hold("job#");
    const ending = end();
    await reached;
    expect(await insertOne(store, job)).toEqual({ status: "inserted" });
    letGo();
    await ending;
    expect(await claim(store)).toMatchObject([{ id: job.id, input: LARGE }]);
  });
});

it("an input that an enqueue of long ago left behind goes with the job of that id", async () => {
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

it("a schedule that is put under the name of one that is being removed keeps its input", async () => {
  const { store, table } = await openScene(server);
  await addSchedule(store, { input: LARGE });
  const slow = openHeldUp(table);
  const { reached, letGo } = slow.hold("slots#");
  const removing = slow.store.removeSchedule("digest");
  await reached;
  expect(await store.putSchedule(newSchedule({ input: LARGE, nextRunAt: 1 }), null)).toBe("put");
  letGo();
  expect(await removing).toBe(true);
  expect((await store.dueSchedules(10)).schedules).toMatchObject([{ name: "digest", input: LARGE }]);
});
