import { setTimeout as sleep } from "node:timers/promises";
import { SchemaTooNewError, StoreUnavailableError, StoreUnreadableError } from "../../errors.js";
import type { PendingMigration } from "../../store.js";
import { numberOf, type Item } from "./connection/attributes.js";
import { SCHEMA_VERSION, type ConfigKeeper } from "./connection/config.js";
import { isMissingTable } from "./connection/errors.js";
import { CONFIG, EXPIRING, LISTED, LIVE, OWNED, TABLE_KEY } from "./jobs/keys.js";
import type { Table } from "./connection/table.js";

interface IndexDefinition {
  name: string;
  hash: string;
  range: string;
  /** What its entries tell besides the keys. */
  include: readonly string[];
}

/** Entries of the live index tell what a claim, a list or a count must know before it reads the job. */
const INDEXES: readonly IndexDefinition[] = [
  { ...LIVE, include: ["held", "type", "queue", "bytes", "again", "listed"] },
  { ...LISTED, include: [] },
  { ...OWNED, include: [] },
  { ...EXPIRING, include: [] },
];
const TTL = "ttl";
const READY_MS = 250;
const PATIENCE_MS = 300_000;
const MOST_TRIES = 5;

interface TableDescription {
  TableStatus?: string;
  KeySchema?: { AttributeName: string; KeyType: string }[];
  GlobalSecondaryIndexes?: IndexDescription[];
}
interface IndexDescription {
  IndexName: string;
  IndexStatus?: string;
  KeySchema?: { AttributeName: string }[];
  Projection?: { ProjectionType?: string; NonKeyAttributes?: string[] };
}

/** The attributes that these keys are made of. */
const attributes = (
  keys: readonly { hash: string; range: string }[],
): { AttributeName: string; AttributeType: string }[] =>
  [...new Set(keys.flatMap(({ hash, range }) => [hash, range]))].map((name) => ({
    AttributeName: name,
    AttributeType: "S",
  }));
const keySchema = ({ hash, range }: { hash: string; range: string }): { AttributeName: string; KeyType: string }[] => [
  { AttributeName: hash, KeyType: "HASH" },
  { AttributeName: range, KeyType: "RANGE" },
];
const projection = (include: readonly string[]): object =>
  include.length === 0
    ? { ProjectionType: "KEYS_ONLY" }
    : { ProjectionType: "INCLUDE", NonKeyAttributes: [...include] };
const indexInput = (index: IndexDefinition): object => ({
  IndexName: index.name,
  KeySchema: keySchema(index),
  Projection: projection(index.include),
});

/** The table as `CreateTable` takes it. */
export function tableInput(name: string): object {
  return {
    TableName: name,
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: attributes([TABLE_KEY, ...INDEXES]),
    KeySchema: keySchema(TABLE_KEY),
    GlobalSecondaryIndexes: INDEXES.map(indexInput),
  };
}

/** Creates what is missing. Any number of processes may do so at once. */
export async function migrate(
  table: Table,
  config: ConfigKeeper,
  { clearsAway }: { clearsAway: boolean },
): Promise<void> {
  let found = await describe(table);
  if (found === null) {
    await create(table);
    found = await ready(table);
  } else refuseForeign(found, table);
  if (found.TableStatus !== "ACTIVE") found = await ready(table);
  // First of all: a newer version may well have done away with an index.
  await refuseNewer(table, config);
  for (const index of INDEXES) await ensureIndex(index, found, table);
  if (clearsAway) await clearAway(table);
}

/** What `migrate` would do. */
export async function pendingMigrations(
  table: Table,
  { clearsAway }: { clearsAway: boolean },
): Promise<PendingMigration[]> {
  const found = await describe(table);
  if (found === null) return [{ title: table.where, createsTables: true }];
  refuseForeign(found, table);
  const config = await table.get(CONFIG);
  refuseVersion(config, table);
  const titles = [
    // One that is being changed can be used meanwhile.
    ...(["ACTIVE", "UPDATING"].includes(found.TableStatus ?? "") ? [] : [`${table.where} to be ready`]),
    ...(config === null ? ["the item that all processes share"] : []),
    ...INDEXES.filter((index) => !hasIndex(found, index)).map(({ name }) => `the index ${name}`),
    ...(clearsAway && !(await isClearedAway(table)) ? ["the time to live"] : []),
  ];
  return titles.map((title) => ({ title, createsTables: false }));
}

async function create(table: Table): Promise<void> {
  try {
    await tolerating(["ResourceInUseException"], () =>
      table.send("CreateTable", tableInput(table.name), { names: false }),
    );
  } catch (error) {
    const cause = (error as Error).cause ?? error;
    if ((cause as Error).name !== "AccessDeniedException") throw error;
    throw new StoreUnreadableError(
      `there is no ${table.where}, and these AWS credentials may not create it; check its name and region, or create it with what dynamodb(…).cloudFormation() or terraform() prints`,
      cause,
    );
  }
}

