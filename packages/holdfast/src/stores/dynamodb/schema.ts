import { setTimeout as sleep } from "node:timers/promises";
import { SchemaTooNewError, StoreUnavailableError, StoreUnreadableError } from "../../errors.js";
import type { PendingMigration } from "../../store.js";
import { numberOf, type Item } from "./connection/attributes.js";
import { SCHEMA_VERSION, type SharedConfig } from "./connection/config.js";
import { isMissingTable } from "./connection/errors.js";
import { CHILDREN, CONFIG, ERRORS, EXPIRING, LISTED, LIVE, OWNED, TABLE_KEY } from "./jobs/item-keys.js";
import type { Table } from "./connection/table.js";
import { VIEW_TYPE } from "./transitions/stream/table-stream.js";

interface IndexDefinition {
  name: string;
  hash: string;
  range: string;
  /** Attributes that its entries contain besides the keys. */
  include: readonly string[];
  /** The store works without it. On a large table, it may take hours to create. */
  optional?: boolean;
}

/** Entries of the live index contain what a claim, a list or a count needs before it reads the job. */
const INDEXES: readonly IndexDefinition[] = [
  { ...LIVE, include: ["held", "type", "queue", "bytes", "again", "listed"] },
  { ...LISTED, include: [] },
  { ...OWNED, include: [] },
  { ...EXPIRING, include: [] },
  { ...CHILDREN, include: [], optional: true },
  { ...ERRORS, include: [], optional: true },
];
const TTL_ATTRIBUTE = "ttl";
const POLL_MS = 250;
const ACTIVE_WITHIN_MS = 300_000;
const MAX_TRIES = 5;

interface TableDescription {
  TableStatus?: string;
  KeySchema?: { AttributeName: string; KeyType: string }[];
  GlobalSecondaryIndexes?: IndexDescription[];
  StreamSpecification?: { StreamEnabled?: boolean };
}
interface IndexDescription {
  IndexName: string;
  IndexStatus?: string;
  KeySchema?: { AttributeName: string }[];
  Projection?: { ProjectionType?: string; NonKeyAttributes?: string[] };
}

/** The definitions of these key attributes. */
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

interface StreamChoice {
  /** Whether the table gets a stream. */
  stream: boolean;
}
const STREAM = { StreamEnabled: true, StreamViewType: VIEW_TYPE };

/** The input of `CreateTable`. */
export function tableInput(name: string, { stream }: StreamChoice): object {
  return {
    TableName: name,
    BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: attributes([TABLE_KEY, ...INDEXES]),
    KeySchema: keySchema(TABLE_KEY),
    GlobalSecondaryIndexes: INDEXES.map(indexInput),
    ...(stream && { StreamSpecification: STREAM }),
  };
}

/** Creates what is missing. Several processes may do so at the same time. */
export async function migrate(
  table: Table,
  config: SharedConfig,
  { ttl, stream }: { ttl: boolean } & StreamChoice,
): Promise<void> {
  let found = await describe(table);
  if (found === null) {
    await create(table, { stream });
    found = await waitUntilActive(table);
  } else rejectForeign(found, table);
  if (!isUsable(found)) found = await waitUntilActive(table);
  // Before the indexes: a newer version may have removed one.
  await ensureConfig(table, config);
  for (const index of INDEXES) if (index.optional !== true) await ensureIndex(index, found, table);
  if (ttl) await enableTtl(table);
  for (const index of INDEXES) if (index.optional === true) await requestIndex(index, found, table);
  if (stream && !hasStream(found)) await requestStream(table);
}

