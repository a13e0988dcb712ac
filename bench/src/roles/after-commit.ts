import { setTimeout as sleep } from "node:timers/promises";
import { holdfast } from "holdfast";
import pg from "pg";
import { noop, payload } from "../jobs.js";
import type { Stage } from "./role.js";
import { stuck } from "./stuck.js";

export interface AfterCommitOrder {
  url: string;
  samples: number;
  /** How long each transaction stays open after the enqueue. */
  openMs: number;
}

const WARM_UP = 10;

/** Enqueues in transactions that stay open for a while. Returns the milliseconds from each COMMIT to the handler. */
export async function afterCommit({ url, samples, openMs }: AfterCommitOrder, stage: Stage): Promise<number[]> {
  let began: (at: number) => void = () => {};
  const type = noop(() => began(performance.now()));
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  hf.work({ concurrency: 10 });
  const taken: number[] = [];
  const stall = stuck(hf, () => taken.length);
  await stage.ready();
  for (let index = 0; index < WARM_UP + samples; index++) {
    const start = new Promise<number>((resolve) => (began = resolve));
    await client.query("BEGIN");
    await hf.enqueue(type, payload(), { tx: client });
    await sleep(openMs);
    const before = performance.now();
    await client.query("COMMIT");
    const ms = (await Promise.race([start, stall.failure])) - before;
    if (index >= WARM_UP) taken.push(ms);
  }
  stall.stop();
  await client.end();
  await hf.close();
  return taken;
}
