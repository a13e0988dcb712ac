import { PutItemCommand, QueryCommand, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import { AT_ONCE, bounded, connectDynamo } from "./dynamodb-client.js";
import { countItem, keyOf, laneOf, number, SHARDS, text, waitingItem } from "./dynamodb-items.js";
import { NOOP, orderedId, payload } from "./jobs.js";
import type { Raw } from "./raw.js";

export interface RawLease {
  id: string;
  fence: number;
}

const LEASE_MS = 30_000;
const KEPT_S = 604_800;
const WORKER = "raw:1:000000000000";
const NAMES = (names: string): Record<string, string> =>
  Object.fromEntries(names.split(" ").map((name) => [`#${name}`, name]));

const INSERT = {
  ConditionExpression: "(attribute_not_exists(#pk) OR #ttl <= :now)",
  ExpressionAttributeNames: NAMES("pk ttl"),
  ReturnValuesOnConditionCheckFailure: "ALL_OLD",
} as const;
const DUE = {
  IndexName: "live",
  KeyConditionExpression: "#lane = :lane",
  ExpressionAttributeNames: NAMES("lane"),
} as const;
const CLAIM = {
  UpdateExpression:
    "SET #state = :claimed, #due_at = :until, #held = :until, #worker = :worker, #claimed_at = :now, #updated_at = :now, #token = :token, #was = #state, #fence = #fence + :one, #attempt = #attempt + :one REMOVE #started_at, #again",
  ConditionExpression: "(#state IN (:pending, :failed)) AND (#due_at <= :now) AND (#attempt < #max_attempts)",
  ExpressionAttributeNames: NAMES(
    "state due_at held worker claimed_at updated_at token was fence attempt started_at again max_attempts",
  ),
  ReturnValues: "ALL_OLD",
  ReturnValuesOnConditionCheckFailure: "ALL_OLD",
} as const;
const COMPLETE = {
  UpdateExpression:
    "SET #state = :completed, #attempt = :one, #updated_at = :now, #started_at = if_not_exists(#started_at, :now), #finished_at = :now, #output = :output, #ttl = :ttl REMOVE #releases, #held, #due_at, #expiry, #expires, #again, #token, #was, #lane, #due",
  ConditionExpression:
    "(attribute_not_exists(#input_at)) AND (attribute_not_exists(#beside)) AND (#fence = :fence) AND (#state IN (:claimed, :running))",
  ExpressionAttributeNames: NAMES(
    "state attempt updated_at started_at finished_at output ttl releases held due_at expiry expires again token was lane due input_at beside fence",
  ),
  ReturnValues: "ALL_OLD",
  ReturnValuesOnConditionCheckFailure: "ALL_OLD",
} as const;

/**
 * The requests of the DynamoDB store without Holdfast: the same conditional writes with the same concurrency, and the
 * same query of the live index, one shard after another. No lanes, no counters, nothing between the loop and the SDK.
 */
export function openRawDynamo(url: string): Raw<RawLease> {
  const { table: TableName, client } = connectDynamo(url);
  const input = JSON.stringify(payload());
  let turn = 0;
  let completed = 0;

  async function due(shard: number, limit: number): Promise<{ id: string }[]> {
    const now = Date.now();
    const { Items = [] } = await client.send(
      new QueryCommand({
        TableName,
        ...DUE,
        ExpressionAttributeValues: { ":lane": text(laneOf(shard, 0)) },
        Limit: limit,
      }),
    );
    return Items.filter((item) => item["held"] === undefined && Number(item["due"]?.S?.slice(0, 15)) <= now).map(
      (item) => ({ id: (item["pk"]?.S ?? "").slice("job#".length) }),
    );
  }

  return {
    async insert(jobs) {
      const now = Date.now();
      await bounded([...Array(jobs).keys()], AT_ONCE, (nth) => {
        const job = { id: orderedId(now), type: NOOP, input, priority: 0, createdAt: now, dueAt: now, nth };
        const values = { ":now": number(Math.floor(now / 1_000)) };
        const request = { TableName, Item: waitingItem(job), ...INSERT, ExpressionAttributeValues: values };
        return client.send(new PutItemCommand(request));
      });
    },
    async claim(limit) {
      const found: { id: string }[] = [];
      // Jobs claimed before are settled and not in the index any more, so every job of the query is free.
      for (let looked = 0; looked < SHARDS && found.length < limit; looked++) {
        found.push(...(await due(turn, limit - found.length)));
        if (found.length < limit) turn = (turn + 1) % SHARDS;
      }
      return bounded(found, AT_ONCE, async ({ id }) => {
        const now = Date.now();
        const values = {
          ":claimed": text("claimed"),
          ":pending": text("pending"),
          ":failed": text("failed"),
          ":until": number(now + LEASE_MS),
          ":now": number(now),
          ":worker": text(WORKER),
          ":token": text("rawrawrawraw"),
          ":one": number(1),
        };
        const request = { TableName, Key: keyOf(id), ...CLAIM, ExpressionAttributeValues: values };
        const { Attributes } = await client.send(new UpdateItemCommand(request));
        return { id, fence: Number(Attributes?.["fence"]?.N) + 1 };
      });
    },
    async settle(leases) {
      completed += leases.length;
      await bounded(leases, AT_ONCE, ({ id, fence }) => {
        const now = Date.now();
        const values = {
          ":completed": text("completed"),
          ":claimed": text("claimed"),
          ":running": text("running"),
          ":one": number(1),
          ":fence": number(fence),
          ":now": number(now),
          ":output": text("{}"),
          ":ttl": number(Math.ceil(now / 1_000) + KEPT_S),
        };
        const request = { TableName, Key: keyOf(id), ...COMPLETE, ExpressionAttributeValues: values };
        return client.send(new UpdateItemCommand(request));
      });
    },
    async close() {
      // For the check of the result. Not part of the measurement.
      if (completed > 0) await client.send(new PutItemCommand({ TableName, Item: countItem(completed, Date.now()) }));
      client.destroy();
    },
  };
}
