import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";

interface Consumed {
  Table?: { CapacityUnits?: number };
  GlobalSecondaryIndexes?: Record<string, { CapacityUnits?: number }>;
}
interface Output {
  ConsumedCapacity?: Consumed | Consumed[];
}
interface Input {
  ReturnConsumedCapacity?: string;
  Item?: { pk?: { S?: string } };
  Key?: { pk?: { S?: string } };
  TransactItems?: readonly unknown[];
}

const WRITES = new Set(["PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems"]);

/** What requests cost, by what DynamoDB says of each. */
export class Meter {
  /** Requests by their operation, since the last reset and in all. */
  readonly requests: Map<string, number> = new Map();
  readonly total: Map<string, number> = new Map();
  /**
   * Write units of the table and of each index. What counts completed jobs stands apart, as
   * `counts`, and so does what lets go of their keys, as `keys`.
   */
  readonly writes: Map<string, number> = new Map();
  reads = 0;
  /** Conditions that did not hold. DynamoDB bills them like a write, and does not say so. */
  lost = 0;

  /** Looks at what goes over this client from now on. */
  watch(client: DynamoDBClient): DynamoDBClient {
    client.middlewareStack.add(
      (next, context) => async (args) => {
        const operation = String(context["commandName"]).replace(/Command$/, "");
        const input = args.input as Input;
        if (WRITES.has(operation) || ["GetItem", "Query", "BatchGetItem"].includes(operation)) {
          input.ReturnConsumedCapacity = "INDEXES";
        }
        add(this.requests, operation, 1);
        add(this.total, operation, 1);
        try {
          const result = await next(args);
          this.#take(operation, input, result.output as Output);
          return result;
        } catch (error) {
          const { name } = error as Error;
          if (name === "ConditionalCheckFailedException") this.lost++;
          // Two for each write of a transaction, whether it holds or not.
          if (name === "TransactionCanceledException") this.lost += 2 * (input.TransactItems?.length ?? 0);
          throw error;
        }
      },
      { step: "initialize", name: "meter" },
    );
    return client;
  }

  #take(operation: string, input: Input, { ConsumedCapacity = [] }: Output): void {
    const pk = (input.Item ?? input.Key)?.pk?.S ?? "";
    const place = /^(?:counts|ended)#/.test(pk) ? "counts" : pk.startsWith("key#") ? "keys" : "table";
    for (const { Table, GlobalSecondaryIndexes = {} } of Array.isArray(ConsumedCapacity)
      ? ConsumedCapacity
      : [ConsumedCapacity]) {
      const indexes = Object.entries(GlobalSecondaryIndexes).map(
        ([name, { CapacityUnits = 0 }]) => [name, CapacityUnits] as const,
      );
      if (!WRITES.has(operation))
        this.reads += (Table?.CapacityUnits ?? 0) + indexes.reduce((sum, [, units]) => sum + units, 0);
      else {
        add(this.writes, place, Table?.CapacityUnits ?? 0);
        for (const [name, units] of indexes) add(this.writes, name, units);
      }
    }
  }

  reset(): void {
    this.requests.clear();
    this.writes.clear();
    this.reads = 0;
    this.lost = 0;
  }

  /** Write units that jobs themselves cost: the table, the live index, and conditions that were lost. */
  get jobUnits(): number {
    return (this.writes.get("table") ?? 0) + (this.writes.get("live") ?? 0) + this.lost;
  }
}

function add(counts: Map<string, number>, name: string, n: number): void {
  counts.set(name, (counts.get(name) ?? 0) + n);
}