/** One index at a time: DynamoDB makes no two at once. */
async function ensureIndex(index: IndexDefinition, before: TableDescription, table: Table): Promise<void> {
  for (let trial = 0, found = before; !hasIndex(found, index); trial++) {
    const refused = await tolerating(["ResourceInUseException", "ValidationException", "LimitExceededException"], () =>
      table.send("UpdateTable", {
        AttributeDefinitions: attributes([index]),
        GlobalSecondaryIndexUpdates: [{ Create: indexInput(index) }],
      }),
    );
    if (refused !== null && trial === MOST_TRIES) throw refused;
    found = await ready(table);
  }
}

function hasIndex({ GlobalSecondaryIndexes = [] }: TableDescription, { name }: IndexDefinition): boolean {
  return GlobalSecondaryIndexes.some(({ IndexName, IndexStatus }) => IndexName === name && IndexStatus !== "DELETING");
}

async function isClearedAway(table: Table): Promise<boolean> {
  const { TimeToLiveDescription: now } = (await table.send("DescribeTimeToLive", {})) as {
    TimeToLiveDescription?: { TimeToLiveStatus?: string };
  };
  return now?.TimeToLiveStatus === "ENABLED" || now?.TimeToLiveStatus === "ENABLING";
}

/** What jobs and keys say of their own end. */
async function clearAway(table: Table): Promise<void> {
  if (await isClearedAway(table)) return;
  await tolerating(["ValidationException"], () =>
    table.send("UpdateTimeToLive", { TimeToLiveSpecification: { Enabled: true, AttributeName: TTL } }),
  );
}

async function refuseNewer(table: Table, config: ConfigKeeper): Promise<void> {
  await config.create();
  refuseVersion(await table.get(CONFIG), table);
}

function refuseVersion(config: Item | null, table: Table): void {
  const version = numberOf(config ?? {}, "version") ?? SCHEMA_VERSION;
  if (version > SCHEMA_VERSION) {
    throw new SchemaTooNewError(
      `${table.where} was made by a newer Holdfast (its version is ${version}, this one knows ${SCHEMA_VERSION}); update this one`,
    );
  }
}

/** A table of somebody else's is left alone: its indexes would cost, and a time to live deletes. */
function refuseForeign({ KeySchema, GlobalSecondaryIndexes = [] }: TableDescription, { where }: Table): void {
  const keys = namesIn(KeySchema);
  if (keys.join() !== `${TABLE_KEY.hash},${TABLE_KEY.range}`) {
    throw new StoreUnreadableError(
      `${where} is not Holdfast's: its key is ${keys.join(" and ")}, not ${TABLE_KEY.hash} and ${TABLE_KEY.range}; give Holdfast a table of its own`,
    );
  }
  const known = GlobalSecondaryIndexes.flatMap((found) => {
    const index = INDEXES.find(({ name }) => name === found.IndexName);
    return index === undefined ? [] : [{ index, found }];
  });
  // The key alone says little: many tables have the same. A table of ours was made with all of its indexes.
  if (known.length === 0) {
    throw new StoreUnreadableError(
      `${where} is not Holdfast's: it has none of the indexes ${INDEXES.map(({ name }) => name).join(", ")}; give Holdfast a table of its own`,
    );
  }
  const odd = known.find(({ index, found }) => !serves(found, index));
  if (odd !== undefined) {
    throw new StoreUnreadableError(
      `the index ${odd.index.name} of ${where} is not as Holdfast makes it; delete it, and migrate makes it anew`,
    );
  }
}

function serves({ KeySchema, Projection }: IndexDescription, { hash, range, include }: IndexDefinition): boolean {
  const told = Projection?.NonKeyAttributes ?? [];
  const tellsAll = Projection?.ProjectionType === "ALL" || include.every((name) => told.includes(name));
  return namesIn(KeySchema).join() === `${hash},${range}` && tellsAll;
}

function namesIn(keys: readonly { AttributeName: string }[] = []): string[] {
  return keys.map(({ AttributeName }) => AttributeName);
}

async function describe(table: Table): Promise<TableDescription | null> {
  try {
    return ((await table.send("DescribeTable", {})) as { Table: TableDescription }).Table;
  } catch (error) {
    if (isMissingTable((error as Error).cause ?? error)) return null;
    throw error;
  }
}

