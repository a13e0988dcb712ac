import type { TestProject } from "vitest/node";
import { startLocal } from "./dynamodb/local.js";
import { startPostgres } from "./postgres/start.js";
import { shareServer } from "./shared-server.js";

/** vitest's global setup: one PostgreSQL and one DynamoDB Local for a whole run. Each starts when a test file first asks for it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, dynamoDb] = await Promise.all([
    shareServer(startPostgres, ({ url }) => url),
    shareServer(startLocal, ({ endpoint }) => endpoint),
  ]);
  project.provide("sharedPostgres", postgres.url);
  project.provide("sharedDynamoDb", dynamoDb.url);
  return async () => {
    await Promise.all([postgres.stop(), dynamoDb.stop()]);
  };
}
