import {
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  type GlobalSecondaryIndexDescription,
  type TableDescription,
} from "@aws-sdk/client-dynamodb";
import { dynamodb, type DynamoOptions, type DynamoStore } from "holdfast/dynamodb";
import { onTestFinished } from "vitest";
import { Recorder } from "./recorder.js";
import type { Server } from "./server.js";

export interface Opened {
  store: DynamoStore;
  client: DynamoDBClient;
  table: string;
  recorder: Recorder;
}

/** A store with recorded requests, on a table that does not exist yet. */
export function openUnmigrated(server: Server, shards = 2, options: DynamoOptions = {}): Opened {
  const table = server.newTable();
  const recorder = new Recorder();
  const client = recorder.watch(server.client());
  const store = dynamodb({ client, table, shards, ...options });
  onTestFinished(async () => {
    await store.close();
    client.destroy();
    await server.drop(table);
  });
  return { store, client, table, recorder };
}

export async function described({ client, table }: Opened): Promise<TableDescription> {
  return (await client.send(new DescribeTableCommand({ TableName: table }))).Table as TableDescription;
}

/** The definition of a table, from any source. */
export interface Shape {
  key: string[];
  attributes: string[];
  indexes: Record<string, { key: string[]; projection: string; include: string[] }>;
  ttl: string | undefined;
  billing: string | undefined;
}

export type KeyParts = readonly { AttributeName?: string | undefined; KeyType?: string | undefined }[] | undefined;
export const keyOf = (parts: KeyParts): string[] =>
  (parts ?? []).map(({ AttributeName, KeyType }) => `${KeyType} ${AttributeName}`);
export const attributesOf = (
  all: readonly { AttributeName?: string | undefined; AttributeType?: string | undefined }[] = [],
): string[] => all.map(({ AttributeName, AttributeType }) => `${AttributeName} ${AttributeType}`).toSorted();
export const indexesOf = (all: readonly GlobalSecondaryIndexDescription[] = []): Shape["indexes"] =>
  Object.fromEntries(
    all.map(({ IndexName, KeySchema, Projection }) => [
      IndexName ?? "",
      {
        key: keyOf(KeySchema),
        projection: Projection?.ProjectionType ?? "",
        include: (Projection?.NonKeyAttributes ?? []).toSorted(),
      },
    ]),
  );

export async function migratedShape(opened: Opened): Promise<Shape> {
  const table = await described(opened);
  const ttl = await opened.client.send(new DescribeTimeToLiveCommand({ TableName: opened.table }));
  const { TimeToLiveStatus, AttributeName } = ttl.TimeToLiveDescription ?? {};
  return {
    key: keyOf(table.KeySchema),
    attributes: attributesOf(table.AttributeDefinitions),
    indexes: indexesOf(table.GlobalSecondaryIndexes),
    ttl: TimeToLiveStatus === "ENABLED" ? AttributeName : undefined,
    billing: table.BillingModeSummary?.BillingMode,
  };
}
