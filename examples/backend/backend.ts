import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { Server } from "node:http";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { holdfast, type Duration, type Holdfast } from "holdfast";
import { admin } from "holdfast/admin";
import type { LoadedConfig } from "holdfast/config";
import { postgres } from "holdfast/postgres";
import pg from "pg";
import { createCleanUp } from "./clean-up.js";
import { createTables } from "./tables.js";

export interface BackendOptions {
  /** The database: the tables of the backend and the jobs. */
  databaseUrl: string;
  /** The settings of holdfast.toml and of variables: among them whether this process runs jobs and schedules. */
  config: LoadedConfig;
  /** How often the legacy pruner runs while the queue is disabled. Default: every hour. */
  pruneEvery?: Duration;
  /** Default: any free port. */
  port?: number;
}

/** A running backend. */
export interface Backend {
  url: string;
  hf: Holdfast;
  pool: pg.Pool;
  stop: () => Promise<void>;
}

/** How long requests in progress may take when the backend stops. */
const GRACE_MS = 1_000;

export async function startBackend(options: BackendOptions): Promise<Backend> {
  const { databaseUrl, config, pruneEvery = "1h", port = 0 } = options;
  const pool = new pg.Pool({ connectionString: databaseUrl });
  // A connection that is lost while idle is replaced by the next query.
  pool.on("error", () => {});
  await createTables(pool);

  const cleanUp = createCleanUp(pool);
  const hf = await holdfast({ ...config.holdfast, store: postgres({ pool }), jobs: cleanUp.jobs, logger: false });
  // Creates the schedules that do not exist yet. What an operator changed stays.
  await cleanUp.install(hf);
  if (config.work !== null) hf.work({ ...config.work, unknownType: "dead" });

  // Without the queue, a timer deletes old webhook deliveries.
  const pruner = cleanUp.legacyPruner({
    queueEnabled: config.work !== null,
    every: pruneEvery,
    onError: (error) => console.error("The pruner failed:", error),
  });
  pruner.start();

  const api = admin(hf, { basePath: "/ops" });
  const app = new Hono();
  app.get("/", (context) => context.json({ name: "backend", dashboard: "/ops/" }));
  app.mount("/ops", (request, env) => api.fetch(request, env));
  const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port }) as Server;
  await new Promise((resolve) => server.once("listening", resolve));

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    hf,
    pool,
    // In this order: scheduler, workers, jobs in progress; then requests; then connections.
    async stop() {
      await pruner.stop();
      await hf.close();
      await api.close();
      await closeServer(server);
      await pool.end();
    },
  };
}

async function closeServer(server: Server): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections();
  // Browsers open connections in advance, without a request: they never become idle.
  const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS);
  await closed;
  clearTimeout(timer);
}
