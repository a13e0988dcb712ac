import { spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { UpdateTableCommand } from "@aws-sdk/client-dynamodb";
import { DynamoDBStreamsClient } from "@aws-sdk/client-dynamodb-streams";
import { dynamodb, type DynamoStore } from "holdfast/dynamodb";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { add, addAll, claimOne, finish, MINUTE, newJobs } from "#src/testing/exercise-store/builders.js";
import { startChild } from "../sqlite/child.js";
import { copyOfThePackage } from "../without-driver.js";
import { FollowedPages, switchStream } from "./followed.js";
import { Recorder } from "./recorder.js";
import { openScene } from "./scene.js";
import { dynamoServer, REGION } from "./server.js";

/** Following jobs by the table's stream. The conformance suite covers what it contains. */
const server = dynamoServer();
const STREAM = { stream: true };

/** A store whose requests are recorded, with those to the stream. */
function recorded(table: string, options: object = {}): { store: DynamoStore; recorder: Recorder } {
  const recorder = new Recorder();
  const client = recorder.watch(server.client());
  const streamsClient = recorder.watch(new DynamoDBStreamsClient({ endpoint: server.endpoint(), region: REGION }));
  const store = dynamodb({ client, streamsClient, table, ...options });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
    streamsClient.destroy();
  });
  return { store, recorder };
}
const countOf = ({ requests }: Recorder, operation: string): number =>
  requests.filter((request) => request.operation === operation).length;

