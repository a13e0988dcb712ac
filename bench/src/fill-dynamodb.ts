import { BatchWriteItemCommand, PutItemCommand, UpdateItemCommand, type WriteRequest } from "@aws-sdk/client-dynamodb";
import type { Filling } from "./bed.js";
import { bounded, connectDynamo } from "./dynamodb-client.js";
import { completedItem, countItem, number, text, waitingItem, type Item } from "./dynamodb-items.js";
import { NOOP, orderedId, payload } from "./jobs.js";

const HOUR_MS = 3_600_000;
// DynamoDB's limit of items per request, and the number of concurrent requests.
const BATCH = 25;
const BATCHES = 16;

/** Writes jobs directly into a table that Holdfast's migration has created. */
export async function fillDynamo(url: string, fillings: readonly Filling[]): Promise<void> {
  const { table, client } = connectDynamo(url);
  const now = Date.now();
  for (const { kind, count } of fillings) {
    if (kind !== "due" && kind !== "future" && kind !== "finished") {
      throw new Error(`the bench has no ${kind} jobs on DynamoDB`);
    }
    const priority = kind === "future" ? 10 : 0;
    const items = Array.from({ length: count }, (_, nth): Item => {
      // Due jobs are the newest.
      const createdAt = kind === "due" ? now - 1_000 : now - HOUR_MS;
      const dueAt = kind === "future" ? now + HOUR_MS : createdAt;
      const input = JSON.stringify(payload());
      const job = { id: orderedId(createdAt), type: NOOP, input, priority, createdAt, dueAt, nth };
      return kind === "finished" ? completedItem(job, now - Math.floor((nth / count) * HOUR_MS)) : waitingItem(job);
    });
    const batches = Array.from({ length: Math.ceil(count / BATCH) }, (_, nth) =>
      items.slice(nth * BATCH, (nth + 1) * BATCH),
    );
    await bounded(batches, BATCHES, async (batch) => {
      let left: WriteRequest[] = batch.map((Item) => ({ PutRequest: { Item } }));
      while (left.length > 0) {
        const { UnprocessedItems } = await client.send(new BatchWriteItemCommand({ RequestItems: { [table]: left } }));
        left = UnprocessedItems?.[table] ?? [];
      }
    });
    await client.send(
      new UpdateItemCommand({
        TableName: table,
        Key: { pk: text("config"), sk: text("config") },
        UpdateExpression: "SET lanes.#lane = :now, #types.#type = :now",
        ExpressionAttributeNames: { "#lane": `${priority} default`, "#types": "types", "#type": NOOP },
        ExpressionAttributeValues: { ":now": number(now) },
      }),
    );
    if (kind === "finished") await client.send(new PutItemCommand({ TableName: table, Item: countItem(count, now) }));
  }
  client.destroy();
}
