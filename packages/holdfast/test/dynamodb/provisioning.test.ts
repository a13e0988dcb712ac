import {
  CreateTableCommand,
  PutItemCommand,
  QueryCommand,
  UpdateItemCommand,
  UpdateTableCommand,
  type CreateTableCommandInput,
} from "@aws-sdk/client-dynamodb";
import { describe, expect, it, onTestFinished } from "vitest";
import { pendingMigrationsOf } from "#src/cli/store/schema-check.js";
import { add, claim, claimIds, claimOne, finish, newJob, recordOf } from "#src/testing/exercise-store/builders.js";
import { until } from "#src/testing/exercise-store/until.js";
import { exerciseAll } from "./every-call.js";
import { actionsOf, Recorder } from "./recorder.js";
import { dynamoServer } from "./server.js";
import {
  attributesOf,
  described,
  indexesOf,
  keyOf,
  migratedShape,
  openUnmigrated,
  type Opened,
  type Shape,
} from "./provisioning-scene.js";
import { readTerraform } from "./terraform.js";

// DynamoDB Local deletes and creates an index in half a second, but takes many times that while it has tables of other tests.
const server = dynamoServer({ alone: true });

const PARENT = "018f4d2e-7b3a-7c11-8a55-00000000000a";

const open = (shards?: number): Opened => openUnmigrated(server, shards);

interface Properties extends CreateTableCommandInput {
  TimeToLiveSpecification: { AttributeName: string; Enabled: boolean };
}
interface Template {
  Resources: Record<string, { Type: string; DeletionPolicy: string; Properties: Properties }>;
}

function propertiesIn(template: string): Properties {
  const [resource, ...others] = Object.values((JSON.parse(template) as Template).Resources);
  expect(others).toEqual([]);
  // Deleting the stack must not delete the jobs.
  expect(resource).toMatchObject({ Type: "AWS::DynamoDB::Table", DeletionPolicy: "Retain" });
  return resource?.Properties as Properties;
}

function templateShape(template: string): Shape {
  const { TimeToLiveSpecification: ttl, ...table } = propertiesIn(template);
  return {
    key: keyOf(table.KeySchema),
    attributes: attributesOf(table.AttributeDefinitions),
    indexes: indexesOf(table.GlobalSecondaryIndexes),
    ttl: ttl.Enabled ? ttl.AttributeName : undefined,
    billing: table.BillingMode,
  };
}

function terraformShape(text: string): Shape & { name: unknown } {
  const { fields, blocks } = readTerraform(text);
  const named = (kind: string): Record<string, unknown>[] =>
    blocks.filter((block) => block.kind === kind).map((block) => block.fields);
  const key = (of: Record<string, unknown>): string[] => [
    `HASH ${String(of["hash_key"])}`,
    `RANGE ${String(of["range_key"])}`,
  ];
  const [ttl] = named("ttl");
  return {
    name: fields["name"],
    key: key(fields),
    attributes: named("attribute")
      .map(({ name, type }) => `${String(name)} ${String(type)}`)
      .toSorted(),
    indexes: Object.fromEntries(
      named("global_secondary_index").map((index) => [
        index["name"],
        {
          key: key(index),
          projection: index["projection_type"],
          include: ((index["non_key_attributes"] ?? []) as string[]).toSorted(),
        },
      ]),
    ) as Shape["indexes"],
    ttl: ttl?.["enabled"] === true ? String(ttl["attribute_name"]) : undefined,
    billing: String(fields["billing_mode"]),
  };
}

describe("templates", () => {
  it("cloudFormation() describes the table that migrate creates", async () => {
    const opened = open();
    await opened.store.migrate();
    const shape = templateShape(opened.store.cloudFormation());
    expect(shape).toEqual(await migratedShape(opened));
    expect(Object.keys(shape.indexes).length).toBeGreaterThan(1);
    expect(shape.ttl).toBe("ttl");
    expect(shape.billing).toBe("PAY_PER_REQUEST");
    expect(propertiesIn(opened.store.cloudFormation()).TableName).toBe(opened.table);
  });

  it("terraform() describes the table that migrate creates", async () => {
    const opened = open();
    await opened.store.migrate();
    const { name, ...shape } = terraformShape(opened.store.terraform());
    expect(shape).toEqual(await migratedShape(opened));
    expect(name).toBe(opened.table);
  });

  it("uses a table created from the template unchanged", async () => {
    const opened = open();
    const { TimeToLiveSpecification: _ttl, ...table } = propertiesIn(opened.store.cloudFormation());
    await opened.client.send(new CreateTableCommand(table));
    opened.recorder.requests.length = 0;
    await opened.store.migrate();
    const operations = opened.recorder.requests.map(({ operation }) => operation);
    expect(operations).not.toContain("CreateTable");
    expect(operations).not.toContain("UpdateTable");
    await add(opened.store);
    expect(await claimIds(opened.store)).toHaveLength(1);
  });
});

