import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { dynamodb, type DynamoOptions, type DynamoStore } from "holdfast/dynamodb";
import { onTestFinished } from "vitest";
import type { Server } from "./server.js";

export interface ClientRequest {
  operation: string;
  /** The request as a string, to search for a key. */
  text: string;
}
type Matches = (request: ClientRequest) => boolean;

/** A store whose process can be stopped between two requests, or that waits there. */
export interface Crashing {
  store: DynamoStore;
  /** From now on, so many requests are sent, and all later ones fail: the process was killed. */
  crashAfter(requests: number): void;
  /** How many requests were sent since the last call. */
  takeCount(): number;
  /** Before the next request that matches is sent, waits for `work`. Resolves when that has happened. */
  before(matches: Matches, work: () => Promise<unknown>): Promise<void>;
}

export function openCrashing(server: Server, table: string, options: DynamoOptions = {}): Crashing {
  const client: DynamoDBClient = server.client();
  let left = Number.POSITIVE_INFINITY;
  let count = 0;
  const interruptions = new Set<{ matches: Matches; work: () => Promise<unknown>; done: () => void }>();
  client.middlewareStack.add(
    (next, { commandName }) =>
      async (args) => {
        const request = { operation: String(commandName).replace(/Command$/, ""), text: JSON.stringify(args.input) };
        const interruption = [...interruptions].find(({ matches }) => matches(request));
        if (interruption !== undefined) {
          interruptions.delete(interruption);
          await interruption.work();
          interruption.done();
        }
        if (left <= 0) throw new Error("the process was killed");
        left--;
        count++;
        return next(args);
      },
    { step: "initialize", name: "crashing" },
  );
  const store = dynamodb({ client, table, ...options });
  onTestFinished(async () => {
    left = Number.POSITIVE_INFINITY;
    await store.close();
    client.destroy();
  });
  return {
    store,
    crashAfter: (requests) => void (left = requests),
    takeCount() {
      const taken = count;
      count = 0;
      return taken;
    },
    before: (matches, work) => new Promise((done) => void interruptions.add({ matches, work, done })),
  };
}
