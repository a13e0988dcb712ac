import { spawnSync } from "node:child_process";
import { ScanCommand, type AttributeValue } from "@aws-sdk/client-dynamodb";
import { holdfast } from "holdfast";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { dynamoBed } from "#src/bed-dynamodb.js";
import type { Bed } from "#src/bed.js";
import { connectDynamo } from "#src/dynamodb-client.js";
import { noop, payload } from "#src/jobs.js";
import { openRawDynamo } from "#src/raw-dynamodb.js";

// The baseline must write the same items as Holdfast, otherwise the ratio is meaningless.

const JOBS = 20;
const hasJava = process.env["HOLDFAST_BENCH_DYNAMODB"] !== undefined || spawnSync("java", ["-version"]).status === 0;
let bed: Bed;

beforeAll(async () => {
  if (hasJava) bed = await dynamoBed();
}, 60_000);
beforeEach(({ skip }) => {
  if (!hasJava) skip("DynamoDB Local needs Java 17 or later");
});
afterAll(() => (hasJava ? bed.close() : undefined), 60_000);

/** The items of jobs without ids, names and times. */
async function contents(url: string): Promise<unknown[]> {
  const { table, client } = connectDynamo(url);
  const { Items = [] } = await client.send(new ScanCommand({ TableName: table, ConsistentRead: true }));
  client.destroy();
  const jobs = Items.filter((item) => item["sk"]?.S === "job");
  const unlike = new Set(["pk", "listed", "due", "held", "worker", "token", "ttl", "shard", "lane", "list"]);
  const blurred = ([name, value]: [string, AttributeValue]): [string, unknown] => [
    name,
    unlike.has(name) || name.endsWith("_at") ? "set" : value,
  ];
  return jobs.map((item) => Object.fromEntries(Object.entries(item).map(blurred)));
}

it("writes the same items in the baseline and in Holdfast", async () => {
  const [ours, theirs] = [await bed.place([]), await bed.place([])];
  const type = noop(() => {});
  const hf = await holdfast({ store: ours.url, jobs: [type], logger: false });
  const raw = openRawDynamo(theirs.url);
  try {
    await hf.enqueueMany(
      type,
      Array.from({ length: JOBS }, () => payload()),
    );
    await raw.insert(JOBS);
    expect(await contents(theirs.url)).toEqual(await contents(ours.url));

    const [ourLeases, leases] = [await hf.claim({ limit: JOBS }), await raw.claim(JOBS)];
    expect(leases).toHaveLength(JOBS);
    expect(await contents(theirs.url)).toEqual(await contents(ours.url));

    for (const lease of ourLeases) await lease.complete({});
    await raw.settle(leases);
    const blurStart = (items: unknown[]): unknown[] =>
      items.map((item) => ({ ...(item as object), started_at: "set" }));
    expect(blurStart(await contents(theirs.url))).toEqual(blurStart(await contents(ours.url)));
    expect(await raw.claim(1)).toEqual([]);
  } finally {
    await raw.close();
    await hf.close();
  }
  const again = await holdfast({ store: theirs.url, logger: false });
  expect((await again.stats()).states).toMatchObject({ pending: 0, completed: JOBS });
  await again.close();
});

it("fills a table that Holdfast reads correctly", async () => {
  const place = await bed.place([
    { kind: "finished", count: 30 },
    { kind: "future", count: 6 },
    { kind: "due", count: 7 },
  ]);
  const type = noop(() => {});
  const hf = await holdfast({ store: place.url, jobs: [type], logger: false });
  try {
    expect((await hf.stats()).states).toMatchObject({ pending: 13, completed: 30 });
    expect((await hf.list({ state: "completed" })).jobs).toHaveLength(30);
    expect(await hf.drain()).toBe(7);
    expect((await hf.stats()).states).toMatchObject({ pending: 6, completed: 37 });
  } finally {
    await hf.close();
  }
});