/** What `migrate` would create. */
export async function pendingMigrations(
  table: Table,
  { ttl, stream }: { ttl: boolean } & StreamChoice,
): Promise<PendingMigration[]> {
  const found = await describe(table);
  if (found === null) return [{ title: table.where, createsTables: true }];
  rejectForeign(found, table);
  const config = await table.get(CONFIG);
  rejectNewerVersion(config, table);
  const missing = INDEXES.filter((index) => !hasIndex(found, index));
  const titlesOf = (optional: boolean): string[] =>
    missing.filter((index) => (index.optional === true) === optional).map(({ name }) => `the index ${name}`);
  const titles = [
    ...(isUsable(found) ? [] : [`${table.where} to become active`]),
    ...(config === null ? ["the shared config item"] : []),
    ...titlesOf(false),
    ...(ttl && !(await isTtlEnabled(table)) ? ["the time to live"] : []),
  ];
  return [
    ...titles.map((title) => ({ title, createsTables: false })),
    ...[...titlesOf(true), ...(stream && !hasStream(found) ? ["the stream"] : [])].map((title) => ({
      title,
      createsTables: false,
      optional: true,
    })),
  ];
}

async function create(table: Table, choice: StreamChoice): Promise<void> {
  try {
    await tolerating(["ResourceInUseException"], () =>
      table.send("CreateTable", tableInput(table.name, choice), { addTableName: false }),
    );
  } catch (error) {
    const cause = (error as Error).cause ?? error;
    if ((cause as Error).name !== "AccessDeniedException") throw error;
    throw new StoreUnreadableError(
      `${table.where} does not exist, and these AWS credentials have no permission to create it; check its name and region, or create it with the output of dynamodb(…).cloudFormation() or terraform()`,
      cause,
    );
  }
}

/** DynamoDB creates one index at a time. */
async function ensureIndex(index: IndexDefinition, before: TableDescription, table: Table): Promise<void> {
  for (let trial = 0, found = before; !hasIndex(found, index); trial++) {
    const refused = await createIndex(index, table);
    if (refused !== null && trial === MAX_TRIES) throw refused;
    found = await waitUntilActive(table);
  }
}

/**
 * Starts to create an index and does not wait for it. If DynamoDB is creating another index now, or the permission to change the
 * table is missing, a later migration tries again.
 */
async function requestIndex(index: IndexDefinition, found: TableDescription, table: Table): Promise<void> {
  if (!hasIndex(found, index)) await createIndex(index, table, ["AccessDeniedException"]);
}

/** Returns why the index was not created; null if it was. */
function createIndex(index: IndexDefinition, table: Table, tolerated: readonly string[] = []): Promise<Error | null> {
  const names = ["ResourceInUseException", "ValidationException", "LimitExceededException", ...tolerated];
  return tolerating(names, () =>
    table.send("UpdateTable", {
      AttributeDefinitions: attributes([index]),
      GlobalSecondaryIndexUpdates: [{ Create: indexInput(index) }],
    }),
  );
}

/** Whether the table has a stream of any kind. One with other images may belong to another program, so it is not changed. */
function hasStream({ StreamSpecification }: TableDescription): boolean {
  return StreamSpecification?.StreamEnabled === true;
}

/** Enables the stream. If the table is being changed, or the permission is missing, a later migration tries again. */
async function requestStream(table: Table): Promise<void> {
  const names = ["ResourceInUseException", "ValidationException", "LimitExceededException", "AccessDeniedException"];
  await tolerating(names, () => table.send("UpdateTable", { StreamSpecification: STREAM }));
}

/** A table can be used while it is updated, except that an index cannot be read before it is complete. */
function isUsable({ TableStatus = "", GlobalSecondaryIndexes = [] }: TableDescription): boolean {
  const needed = INDEXES.filter(({ optional }) => optional !== true).map(({ name }) => name);
  const incomplete = GlobalSecondaryIndexes.filter(({ IndexStatus }) => IndexStatus === "CREATING");
  return (
    ["ACTIVE", "UPDATING"].includes(TableStatus) && !incomplete.some(({ IndexName }) => needed.includes(IndexName))
  );
}

function hasIndex({ GlobalSecondaryIndexes = [] }: TableDescription, { name }: IndexDefinition): boolean {
  return GlobalSecondaryIndexes.some(({ IndexName, IndexStatus }) => IndexName === name && IndexStatus !== "DELETING");
}

