import { QueryCommand } from "@aws-sdk/client-dynamodb";
import { dynamodb, type DynamoStore } from "holdfast/dynamodb";
import { fakeClock } from "holdfast/testing";
import { expect, it, onTestFinished } from "vitest";
import { addAll, claim, newJobs, workerRecord } from "#src/testing/exercise-store/builders.js";
import { Meter } from "./meter.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

const HOUR = 3_600_000;
/** Many jobs, one after another through the proxy. */
const TIMED = { timeout: 90_000 };

/** Purges in chunks until one is not full, as maintenance does. */
async function purgeAll(store: DynamoStore, keep: number | null, limit: number): Promise<number[]> {
  const chunks: number[] = [];
  do chunks.push(await store.purge({ state: "cancelled", before: null, keep, limit }));
  while (chunks.at(-1) === limit);
  return chunks;
}

it("purges everything although the indexes lag", TIMED, async () => {
  const { store, proxy } = await openScene(server, { shards: 4 });
  proxy.lag(0);
  const ids = await addAll(store, newJobs(40, { delayMs: HOUR }));
  await store.cancel(ids);
  // From now on the indexes never change.
  proxy.lag(HOUR);
  expect(await purgeAll(store, null, 10)).toEqual([10, 10, 10, 10, 0]);
});

it("keeps the newest jobs although the indexes lag", async () => {
  const { store, proxy } = await openScene(server, { shards: 4 });
  proxy.lag(0);
  const ids = await addAll(store, newJobs(60, { delayMs: HOUR }));
  for (const id of ids) await store.cancel([id]);
  proxy.lag(HOUR);
  expect(await purgeAll(store, 15, 20)).toEqual([20, 20, 5]);
  expect(await purgeAll(store, 15, 20)).toEqual([0]);
  const left = await Promise.all(ids.map(async (id) => (await store.get(id)) !== null));
  expect(left.map((isLeft, at) => (isLeft ? at : null)).filter((at) => at !== null)).toEqual(
    Array.from({ length: 15 }, (_, nth) => 45 + nth),
  );
});

it("reads the entries of kept jobs once per purge", async () => {
  const { meter, store } = await openMetered();
  const ids = await addAll(store, newJobs(120, { delayMs: HOUR }));
  await store.cancel(ids);
  meter.reset();
  expect(await purgeAll(store, 20, 20)).toEqual([20, 20, 20, 20, 20, 0]);
  // One query for the newest jobs, one per chunk.
  expect(meter.requests.get("Query")).toBeLessThanOrEqual(1 + 6);
});

it("continues a long scan for expired leases", async () => {
  const { table, store: direct } = await openScene(server, { shards: 1 });
  await addAll(direct, newJobs(130));
  const [stale] = await addAll(direct, newJobs(1, { type: "stale" }));
  // A lease that has expired when it starts.
  expect(await claim(direct, { types: ["stale"], leaseMs: -10_000 })).toMatchObject([{ id: stale }]);
  const client = server.client();
  let pages = 0;
  client.middlewareStack.add(
    (next) => async (args) => {
      const input = args.input as { IndexName?: string; Limit?: number };
      if (input.IndexName === undefined) return next(args);
      // Simulates a hundred times as many entries.
      input.Limit = 40;
      pages++;
      const result = await next(args);
      const output = result.output as { Items?: unknown[] };
      output.Items = output.Items?.flatMap((item) => Array.from({ length: 100 }, () => item)) ?? [];
      return result;
    },
    { step: "initialize", name: "a long queue" },
  );
  const store = dynamodb({ client, table, shards: 1 });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
  });
  expect(await store.reapExpiredLeases(10)).toEqual([]);
  expect(pages).toBe(3);
  expect(await store.reapExpiredLeases(10)).toMatchObject([{ id: stale, to: "pending" }]);
  // The remaining pages, and those before the start.
  expect(pages).toBeLessThanOrEqual(3 + 4);
  expect(await store.reapExpiredLeases(10)).toEqual([]);
});

it("reaps expired leases in chunks without reading again", async () => {
  const { meter, store } = await openMetered();
  await addAll(store, newJobs(50));
  expect(await claim(store, { leaseMs: -10_000 })).toHaveLength(50);
  meter.reset();
  const times: number[] = [];
  do times.push((await store.reapExpiredLeases(20)).length);
  while (times.at(-1) === 20);
  expect(times).toEqual([20, 20, 10]);
  expect(meter.requests.get("Query")).toBeLessThanOrEqual(4);
});

/** A store with one shard and counted requests. */
async function openMetered(): Promise<{ meter: Meter; store: DynamoStore }> {
  const meter = new Meter();
  const client = meter.watch(server.client());
  const table = server.newTable();
  const store = dynamodb({ client, table, shards: 1 });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
    await server.drop(table);
  });
  await store.migrate();
  return { meter, store };
}

it("deletes records of workers that are long gone", async () => {
  const clock = fakeClock();
  const { store, table } = await openScene(server, { clock });
  const ids = Array.from({ length: 20 }, (_, nth) => `worker ${nth}`);
  for (const id of ids) await store.heartbeat(workerRecord({ id }));
  await clock.advance("2h");
  await store.heartbeat(workerRecord({ id: "worker 7" }));
  expect((await store.workers()).map(({ id }) => id)).toEqual(["worker 7"]);
  await store.maintain();
  const client = server.client();
  onTestFinished(() => client.destroy());
  const { Items = [] } = await client.send(
    new QueryCommand({
      TableName: table,
      KeyConditionExpression: "pk = :pk",
      ExpressionAttributeValues: { ":pk": { S: "workers" } },
    }),
  );
  expect(Items.map(({ sk }) => sk?.S)).toEqual(["worker 7"]);
});