describe("a follower", () => {
  it("sees what a process did that was killed at once", async () => {
    const { store, table } = await openScene(server, STREAM);
    const reader = new FollowedPages(store, await store.recordTransitions(MINUTE));
    const child = startChild("complete-and-die.mjs", [server.address(table)]);
    const id = await add(store, { type: "hello" });
    expect(await child.ended()).toBe("SIGKILL");
    await reader.untilState(id, "completed");
    expect(reader.statesOf(id).filter((to) => to !== "running")).toEqual(["pending", "claimed", "completed"]);
  });

  it("begins at once, and no process records for it", async () => {
    const { table } = await openScene(server, STREAM);
    const { store, recorder } = recorded(table);
    const reader = new FollowedPages(store, await store.recordTransitions(MINUTE));
    const id = await add(store);
    await finish(store, await claimOne(store));
    await reader.untilState(id, "completed");
    await store.close();
    const written = recorder.requests.map(({ input }) => JSON.stringify(input));
    expect(written.filter((text) => /"following"|follow_until|"transitions#|"position#/.test(text))).toEqual([]);
  });

  it("reads a shard at most twice a second", async () => {
    const { table, direct } = await openScene(server, STREAM);
    const { store, recorder } = recorded(table);
    const reader = new FollowedPages(store, await store.recordTransitions(MINUTE));
    const others = Array.from({ length: 5 }, () => new FollowedPages(store, reader.cursor));
    await Promise.all([reader, ...others].map((each) => each.poll()));
    recorder.requests.length = 0;
    const from = performance.now();
    for (let polls = 0; polls < 3; polls++) {
      await add(direct());
      await Promise.all([reader, ...others].map((each) => each.poll()));
    }
    expect(countOf(recorder, "GetRecords")).toBeLessThanOrEqual((performance.now() - from) / 500 + 1);
    expect(recorder.requests.map(({ operation }) => operation)).not.toContain("DescribeStream");
    const id = await add(direct());
    for (const each of [reader, ...others]) await each.untilState(id, "pending");
  });

  it("reads nothing while it is not polled", async () => {
    const { table } = await openScene(server, STREAM);
    const { store, recorder } = recorded(table);
    await store.recordTransitions(MINUTE);
    await store.recordTransitions(MINUTE);
    expect(countOf(recorder, "GetRecords")).toBe(0);
  });

  it("continues in another process", async () => {
    const { store, direct } = await openScene(server, STREAM);
    const reader = new FollowedPages(store, await store.recordTransitions(MINUTE), 3);
    const ids = await addAll(store, newJobs(10));
    await reader.until("a page", () => reader.seen.length > 0);
    const other = new FollowedPages(direct(), reader.cursor, 3);
    await other.until("the others", () => other.seen.length >= 7);
    expect([...reader.seen, ...other.seen].map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
  });

  it("uses the region and endpoint of a given client", async () => {
    const { table } = await openScene(server, STREAM);
    const client = server.client();
    const store = dynamodb({ client, table });
    onTestFinished(async () => {
      await store.close();
      client.destroy();
    });
    const cursor = await store.recordTransitions(MINUTE);
    expect(cursor).toMatch(/^s1\./);
    const reader = new FollowedPages(store, cursor);
    await reader.untilState(await add(store), "pending");
  });
});

describe("a cursor", () => {
  it("expires after 12 minutes", async () => {
    const { store } = await openScene(server, STREAM);
    const [prefix, at, ...others] = (await store.recordTransitions(MINUTE)).split(".");
    const ofAge = (ms: number): string =>
      [prefix, (Number.parseInt(at ?? "", 36) - ms).toString(36), ...others].join(".");
    expect(await store.transitions(ofAge(11 * MINUTE), 10)).toMatchObject({ transitions: [] });
    expect(await store.transitions(ofAge(13 * MINUTE), 10)).toBeNull();
  });

  it("expires when the stream is replaced by another", async () => {
    const { store, table, direct } = await openScene(server, STREAM);
    const cursor = await store.recordTransitions(MINUTE);
    const client = server.client();
    await switchStream(client, table, false);
    await switchStream(client, table, true);
    client.destroy();
    expect(await direct().transitions(cursor, 10)).toBeNull();
    const other = direct();
    const reader = new FollowedPages(other, await other.recordTransitions(MINUTE));
    await reader.untilState(await add(other), "pending");
  });
});

describe("a stream that is switched", () => {
  it("on: followers go on with it and miss nothing", async () => {
    const clock = fakeClock();
    const { store, table } = await openScene(server, { clock });
    const client = server.client();
    const reader = new FollowedPages(store, await store.recordTransitions(MINUTE));
    expect(reader.cursor).not.toMatch(/^s1\./);
    const ids = [await add(store)];
    await reader.poll();
    ids.push(await add(store));
    await switchStream(client, table, true);
    client.destroy();
    ids.push(await add(store));
    expect(await store.recordTransitions(MINUTE)).toMatch(/^s1\./);
    ids.push(await add(store));
    await reader.until("the stream", () => reader.cursor.startsWith("s1."));
    ids.push(await add(store));
    await reader.untilState(ids.at(-1) ?? "", "pending");
    expect([...new Set(reader.seen.map(({ id }) => id))]).toEqual(ids);
  });

  it("off: its rest is returned, and then cursors expire", async () => {
    const { store, table } = await openScene(server, { clock: fakeClock(), ...STREAM });
    const client = server.client();
    const reader = new FollowedPages(store, await store.recordTransitions(MINUTE));
    const id = await add(store);
    await switchStream(client, table, false);
    client.destroy();
    await reader.untilState(id, "pending");
    expect(await reader.poll()).toBe(false);
    const again = new FollowedPages(store, await store.recordTransitions(MINUTE));
    expect(again.cursor).not.toMatch(/^s1\./);
    await again.untilState(await add(store), "pending");
  });

  it("on: processes that cannot read it still record and follow", async () => {
    const clock = fakeClock();
    const { store, again } = await openScene(server, { clock, ...STREAM });
    const without = again({ clock, stream: false });
    const [one, other] = await Promise.all(
      [store, without].map(async (each) => new FollowedPages(each, await each.recordTransitions(MINUTE))),
    );
    const ids = [await add(store), await add(without)];
    for (const reader of [one, other]) {
      await reader?.until("both", () => reader.seen.length === 2);
      expect(reader?.seen.map(({ id }) => id)).toEqual(ids);
    }
    // A cursor of one kind continues in a process of the other kind, or expires.
    const moved = new FollowedPages(store, other?.cursor ?? "");
    await store.recordTransitions(MINUTE);
    await moved.until("the stream", () => moved.cursor.startsWith("s1."));
    expect(await without.transitions(one?.cursor ?? "", 10)).toBeNull();
  });
});

describe("a stream that cannot be read", () => {
  it("does not stop followers: the package is missing", async () => {
    const { table } = await openScene(server, STREAM);
    const folder = copyOfThePackage(tmpdir());
    const scope = join(folder, "node_modules", "@aws-sdk");
    mkdirSync(join(scope, "client-dynamodb-streams"), { recursive: true });
    const sdk = dirname(createRequire(import.meta.url).resolve("@aws-sdk/client-dynamodb/package.json"));
    symlinkSync(sdk, join(scope, "client-dynamodb"), "junction");
    writeFileSync(
      join(scope, "client-dynamodb-streams", "package.json"),
      JSON.stringify({ name: "@aws-sdk/client-dynamodb-streams", main: "missing.js" }),
    );
    writeFileSync(
      join(folder, "main.js"),
      `import { dynamodb } from "./dist/dynamodb.js";
      import { fakeClock } from "./dist/testing.js";
      const store = dynamodb(${JSON.stringify(server.address(table))}, { clock: fakeClock() });
      process.on("warning", ({ code, message }) => code === "STREAM_UNREADABLE" && console.log(message));
      const cursor = await store.recordTransitions(60_000);
      await store.recordTransitions(60_000);
      console.log(cursor.startsWith("s1.") ? "stream" : "records");
      await store.close();`,
    );
    const { stdout, stderr } = spawnSync(process.execPath, [join(folder, "main.js")], { encoding: "utf8" });
    expect({ lines: stdout.trim().split("\n"), stderr }).toMatchObject({
      lines: [expect.stringContaining("npm install @aws-sdk/client-dynamodb-streams"), "records"],
    });
  });

  it("does not stop followers: the permission is missing", async () => {
    const clock = fakeClock();
    const { store, proxy } = await openScene(server, { clock, ...STREAM });
    const warnings: string[] = [];
    const listen = ({ message }: Error): void => void warnings.push(message);
    process.on("warning", listen);
    onTestFinished(() => void process.off("warning", listen));
    proxy.refuse("AccessDeniedException", 1, ({ operation }) => operation === "DescribeStream");
    const reader = new FollowedPages(store, await store.recordTransitions(MINUTE));
    expect(reader.cursor).not.toMatch(/^s1\./);
    await reader.untilState(await add(store), "pending");
    expect(warnings).toEqual([expect.stringMatching(/has a stream that cannot be read: .*not authorized/)]);
  });

  it("is not used if it lacks the old image", async () => {
    const { store, table } = await openScene(server, { clock: fakeClock() });
    const client = server.client();
    const StreamSpecification = { StreamEnabled: true, StreamViewType: "NEW_IMAGE" as const };
    await client.send(new UpdateTableCommand({ TableName: table, StreamSpecification }));
    client.destroy();
    expect(await store.stream()).toBe("unsuitable");
    expect(await store.recordTransitions(MINUTE)).not.toMatch(/^s1\./);
  });
});