async function isTtlEnabled(table: Table): Promise<boolean> {
  const { TimeToLiveDescription: found } = (await table.send("DescribeTimeToLive", {})) as {
    TimeToLiveDescription?: { TimeToLiveStatus?: string };
  };
  return found?.TimeToLiveStatus === "ENABLED" || found?.TimeToLiveStatus === "ENABLING";
}

/** DynamoDB then deletes items some time after their `ttl`. */
async function enableTtl(table: Table): Promise<void> {
  if (await isTtlEnabled(table)) return;
  await tolerating(["ValidationException"], () =>
    table.send("UpdateTimeToLive", { TimeToLiveSpecification: { Enabled: true, AttributeName: TTL_ATTRIBUTE } }),
  );
}

/** Creates the shared config item if it does not exist, and rejects one of a newer version. */
async function ensureConfig(table: Table, config: SharedConfig): Promise<void> {
  await config.create();
  rejectNewerVersion(await table.get(CONFIG), table);
}

function rejectNewerVersion(config: Item | null, table: Table): void {
  const version = numberOf(config ?? {}, "version") ?? SCHEMA_VERSION;
  if (version > SCHEMA_VERSION) {
    throw new SchemaTooNewError(
      `${table.where} was migrated by a newer version of Holdfast (schema version ${version}; this build supports ${SCHEMA_VERSION}); update Holdfast`,
    );
  }
}

/** Rejects tables of other applications: new indexes would cost money, and a time to live would delete items. */
function rejectForeign({ KeySchema, GlobalSecondaryIndexes = [] }: TableDescription, { where }: Table): void {
  const keys = namesIn(KeySchema);
  if (keys.join() !== `${TABLE_KEY.hash},${TABLE_KEY.range}`) {
    throw new StoreUnreadableError(
      `${where} is not a Holdfast table: its key is ${keys.join(" and ")}, not ${TABLE_KEY.hash} and ${TABLE_KEY.range}; use a separate table for Holdfast`,
    );
  }
  const known = GlobalSecondaryIndexes.flatMap((found) => {
    const index = INDEXES.find(({ name }) => name === found.IndexName);
    return index === undefined ? [] : [{ index, found }];
  });
  // Many tables have the same key. Holdfast creates its table with all indexes.
  if (known.length === 0) {
    throw new StoreUnreadableError(
      `${where} is not a Holdfast table: it has none of the indexes ${INDEXES.map(({ name }) => name).join(", ")}; use a separate table for Holdfast`,
    );
  }
  const wrong = known.find(({ index, found }) => !hasDefinition(found, index));
  if (wrong !== undefined) {
    throw new StoreUnreadableError(
      `the index ${wrong.index.name} of ${where} has a different definition than Holdfast needs; delete it and run the migration again`,
    );
  }
}

