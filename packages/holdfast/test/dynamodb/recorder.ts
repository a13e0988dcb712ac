import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import type { DynamoDBStreamsClient } from "@aws-sdk/client-dynamodb-streams";

interface Sent {
  operation: string;
  input: object;
}

/** Records the requests of a client, in order. */
export class Recorder {
  readonly requests: Sent[] = [];

  watch<Client extends DynamoDBClient | DynamoDBStreamsClient>(client: Client): Client {
    // Both stacks have the same methods, with inputs of their own.
    (client as DynamoDBClient).middlewareStack.add(
      (next, context) => (args) => {
        const operation = String(context["commandName"]).replace(/Command$/, "");
        this.requests.push({ operation, input: args.input });
        return next(args);
      },
      { step: "initialize", name: "recorder" },
    );
    return client;
  }
}

/** The IAM action of each part of a transaction. */
const PARTS: Readonly<Record<string, string>> = {
  Put: "PutItem",
  Update: "UpdateItem",
  Delete: "DeleteItem",
  ConditionCheck: "ConditionCheckItem",
};

/** The permissions that these requests need, each once, sorted. */
export function actionsOf(requests: readonly Sent[]): string[] {
  const operations = requests.flatMap(({ operation, input }) => {
    if (operation !== "TransactWriteItems") return [operation];
    const { TransactItems } = input as { TransactItems: Record<string, unknown>[] };
    return TransactItems.flatMap((item) => Object.keys(item)).map((part) => PARTS[part] ?? part);
  });
  return [...new Set(operations.map((operation) => `dynamodb:${operation}`))].toSorted();
}
