import { setTimeout as sleep } from "node:timers/promises";
import { holdfast } from "holdfast";
import pg from "pg";
import { noop } from "../jobs.js";
import { countQueries } from "./postgres-queries.js";
import type { Stage } from "./role.js";

export interface Idle {
  queriesPerSecond: number;
  /** Share of one core: this process and, on PostgreSQL, the server's work for it. */
  busyPercent: number;
}

// Wait until all work of the start is done, but not longer than the measurement itself.
const SETTLE_MS = 3_000;

/** The queries and the CPU time of an idle worker and scheduler. */
export async function idle({ url, watchedMs }: { url: string; watchedMs: number }, stage: Stage): Promise<Idle> {
  const queries = countQueries();
  const type = noop(() => {});
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  await hf.schedule("yearly", { job: type, input: { to: "ada" }, cron: "0 0 1 1 *" });
  hf.work({ concurrency: 10 });
  const server = url.startsWith("postgres:") ? new pg.Client({ connectionString: url }) : null;
  await server?.connect();
  await sleep(Math.min(SETTLE_MS, watchedMs));
  await stage.ready();
  const serverBefore = await activeMs(server);
  const cpuBefore = process.cpuUsage();
  const before = queries();
  const begun = performance.now();
  await sleep(watchedMs);
  const sent = queries() - before;
  const ms = performance.now() - begun;
  const cpu = process.cpuUsage(cpuBefore);
  const serverMs = (await activeMs(server)) - serverBefore;
  await server?.end();
  await hf.close();
  const busyMs = (cpu.user + cpu.system) / 1_000 + serverMs;
  return { queriesPerSecond: (sent * 1_000) / ms, busyPercent: (busyMs * 100) / ms };
}

/** The time that the server has spent on statements in this database. */
async function activeMs(server: pg.Client | null): Promise<number> {
  if (server === null) return 0;
  const { rows } = await server.query("SELECT active_time FROM pg_stat_database WHERE datname = current_database()");
  return (rows as { active_time: number }[])[0]?.active_time ?? Number.NaN;
}
