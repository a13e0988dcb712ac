import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { DeleteTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, beforeEach, inject } from "vitest";
import { requestAddress } from "../shared-server.js";
import { REGION, startLocal, type Local } from "./local.js";

/** A DynamoDB for the tests of one file. */
export interface Server {
  endpoint(): string;
  /** A name that no other test has used. */
  newTable(): string;
  /** The address of a store on that table. */
  address(table: string, query?: string): string;
  client(): DynamoDBClient;
  /** Deletes the table. */
  drop(table: string): Promise<void>;
  /** Kills the server and starts it again on the same data. Needs `onDisk`. */
  crash(): Promise<void>;
}

interface ServerOptions {
  onDisk?: boolean;
  alone?: boolean;
  forSome?: boolean;
}

/** Why tests that crash the server are skipped; null if they run. */
export const NOT_OURS: string | null =
  process.env["HOLDFAST_TEST_DYNAMODB"] === undefined
    ? null
    : "HOLDFAST_TEST_DYNAMODB names a server that tests must not crash";

export { REGION };

/** Why no DynamoDB is available for tests; null if one is. */
export const NO_SERVER: string | null = missingReason();

function missingReason(): string | null {
  if (process.env["HOLDFAST_TEST_DYNAMODB"] !== undefined) return null;
  const { status, stderr } = spawnSync("java", ["-version"], { encoding: "utf8" });
  const version = status === 0 ? Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0) : 0;
  return version >= 17 ? null : "DynamoDB Local needs Java 17 or later";
}

/**
 * The DynamoDB Local that all files of a run share, or the endpoint in `HOLDFAST_TEST_DYNAMODB`. `alone` starts one for this
 * file, which no other test slows down; `onDisk` too, and its data survives a crash. Without a server all tests of the file are
 * skipped; with `forSome` the tests that need one check `NO_SERVER` themselves.
 */
export function dynamoServer({ onDisk = false, alone = onDisk, forSome = false }: ServerOptions = {}): Server {
  let endpoint = process.env["HOLDFAST_TEST_DYNAMODB"] ?? "";
  let local: Local | null = null;
  let tables = 0;
  let client: DynamoDBClient | null = null;
  const own = randomBytes(4).toString("hex");
  // The emulator requires credentials and does not check them. Child processes need them too.
  process.env["AWS_ACCESS_KEY_ID"] ??= "test";
  process.env["AWS_SECRET_ACCESS_KEY"] ??= "test";

  const reason = NO_SERVER;
  if (reason !== null && !forSome) beforeEach(({ skip }) => skip(reason));
  beforeAll(async () => {
    if (endpoint !== "" || reason !== null) return;
    const shared = alone ? undefined : inject("sharedDynamoDb");
    if (shared === undefined) local = await startLocal({ onDisk });
    endpoint = local?.endpoint ?? (await requestAddress(shared ?? ""));
  }, 60_000);
  afterAll(async () => {
    client?.destroy();
    await local?.stop();
  }, 60_000);

  const shared = (): DynamoDBClient => (client ??= newClient(endpoint));
  return {
    endpoint: () => endpoint,
    newTable: () => `t-${own}-${++tables}`,
    address: (table, query = "") => `dynamodb://${table}?region=${REGION}&endpoint=${endpoint}${query}`,
    client: () => newClient(endpoint),
    drop: async (table) =>
      void (await shared()
        .send(new DeleteTableCommand({ TableName: table }))
        .catch(() => {})),
    crash: () => local?.crash() ?? Promise.reject(new Error(NOT_OURS ?? "not started")),
  };
}

function newClient(endpoint: string): DynamoDBClient {
  return new DynamoDBClient({ endpoint, region: REGION });
}
