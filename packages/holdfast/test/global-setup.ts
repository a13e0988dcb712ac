import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { startLocal } from "./dynamodb/local.js";
import { startPostgres } from "./postgres/start.js";
import { shareServer } from "./shared-server.js";

/**
 * vitest's global setup: one PostgreSQL and one DynamoDB Local for a whole run, each started when a test file first asks for it,
 * and one folder for temporary files, so that a test that is killed leaves nothing behind.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-run-"));
  // PostgreSQL runs as another user if the tests run as root.
  chmodSync(folder, 0o755);
  process.env["TMPDIR"] = folder;
  const [postgres, dynamoDb] = await Promise.all([
    shareServer(startPostgres, ({ url }) => url),
    shareServer(startLocal, ({ endpoint }) => endpoint),
  ]);
  project.provide("sharedPostgres", postgres.url);
  project.provide("sharedDynamoDb", dynamoDb.url);
  return async () => {
    await Promise.all([postgres.stop(), dynamoDb.stop()]);
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  };
}