interface Policy {
  Statement: { Effect: string; Action: string[]; Resource: string[] }[];
}
function allowedBy(policy: string): string[] {
  const { Statement } = JSON.parse(policy) as Policy;
  expect(Statement.map(({ Effect }) => Effect)).toEqual(["Allow"]);
  return (Statement[0]?.Action ?? []).toSorted();
}

describe("iamPolicy()", () => {
  it("D-01 allows exactly what the store needs, and no scan", async () => {
    const opened = open();
    const { store, recorder, client, table } = opened;
    await store.migrate();
    await client.send(
      new UpdateTableCommand({
        TableName: table,
        GlobalSecondaryIndexUpdates: [{ Delete: { IndexName: "expiring" } }],
      }),
    );
    recorder.requests.length = 0;
    // Once more with a missing index: migrations need the permission to add one.
    await store.migrate();
    const migrating = actionsOf(recorder.requests);
    recorder.requests.length = 0;
    await exerciseAll(store);
    const using = actionsOf(recorder.requests);

    expect(using).not.toContain("dynamodb:Scan");
    const made = ["dynamodb:CreateTable", "dynamodb:UpdateTimeToLive"];
    expect([...new Set([...using, ...migrating, ...made])].toSorted()).toEqual(allowedBy(store.iamPolicy()));
    const looks = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"];
    expect([...new Set([...using, ...looks])].toSorted()).toEqual(allowedBy(store.iamPolicy({ migrates: false })));
  });

  it("without migrates allows opening an existing table", async () => {
    const { store, recorder } = open();
    await store.migrate();
    expect(actionsOf(recorder.requests)).toEqual(
      expect.arrayContaining(["dynamodb:CreateTable", "dynamodb:UpdateTimeToLive"]),
    );
    recorder.requests.length = 0;
    await store.migrate();
    const allowed = allowedBy(store.iamPolicy({ migrates: false }));
    expect(actionsOf(recorder.requests).filter((action) => !allowed.includes(action))).toEqual([]);
  });

  it("names only the table and its indexes", () => {
    const { store, table } = open();
    const { Statement } = JSON.parse(store.iamPolicy()) as Policy;
    expect(Statement.flatMap(({ Resource }) => Resource)).toEqual([
      `arn:aws:dynamodb:*:*:table/${table}`,
      `arn:aws:dynamodb:*:*:table/${table}/index/*`,
    ]);
  });
});

