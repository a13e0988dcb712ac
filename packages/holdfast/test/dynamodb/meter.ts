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

/** Adds up the units that DynamoDB reports for each request. */
export class Meter {
  /** The number of requests by operation, since the last reset and in total. */
  readonly requests: Map<string, number> = new Map();
  readonly total: Map<string, number> = new Map();
  /**
   * Write units of the table and of each index. Counters of completed jobs are added under `counts`, deletions of unique
   * keys under `keys`.
   */
  readonly writes: Map<string, number> = new Map();
  /**
   * Table units of transactions, as AWS charges them: two for each write, if all items have at most 1 KB. The emulator reports two
   * for a transaction, whatever it writes; those are in `writes` too.
   */
  transacted: { charged: number; reported: number } = { charged: 0, reported: 0 };
  reads = 0;
  /** Failed conditions. DynamoDB bills them like a write, but does not report that. */
  lost = 0;

  /** Counts the requests of this client from now on. */
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
          this.#addUnits(operation, input, result.output as Output);
          return result;
        } catch (error) {
          const { name } = error as Error;
          if (name === "ConditionalCheckFailedException") this.lost++;
          // Two units for each write of a transaction, whether it succeeds or not.
          if (name === "TransactionCanceledException") this.lost += 2 * (input.TransactItems?.length ?? 0);
          throw error;
        }
      },
      { step: "initialize", name: "meter" },
    );
    return client;
  }

  #addUnits(operation: string, input: Input, { ConsumedCapacity = [] }: Output): void {
    const pk = (input.Item ?? input.Key)?.pk?.S ?? "";
    const target = /^(?:counts|ended)#/.test(pk) ? "counts" : pk.startsWith("key#") ? "keys" : "table";
    for (const { Table, GlobalSecondaryIndexes = {} } of Array.isArray(ConsumedCapacity)
      ? ConsumedCapacity
      : [ConsumedCapacity]) {
      const indexes = Object.entries(GlobalSecondaryIndexes).map(
        ([name, { CapacityUnits = 0 }]) => [name, CapacityUnits] as const,
      );
      if (!WRITES.has(operation))
        this.reads += (Table?.CapacityUnits ?? 0) + indexes.reduce((sum, [, units]) => sum + units, 0);
      else {
        add(this.writes, target, Table?.CapacityUnits ?? 0);
        if (operation === "TransactWriteItems") {
          this.transacted.charged += 2 * (input.TransactItems?.length ?? 0);
          this.transacted.reported += Table?.CapacityUnits ?? 0;
        }
        for (const [name, units] of indexes) add(this.writes, name, units);
      }
    }
  }

  reset(): void {
    this.requests.clear();
    this.writes.clear();
    this.transacted = { charged: 0, reported: 0 };
    this.reads = 0;
    this.lost = 0;
  }

  /** Write units of the jobs: the table, the live index and failed conditions. */
  get jobUnits(): number {
    return (this.writes.get("table") ?? 0) + (this.writes.get("live") ?? 0) + this.lost;
  }
}

function add(counts: Map<string, number>, name: string, n: number): void {
  counts.set(name, (counts.get(name) ?? 0) + n);
}