function hasDefinition(
  { KeySchema, Projection }: IndexDescription,
  { hash, range, include }: IndexDefinition,
): boolean {
  const included = Projection?.NonKeyAttributes ?? [];
  const includesAll = Projection?.ProjectionType === "ALL" || include.every((name) => included.includes(name));
  return namesIn(KeySchema).join() === `${hash},${range}` && includesAll;
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

async function waitUntilActive(table: Table): Promise<TableDescription> {
  const until = performance.now() + ACTIVE_WITHIN_MS;
  for (;;) {
    const found = await describe(table);
    const indexes = found?.GlobalSecondaryIndexes ?? [];
    if (found?.TableStatus === "ACTIVE" && indexes.every(({ IndexStatus }) => IndexStatus === "ACTIVE")) return found;
    if (performance.now() > until)
      throw new StoreUnavailableError(
        `${table.where} did not become active within ${ACTIVE_WITHIN_MS / 60_000} minutes; try again later`,
      );
    await sleep(POLL_MS);
  }
}

/** Returns errors with these names instead of throwing them: another process may be doing the same. */
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

/** A CloudFormation template of the table, in JSON. */
export function cloudFormation(name: string, choice: StreamChoice): string {
  const { TableName, StreamSpecification, ...table } = tableInput(name, choice) as {
    TableName: string;
    StreamSpecification?: typeof STREAM;
  };
  const properties = {
    TableName,
    ...table,
    TimeToLiveSpecification: { AttributeName: TTL_ATTRIBUTE, Enabled: true },
    // CloudFormation has no other field for it: a type of view means that there is a stream.
    ...(StreamSpecification && { StreamSpecification: { StreamViewType: StreamSpecification.StreamViewType } }),
  };
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

/** A Terraform resource of the table. */
export function terraform(name: string, { stream }: StreamChoice): string {
  const quote = (value: string): string => JSON.stringify(value);
  const blocks = [
    ...attributes([TABLE_KEY, ...INDEXES]).map(({ AttributeName, AttributeType }) =>
      block("attribute", { name: quote(AttributeName), type: quote(AttributeType) }),
    ),
    ...INDEXES.map(({ name: index, hash, range, include }) =>
      block("global_secondary_index", {
        name: quote(index),
        hash_key: quote(hash),
        range_key: quote(range),
        ...(include.length === 0
          ? { projection_type: quote("KEYS_ONLY") }
          : { projection_type: quote("INCLUDE"), non_key_attributes: `[${include.map(quote).join(", ")}]` }),
      }),
    ),
    block("ttl", { attribute_name: quote(TTL_ATTRIBUTE), enabled: "true" }),
    block("lifecycle", { prevent_destroy: "true" }),
  ];
  const table = assignments({
    name: quote(name),
    billing_mode: quote("PAY_PER_REQUEST"),
    hash_key: quote(TABLE_KEY.hash),
    range_key: quote(TABLE_KEY.range),
    ...(stream && { stream_enabled: "true", stream_view_type: quote(VIEW_TYPE) }),
  });
  return `resource "aws_dynamodb_table" "holdfast" {\n${[table, ...blocks].join("\n")}}\n`;
}

function block(name: string, fields: Readonly<Record<string, string>>): string {
  return `  ${name} {\n${assignments(fields, "    ")}  }\n`;
}

/** In the format of `terraform fmt`. */
function assignments(fields: Readonly<Record<string, string>>, indent = "  "): string {
  const width = Math.max(...Object.keys(fields).map((name) => name.length));
  return Object.entries(fields)
    .map(([name, value]) => `${indent}${name.padEnd(width)} = ${value}\n`)
    .join("");
}

/** Needed to enqueue and to work. */
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

const FOLLOWED = ["dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"] as const;

/**
 * The IAM policy with the least permissions. `migrates` includes creating and changing the table, `stream` reading the table's
 * stream.
 */
export function iamPolicy(
  name: string,
  {
    migrates = true,
    region = "*",
    stream = false,
  }: { migrates?: boolean; region?: string | undefined; stream?: boolean } = {},
): string {
  const table = `arn:${partitionOf(region)}:dynamodb:${region}:*:table/${name}`;
  const statement = {
    Sid: "Holdfast",
    Effect: "Allow",
    Action: [...USED, ...(migrates ? MIGRATED : ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"])],
    Resource: [table, `${table}/index/*`],
  };
  const ofStream = {
    Sid: "HoldfastStream",
    Effect: "Allow",
    Action: [...FOLLOWED],
    Resource: [`${table}/stream/*`],
  };
  const statements = stream ? [statement, ofStream] : [statement];
  return `${JSON.stringify({ Version: "2012-10-17", Statement: statements }, null, 2)}\n`;
}

function partitionOf(region: string): string {
  if (region.startsWith("cn-")) return "aws-cn";
  return region.startsWith("us-gov-") ? "aws-us-gov" : "aws";
}