describe("migrate", () => {
  it("rejects a table with another key", async () => {
    const { store, client, table } = open();
    await client.send(new CreateTableCommand(foreign(table, "order")));
    await expect(store.migrate()).rejects.toMatchObject({
      code: "STORE_UNREADABLE",
      message: expect.stringMatching(/is not a Holdfast table: its key is order and sk, not pk and sk/) as string,
    });
  });

  it("rejects a foreign table with the same key", async () => {
    const opened = open();
    await opened.client.send(new CreateTableCommand(foreign(opened.table, "pk")));
    await expect(opened.store.migrate()).rejects.toMatchObject({
      code: "STORE_UNREADABLE",
      message: expect.stringMatching(/is not a Holdfast table: it has none of the indexes live, /) as string,
    });
    const left = await migratedShape(opened);
    expect({ indexes: left.indexes, ttl: left.ttl }).toEqual({ indexes: {}, ttl: undefined });
  });

  it("rejects an index with missing attributes", async () => {
    const { store, client, table } = open();
    const { TimeToLiveSpecification: _ttl, ...made } = propertiesIn(store.cloudFormation());
    const indexes = made.GlobalSecondaryIndexes?.map((index) =>
      index.IndexName === "live" ? { ...index, Projection: { ProjectionType: "KEYS_ONLY" as const } } : index,
    );
    await client.send(new CreateTableCommand({ ...made, TableName: table, GlobalSecondaryIndexes: indexes }));
    await expect(store.migrate()).rejects.toMatchObject({
      code: "STORE_UNREADABLE",
      message: expect.stringMatching(/^the index live of table .* has a different definition/) as string,
    });
  });

  it("works without the index of children if it may not create it", async () => {
    const opened = open();
    const { store, client, table } = opened;
    const { TimeToLiveSpecification: _ttl, ...made } = propertiesIn(store.cloudFormation());
    const indexes = made.GlobalSecondaryIndexes?.filter((index) => index.IndexName !== "children");
    const definitions = made.AttributeDefinitions?.filter(({ AttributeName }) => AttributeName !== "parent");
    const earlier = { ...made, AttributeDefinitions: definitions, GlobalSecondaryIndexes: indexes };
    await client.send(new CreateTableCommand({ ...earlier, TableName: table }));
    const step = { title: "the index children", createsTables: false, optional: true };
    expect(await store.pendingMigrations?.()).toEqual(expect.arrayContaining([step]));
    client.middlewareStack.add((next, { commandName }) => (args) => {
      if (commandName !== "UpdateTableCommand") return next(args);
      throw Object.assign(new Error("not authorized"), { name: "AccessDeniedException" });
    });
    await store.migrate();
    expect(await store.pendingMigrations?.()).toEqual([step]);
    // So commands neither refuse to run nor report it as applied.
    expect(await pendingMigrationsOf(store)).toEqual([]);
    const [parent, id] = [await add(store), await add(store, { parent: PARENT })];
    const page = await store.list({ parent: PARENT }, { limit: 10, cursor: null });
    expect(page.jobs.map((job) => job.id)).toEqual([id]);
    expect(await recordOf(store, parent)).toMatchObject({ parent: null });
  });

  it("adds the index of errors to an existing table", async () => {
    const { store, client, table } = open();
    const { TimeToLiveSpecification: _ttl, ...made } = propertiesIn(store.cloudFormation());
    const indexes = made.GlobalSecondaryIndexes?.filter((index) => index.IndexName !== "errors");
    const definitions = made.AttributeDefinitions?.filter(({ AttributeName }) => AttributeName !== "fingerprint");
    const earlier = { ...made, AttributeDefinitions: definitions, GlobalSecondaryIndexes: indexes };
    await client.send(new CreateTableCommand({ ...earlier, TableName: table }));
    let isAllowed = false;
    let fromIndex = 0;
    client.middlewareStack.add((next, { commandName }) => (args) => {
      if (commandName === "QueryCommand" && (args.input as { IndexName?: string }).IndexName === "errors") fromIndex++;
      if (commandName !== "UpdateTableCommand" || isAllowed) return next(args);
      throw Object.assign(new Error("not authorized"), { name: "AccessDeniedException" });
    });
    await store.migrate();
    expect(await store.pendingMigrations?.()).toEqual([
      { title: "the index errors", createsTables: false, optional: true },
    ]);
    const fingerprint = "00112233aabbccdd";
    await add(store);
    const job = await claimOne(store);
    await finish(store, job, "dead", { error: { message: "no", code: null, fingerprint } });
    await add(store);
    const listed = async (): Promise<string[]> => {
      const page = await store.list({ fingerprint, states: ["dead"] }, { limit: 10, cursor: null });
      return page.jobs.map(({ id }) => id);
    };
    // Without the index, by the other parts of the filter.
    expect(await listed()).toEqual([job.id]);
    isAllowed = true;
    await store.migrate();
    await until("the index", async () => (await store.pendingMigrations?.())?.length === 0);
    await until("the index to be complete", async () => {
      const { GlobalSecondaryIndexes: found = [] } = await described({
        store,
        client,
        table,
        recorder: new Recorder(),
      });
      return found.find(({ IndexName }) => IndexName === "errors")?.IndexStatus === "ACTIVE";
    });
    fromIndex = 0;
    // The job that failed before the index existed.
    expect(await listed()).toEqual([job.id]);
    expect(fromIndex).toBe(1);
  });

  it("rejects a table of a newer version unchanged", async () => {
    const opened = open();
    const { store, client, table } = opened;
    await store.migrate();
    await client.send(
      new UpdateItemCommand({
        TableName: table,
        Key: { pk: { S: "config" }, sk: { S: "config" } },
        UpdateExpression: "SET version = :next",
        ExpressionAttributeValues: { ":next": { N: "99" } },
      }),
    );
    await client.send(
      new UpdateTableCommand({
        TableName: table,
        GlobalSecondaryIndexUpdates: [{ Delete: { IndexName: "expiring" } }],
      }),
    );
    await expect(store.migrate()).rejects.toMatchObject({
      code: "SCHEMA_TOO_NEW",
      message: expect.stringMatching(/schema version 99/) as string,
    });
    expect(Object.keys((await migratedShape(opened)).indexes)).not.toContain("expiring");
  });
});