async function ready(table: Table): Promise<TableDescription> {
  const until = performance.now() + PATIENCE_MS;
  for (;;) {
    const found = await describe(table);
    const indexes = found?.GlobalSecondaryIndexes ?? [];
    if (found?.TableStatus === "ACTIVE" && indexes.every(({ IndexStatus }) => IndexStatus === "ACTIVE")) return found;
    if (performance.now() > until)
      throw new StoreUnavailableError(`${table.where} is still not ready; try again in a while`);
    await sleep(READY_MS);
  }
}

/** Somebody else may do the same this moment: the error, if it is one of those that tell so. */
async function tolerating(names: readonly string[], work: () => Promise<unknown>): Promise<Error | null> {
  try {
    await work();
    return null;
  } catch (error) {
    const cause = (error as Error).cause ?? error;
    if (!names.includes((cause as Error).name)) throw error;
    return error as Error;
  }
}

/** The table as AWS CloudFormation takes it, in JSON. */
export function cloudFormation(name: string): string {
  const { TableName, ...table } = tableInput(name) as { TableName: string };
  const properties = { TableName, ...table, TimeToLiveSpecification: { AttributeName: TTL, Enabled: true } };
  const resource = {
    Type: "AWS::DynamoDB::Table",
    DeletionPolicy: "Retain",
    UpdateReplacePolicy: "Retain",
    Properties: properties,
  };
  const template = {
    AWSTemplateFormatVersion: "2010-09-09",
    Resources: { HoldfastTable: resource },
    Outputs: {
      TableName: { Value: { Ref: "HoldfastTable" } },
      TableArn: { Value: { "Fn::GetAtt": ["HoldfastTable", "Arn"] } },
    },
  };
  return `${JSON.stringify(template, null, 2)}\n`;
}

/** The table as Terraform takes it. */
export function terraform(name: string): string {
  const text = (value: string): string => JSON.stringify(value);
  const blocks = [
    ...attributes([TABLE_KEY, ...INDEXES]).map(({ AttributeName, AttributeType }) =>
      block("attribute", { name: text(AttributeName), type: text(AttributeType) }),
    ),
    ...INDEXES.map(({ name: index, hash, range, include }) =>
      block("global_secondary_index", {
        name: text(index),
        hash_key: text(hash),
        range_key: text(range),
        ...(include.length === 0
          ? { projection_type: text("KEYS_ONLY") }
          : { projection_type: text("INCLUDE"), non_key_attributes: `[${include.map(text).join(", ")}]` }),
      }),
    ),
    block("ttl", { attribute_name: text(TTL), enabled: "true" }),
    block("lifecycle", { prevent_destroy: "true" }),
  ];
  const table = assignments({
    name: text(name),
    billing_mode: text("PAY_PER_REQUEST"),
    hash_key: text(TABLE_KEY.hash),
    range_key: text(TABLE_KEY.range),
  });
  return `resource "aws_dynamodb_table" "holdfast" {\n${[table, ...blocks].join("\n")}}\n`;
}

function block(name: string, fields: Readonly<Record<string, string>>): string {
  return `  ${name} {\n${assignments(fields, "    ")}  }\n`;
}

/** As `terraform fmt` writes them. */
function assignments(fields: Readonly<Record<string, string>>, indent = "  "): string {
  const width = Math.max(...Object.keys(fields).map((name) => name.length));
  return Object.entries(fields)
    .map(([name, value]) => `${indent}${name.padEnd(width)} = ${value}\n`)
    .join("");
}

/** What those who enqueue and work call. */
const USED = [
  "dynamodb:BatchGetItem",
  "dynamodb:ConditionCheckItem",
  "dynamodb:DeleteItem",
  "dynamodb:GetItem",
  "dynamodb:PutItem",
  "dynamodb:Query",
  "dynamodb:UpdateItem",
] as const;
const MIGRATED = [
  "dynamodb:CreateTable",
  "dynamodb:DescribeTable",
  "dynamodb:DescribeTimeToLive",
  "dynamodb:UpdateTable",
  "dynamodb:UpdateTimeToLive",
] as const;

/** The least that IAM must allow; `migrates`: also to create and change the table. */
export function iamPolicy(
  name: string,
  { migrates = true, region = "*" }: { migrates?: boolean; region?: string | undefined } = {},
): string {
  const table = `arn:${partitionOf(region)}:dynamodb:${region}:*:table/${name}`;
  const statement = {
    Sid: "Holdfast",
    Effect: "Allow",
    Action: [...USED, ...(migrates ? MIGRATED : ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"])],
    Resource: [table, `${table}/index/*`],
  };
  return `${JSON.stringify({ Version: "2012-10-17", Statement: [statement] }, null, 2)}\n`;
}

function partitionOf(region: string): string {
  if (region.startsWith("cn-")) return "aws-cn";
  return region.startsWith("us-gov-") ? "aws-us-gov" : "aws";
}
