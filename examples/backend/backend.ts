import type { AddressInfo } from "node:net";
import type { Server } from "node:http";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { holdfast, type Holdfast } from "holdfast";
import { admin } from "holdfast/admin";
import { postgres } from "holdfast/postgres";
import pg from "pg";
import { createCleanUp } from "./clean-up.js";
import { createTables } from "./tables.js";

export interface BackendOptions {
  /** The database: the tables of the backend and the jobs. */
  databaseUrl: string;
  /** Whether this process runs jobs and schedules. */
  jobsEnabled: boolean;
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

export async function startBackend({ databaseUrl, jobsEnabled, port = 0 }: BackendOptions): Promise<Backend> {
  const pool = new pg.Pool({ connectionString: databaseUrl });
  // A connection that is lost while idle is replaced by the next query.
  pool.on("error", () => {});
  await createTables(pool);

  const cleanUp = createCleanUp(pool);
  const hf = await holdfast({
    store: postgres({ pool }),
    jobs: cleanUp.jobs,
    retry: { backoff: { base: "5s", max: "5m", jitter: "1s" } },
    scheduler: { tick: "15s" },
    logger: false,
  });
  // Creates the schedules that do not exist yet. What an operator changed stays.
  await cleanUp.install(hf);
  if (jobsEnabled) hf.work({ concurrency: 4, poll: "1s", lease: "5m", unknownType: "dead" });

  // Without the queue, a timer deletes old webhook deliveries.
  const pruner = cleanUp.legacyPruner({
    queueEnabled: jobsEnabled,
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
    // In this order: no new work, running jobs, requests, connections.
    async stop() {
      await pruner.stop();
      await api.close();
      server.close();
      server.closeIdleConnections();
      await hf.close();
      await pool.end();
    },
  };
}
