import { setTimeout as sleep } from "node:timers/promises";
import { holdfast } from "holdfast";
import pg from "pg";
import { noop } from "../jobs.js";
import type { Stage } from "./role.js";

// Until everything that comes with a start is over.
const SETTLE_MS = 3_000;

/** A worker and a scheduler with nothing to do. Answers how many queries a second they send. */
export async function idle({ url, watchedMs }: { url: string; watchedMs: number }, stage: Stage): Promise<number> {
  let queries = 0;
  const client = pg.Client.prototype as unknown as { query: (...args: unknown[]) => unknown };
  const { query } = client;
  client.query = function counted(this: unknown, ...args: unknown[]): unknown {
    queries++;
    return query.apply(this, args);
  };
  const type = noop(() => {});
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  await hf.schedule("yearly", { job: type, input: { to: "nobody" }, cron: "0 0 1 1 *" });
  hf.work({ concurrency: 10 });
  await sleep(SETTLE_MS);
  await stage.ready();
  const before = queries;
  const begun = performance.now();
  await sleep(watchedMs);
  const perSecond = ((queries - before) * 1_000) / (performance.now() - begun);
  await hf.close();
  return perSecond;
}
