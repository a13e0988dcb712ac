import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import type { Store } from "holdfast";
import { dynamodb } from "holdfast/dynamodb";
import { connectDynamo } from "../dynamodb-client.js";

interface Consumed {
  Table?: { CapacityUnits?: number };
  GlobalSecondaryIndexes?: Record<string, { CapacityUnits?: number }>;
}
interface Input {
  ReturnConsumedCapacity?: string;
  Item?: { pk?: { S?: string } };
  Key?: { pk?: { S?: string } };
  TransactItems?: readonly unknown[];
}

const READS: ReadonlySet<string> = new Set(["GetItem", "Query", "BatchGetItem"]);
const WRITES: ReadonlySet<string> = new Set(["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"]);

/** The cost of requests as DynamoDB reports it, and 1 for each failed condition, which it does not report. */
export interface Units {
  requests: number;
  /** Read requests. */
  looks: number;
  reads: number;
  /** Write units of the table, without counters and deletions of unique keys, which are counted separately. */
  table: number;
  live: number;
  listed: number;
  counts: number;
  keys: number;
  lost: number;
}

export function noUnits(): Units {
  return { requests: 0, looks: 0, reads: 0, table: 0, live: 0, listed: 0, counts: 0, keys: 0, lost: 0 };
}

/** Opens a store on the table of a URL, and adds up its requests. */
export function meteredStore(url: string, units: Units): Store {
  const { table, client } = connectDynamo(url);
  return dynamodb({ client: meter(client, units), table });
}

/** Adds up the requests of this client from now on. */
function meter(client: DynamoDBClient, units: Units): DynamoDBClient {
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const operation = String(context["commandName"]).replace(/Command$/, "");
      const input = args.input as Input;
      const isRead = READS.has(operation);
      if (isRead || WRITES.has(operation)) input.ReturnConsumedCapacity = "INDEXES";
      units.requests++;
      if (isRead) units.looks++;
      try {
        const result = await next(args);
        const { ConsumedCapacity = [] } = result.output as { ConsumedCapacity?: Consumed | Consumed[] };
        for (const each of [ConsumedCapacity].flat()) take(units, each, isRead, (input.Item ?? input.Key)?.pk?.S ?? "");
        return result;
      } catch (error) {
        const { name } = error as Error;
        if (name === "ConditionalCheckFailedException") units.lost++;
        if (name === "TransactionCanceledException") units.lost += 2 * (input.TransactItems?.length ?? 0);
        throw error;
      }
    },
    { step: "initialize", name: "meter" },
  );
  return client;
}

function take(units: Units, { Table, GlobalSecondaryIndexes = {} }: Consumed, isRead: boolean, pk: string): void {
  const ofTable = Table?.CapacityUnits ?? 0;
  const ofIndex = (name: string): number => GlobalSecondaryIndexes[name]?.CapacityUnits ?? 0;
  if (isRead) {
    const indexes = Object.keys(GlobalSecondaryIndexes).map(ofIndex);
    units.reads += indexes.reduce((sum, each) => sum + each, ofTable);
    return;
  }
  const place = /^(?:counts|ended)#/.test(pk) ? "counts" : pk.startsWith("key#") ? "keys" : "table";
  units[place] += ofTable;
  units.live += ofIndex("live");
  units.listed += ofIndex("listed");
}