function foreign(table: string, hash: string): CreateTableCommandInput {
  return {
    TableName: table,
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: [hash, "sk"].map((AttributeName) => ({ AttributeName, AttributeType: "S" as const })),
    KeySchema: [
      { AttributeName: hash, KeyType: "HASH" },
      { AttributeName: "sk", KeyType: "RANGE" },
    ],
  };
}

describe("D-01 jobs in the table", () => {
  it("D-01 finds due jobs by a query, oldest first", async () => {
    const { store, recorder, client, table } = open(1);
    await store.migrate();
    const now = Date.now();
    const times = [5, 1, 4, 2, 3].map((minutes) => now - minutes * 60_000);
    const due = times.map((runAt) => newJob({ runAt }));
    await store.insert([...due, ...Array.from({ length: 60 }, () => newJob({ runAt: now + 3_600_000 }))]);
    // Items of others and finished jobs do not disturb.
    for (let n = 0; n < 20; n++) {
      await client.send(
        new PutItemCommand({ TableName: table, Item: { pk: { S: `other#${n}` }, sk: { S: "other" } } }),
      );
    }
    recorder.requests.length = 0;
    const claimed = await claim(store, { limit: 10 });

    const inOrder = due.toSorted((a, b) => (a.runAt ?? 0) - (b.runAt ?? 0)).map(({ id }) => id);
    expect(claimed.map(({ id }) => id)).toEqual(inOrder);
    expect(new Set(recorder.requests.map(({ operation }) => operation))).toEqual(
      new Set(["GetItem", "Query", "UpdateItem"]),
    );
    const queries = recorder.requests.filter(({ operation }) => operation === "Query");
    for (const { input } of queries) {
      expect(input).toMatchObject({
        IndexName: "live",
        KeyConditionExpression: "#lane = :0",
        ExpressionAttributeValues: { ":0": { S: "live#0#0#default" } },
      });
      expect(input).not.toHaveProperty("FilterExpression");
    }
    const { GlobalSecondaryIndexes = [] } = await described({ store, recorder, client, table });
    const live = GlobalSecondaryIndexes.find(({ IndexName }) => IndexName === "live");
    expect(keyOf(live?.KeySchema)).toEqual(["HASH lane", "RANGE due"]);
    // One query read the due jobs and the first that is not due, but no other future job.
    expect(queries).toHaveLength(1);
  });

  it("D-01 stores times in milliseconds of UTC", async () => {
    const zone = process.env["TZ"];
    process.env["TZ"] = "America/New_York";
    onTestFinished(() => {
      if (zone === undefined) delete process.env["TZ"];
      else process.env["TZ"] = zone;
    });
    // A time that does not exist in New York.
    const runAt = Date.parse("2030-03-10T02:30:00Z");
    const { store, client, table } = open(1);
    await store.migrate();
    const before = Date.now();
    const id = await add(store, { runAt, expiresAt: runAt + 1 });
    const { Items = [] } = await client.send(
      new QueryCommand({
        TableName: table,
        KeyConditionExpression: "pk = :pk",
        ExpressionAttributeValues: { ":pk": { S: `job#${id}` } },
      }),
    );
    const [item] = Items;
    expect(item).toMatchObject({ run_at: { N: String(runAt) }, due_at: { N: String(runAt) } });
    expect(item?.["due"]?.S?.slice(0, 15)).toBe(String(runAt).padStart(15, "0"));
    expect(item?.["expires"]?.S?.slice(0, 15)).toBe(String(runAt + 1).padStart(15, "0"));
    const record = await recordOf(store, id);
    expect(record).toMatchObject({ runAt, dueAt: runAt, expiresAt: runAt + 1 });
    // DynamoDB's time to live is in seconds.
    expect(Math.abs(record.createdAt - before)).toBeLessThan(5_000);
  });
});
