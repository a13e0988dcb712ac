import { GetItemCommand, QueryCommand, type AttributeValue, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { dynamodb, type DynamoStore } from "holdfast/dynamodb";
import { LIMITS } from "holdfast/store";
import { fakeClock, type FakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { newEntry, newTokenRecord } from "#src/testing/exercise-store/builders.js";
import { Recorder } from "./recorder.js";
import { openScene } from "./scene.js";
import { dynamoServer } from "./server.js";

const server = dynamoServer();
const DAY = 86_400_000;
const START = Date.UTC(2026, 0, 10);

interface Opened {
  store: DynamoStore;
  clock: FakeClock;
  recorder: Recorder;
  items: (pk: string) => Promise<Record<string, AttributeValue>[]>;
}

/** A store on a new table, with a test clock and recorded requests. */
async function open(): Promise<Opened> {
  const table = server.newTable();
  const clock = fakeClock(START);
  const recorder = new Recorder();
  const client: DynamoDBClient = recorder.watch(server.client());
  const store = dynamodb({ client, table, clock });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
    await server.drop(table);
  });
  await store.migrate();
  const items = async (pk: string): Promise<Record<string, AttributeValue>[]> => {
    const ExpressionAttributeValues = { ":pk": { S: pk } };
    const query = new QueryCommand({ TableName: table, KeyConditionExpression: "pk = :pk", ExpressionAttributeValues });
    return (await client.send(query)).Items ?? [];
  };
  return { store, clock, recorder, items };
}

const first = { limit: 10, cursor: null } as const;

describe("the audit log in DynamoDB", () => {
  it("hides an expired entry before DynamoDB deletes it", async () => {
    const { store, clock, items } = await open();
    const [entry, endless] = [newEntry({ keepMs: 90 * DAY }), newEntry()];
    await store.audit([entry, endless]);
    const ttl = { N: String((START + 90 * DAY) / 1_000) };
    expect(await items("audit#2026-01")).toMatchObject([{ id: { S: entry.id }, ttl }, { id: { S: endless.id } }]);
    expect(await items(`audit-id#${entry.id}`)).toMatchObject([{ ttl }]);
    for (const pk of ["audit#2026-01", `audit-id#${endless.id}`])
      expect((await items(pk)).at(-1)).not.toHaveProperty("ttl");
    await clock.advance(90 * DAY - 1);
    expect((await store.listAudit({}, first)).entries).toHaveLength(2);
    await clock.advance(1);
    expect((await store.listAudit({}, first)).entries.map(({ id }) => id)).toEqual([endless.id]);
  });

  it("lists by reading only months that have entries", async () => {
    const { store, clock, recorder } = await open();
    await store.audit([newEntry()]);
    await clock.advance(3_650 * DAY);
    await store.audit([newEntry()]);
    recorder.requests.length = 0;
    expect((await store.listAudit({}, first)).entries).toHaveLength(2);
    expect(recorder.requests.map(({ operation }) => operation)).toEqual(["Query", "Query", "Query"]);
    recorder.requests.length = 0;
    expect((await store.listAudit({ after: clock.now() - DAY }, first)).entries).toHaveLength(1);
    expect(recorder.requests).toHaveLength(2);
  });

  it("limits the entries that one page reads", async () => {
    const { store, recorder } = await open();
    const rare = newEntry({ actor: "rare" });
    await store.audit([rare]);
    for (let n = 0; n < 21; n++) await store.audit(Array.from({ length: LIMITS.auditEntries }, () => newEntry()));
    recorder.requests.length = 0;
    const page = await store.listAudit({ actor: "rare" }, { limit: 1, cursor: null });
    expect(page.entries).toEqual([]);
    expect(page.cursor).not.toBeNull();
    expect(recorder.requests).toHaveLength(5);
    for (const { input } of recorder.requests) expect(input).not.toHaveProperty("FilterExpression");
    const rest = await store.listAudit({ actor: "rare" }, { limit: 1, cursor: page.cursor });
    expect([rest.entries.map(({ id }) => id), rest.cursor]).toEqual([[rare.id], null]);
  }, 120_000);

  it("purges entries with their ids and months", async () => {
    const { store, clock, items } = await open();
    const entry = newEntry();
    await store.audit([entry]);
    await clock.advance(60 * DAY);
    await store.audit([newEntry()]);
    expect((await items("audit")).map(({ sk }) => sk?.S)).toEqual(["2026-01", "2026-03"]);
    expect(await store.purgeAudit({ before: clock.now(), limit: 10 })).toBe(1);
    expect((await items("audit")).map(({ sk }) => sk?.S)).toEqual(["2026-03"]);
    expect([...(await items(`audit-id#${entry.id}`)), ...(await items("audit#2026-01"))]).toEqual([]);
  });
});

describe("after a lost response", () => {
  const transaction = (part: string) => (sent: { operation: string; text: string }) =>
    sent.operation === "TransactWriteItems" && sent.text.includes(part);

  it("appends an entry once", async () => {
    const { store, proxy } = await openScene(server);
    const entries = [newEntry(), newEntry()];
    const lost = proxy.loseNextResponse(transaction("audit-id#"));
    await store.audit(entries);
    await lost;
    const found = await store.listAudit({}, first);
    expect(found.entries.map(({ id }) => id)).toEqual(entries.map(({ id }) => id).toReversed());
  });

  it("puts, counts and removes a token once", async () => {
    const { store, proxy, table } = await openScene(server);
    const token = newTokenRecord();
    let lost = proxy.loseNextResponse(transaction("token-count"));
    expect(await store.putToken(token)).toBe("put");
    await lost;
    expect(await store.listTokens()).toEqual([token]);
    lost = proxy.loseNextResponse(transaction("token-count"));
    expect(await store.removeToken(token.id)).toBe(true);
    await lost;
    expect(await store.listTokens()).toEqual([]);
    const client = server.client();
    const Key = { pk: { S: "token-count" }, sk: { S: "token-count" } };
    const { Item } = await client.send(new GetItemCommand({ TableName: table, Key }));
    client.destroy();
    expect(Item?.["n"]).toEqual({ N: "0" });
  });
});
