import { afterAll } from "vitest";
import { dynamoServer, NO_SERVER, NOT_OURS } from "../../packages/holdfast/test/dynamodb/server.js";
import type { Block } from "./documents.js";

/** Tables on one DynamoDB for all documents, each for one block, which makes it. */
export interface Tables {
  /** What the environment of such a block says: where its table is. */
  variables(): Record<string, string>;
  /** Why a block cannot be run; null if it can. */
  reasonAgainst(block: Block): string | null;
}

/** By these a block of a document asks for a table: the address of a store on it, or its name. */
const ASKING = /\b(?:DYNAMODB_URL|JOBS_TABLE)\b/;

export function asksForTable({ language, text }: Block): boolean {
  return language === "ts" && ASKING.test(text);
}

export function tables(): Tables {
  const server = dynamoServer({ forSome: true });
  const made: string[] = [];
  // Ours goes as a whole.
  afterAll(() => (NOT_OURS === null ? undefined : Promise.all(made.map((table) => server.drop(table)))), 60_000);
  return {
    variables() {
      const table = server.newTable();
      made.push(table);
      return {
        DYNAMODB_URL: server.address(table),
        JOBS_TABLE: table,
        // The SDK's own: a client that a block makes itself leads there, too.
        AWS_ENDPOINT_URL_DYNAMODB: server.endpoint(),
      };
    },
    reasonAgainst: (block) => (asksForTable(block) ? NO_SERVER : null),
  };
}
