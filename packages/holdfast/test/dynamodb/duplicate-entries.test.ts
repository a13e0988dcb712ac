import { dynamodb, type DynamoStore } from "holdfast/dynamodb";
import { describe, expect, it, onTestFinished } from "vitest";
import { add, claimIds, jobIn } from "#src/testing/exercise-store/builders.js";
import { addSchedule, jobIds } from "#src/testing/exercise-store/schedule-builders.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();

interface QueryOutput {
  Items?: unknown[];
}

/** A store that reads every index entry twice, as happens when an entry is moved during the read. */
async function openReadingTwice(): Promise<DynamoStore> {
  const table = server.newTable();
  const client = server.client();
  client.middlewareStack.add(
    (next) => async (args) => {
      const result = await next(args);
      const output = result.output as QueryOutput;
      if ((args.input as { IndexName?: string }).IndexName !== undefined) {
        output.Items = output.Items?.flatMap((item) => [item, item]) ?? [];
      }
      return result;
    },
    { step: "initialize", name: "read twice" },
  );
  const store = dynamodb({ client, table, shards: 1, marginMs: 0 });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
    await server.drop(table);
  });
  await store.migrate();
  return store;
}

describe("an index entry that is read twice", () => {
  it("is one job in lists", async () => {
    const store = await openReadingTwice();
    const dead = await jobIn(store, "dead", { user: "ada" });
    const running = await jobIn(store, "running");
    expect(await jobIds(store, {})).toEqual([running, dead]);
    expect(await jobIds(store, { states: ["running"] })).toEqual([running]);
    expect(await jobIds(store, { user: "ada" })).toEqual([dead]);
  });

  it("is one job in claims, stats and maintenance", async () => {
    const store = await openReadingTwice();
    const id = await add(store);
    // A lease that has expired when it starts.
    expect(await claimIds(store, { leaseMs: -1_000 })).toEqual([id]);
    const { counts } = await store.stats();
    expect(counts.filter(({ state }) => state === "claimed").map(({ count }) => count)).toEqual([1]);
    expect((await store.reapExpiredLeases(10)).map((job) => job.id)).toEqual([id]);
    await jobIn(store, "dead");
    expect(await store.purge({ state: "dead", before: null, keep: null, limit: 10 })).toBe(1);
  });

  it("is one due schedule", async () => {
    const store = await openReadingTwice();
    const { name } = await addSchedule(store, { nextRunAt: 1 });
    expect((await store.dueSchedules(10)).schedules.map((schedule) => schedule.name)).toEqual([name]);
  });
});
