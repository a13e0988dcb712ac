import { dynamodb } from "holdfast/dynamodb";
import { describe, expect, it, onTestFinished } from "vitest";
import { streamText } from "#src/cli/store/stream-state.js";
import { startProxy } from "./proxy.js";
import { described, openUnmigrated } from "./provisioning-scene.js";
import { dynamoServer, REGION } from "./server.js";
import { readTerraform } from "./terraform.js";

const server = dynamoServer();
const BOTH = "NEW_AND_OLD_IMAGES";

describe("with stream: true", () => {
  it("migrate creates the table with a stream", async () => {
    const opened = openUnmigrated(server, 2, { stream: true });
    await opened.store.migrate();
    expect((await described(opened)).StreamSpecification).toEqual({ StreamEnabled: true, StreamViewType: BOTH });
    expect(await streamText(opened.store)).toMatch(/which hf\.follow reads/);
    expect(await opened.store.pendingMigrations?.()).toEqual([]);
  });

  it("the templates have it", () => {
    const { store } = openUnmigrated(server, 2, { stream: true });
    const [table] = Object.values(
      (JSON.parse(store.cloudFormation()) as { Resources: Record<string, { Properties: object }> }).Resources,
    );
    expect(table?.Properties).toMatchObject({ StreamSpecification: { StreamViewType: BOTH } });
    expect(readTerraform(store.terraform()).fields).toMatchObject({ stream_enabled: true, stream_view_type: BOTH });
    const { Statement } = JSON.parse(store.iamPolicy()) as { Statement: { Action: string[]; Resource: string[] }[] };
    expect(Statement[1]?.Action).toEqual([
      "dynamodb:DescribeStream",
      "dynamodb:GetRecords",
      "dynamodb:GetShardIterator",
    ]);
    expect(Statement[1]?.Resource).toEqual([expect.stringMatching(/\/stream\/\*$/)]);
  });

  it("migrate enables it on an existing table", async () => {
    const { store, table, client } = openUnmigrated(server);
    await store.migrate();
    const other = dynamodb({ client, table, stream: true });
    onTestFinished(() => other.close());
    expect(await other.pendingMigrations?.()).toMatchObject([{ title: "the stream", optional: true }]);
    await other.migrate();
    expect(await store.stream()).toBe("enabled");
    // Neither the option nor its absence disables it.
    await store.migrate();
    const without = dynamodb({ client, table, stream: false });
    onTestFinished(() => without.close());
    await without.migrate();
    expect(await store.stream()).toBe("enabled");
  });

  it("migrate works without the permission to enable it", async () => {
    const { store, table } = openUnmigrated(server);
    await store.migrate();
    const proxy = await startProxy(server.endpoint());
    proxy.refuse("AccessDeniedException", 1, ({ operation }) => operation === "UpdateTable");
    const other = dynamodb({ endpoint: proxy.endpoint, region: REGION, table, stream: true });
    onTestFinished(() => other.close());
    await other.migrate();
    expect(await store.stream()).toBe("disabled");
  });
});

it("without the option, a table gets no stream", async () => {
  const { store } = openUnmigrated(server);
  await store.migrate();
  expect(await store.stream()).toBe("disabled");
  expect(await streamText(store)).toMatch(/has no stream/);
  for (const text of [store.cloudFormation(), store.terraform(), store.iamPolicy()])
    expect(text).not.toMatch(/stream/i);
});

it("the URL sets it", () => {
  const store = dynamodb("dynamodb://jobs?region=eu-central-1&stream=true");
  onTestFinished(() => store.close());
  expect(store.terraform()).toMatch(/stream_enabled/);
  expect(() => dynamodb("dynamodb://jobs?stream=maybe")).toThrow(/stream.*"maybe".*true or false/);
});
