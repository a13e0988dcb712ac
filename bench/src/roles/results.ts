import { setTimeout as sleep } from "node:timers/promises";
import { holdfast } from "holdfast";
import { noop, payload } from "../jobs.js";
import { REST_MS } from "./latency.js";
import type { Stage } from "./role.js";
import { stuck } from "./stuck.js";

const WARM_UP = 20;
// A slow store returns fewer samples, so that the trial ends in time.
const ENOUGH_MS = 20_000;

/** Enqueues in the process of the worker, one job at a time. Returns the milliseconds until each result. */
export async function results({ url, samples }: { url: string; samples: number }, stage: Stage): Promise<number[]> {
  const type = noop(() => {});
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  hf.work({ concurrency: 10 });
  const taken: number[] = [];
  let run = 0;
  const stall = stuck(hf, () => run);
  await stage.ready();
  const until = performance.now() + ENOUGH_MS;
  for (; run < WARM_UP + samples && (taken.length === 0 || performance.now() < until); run++) {
    const begun = performance.now();
    const { id } = await hf.enqueue(type, payload());
    await Promise.race([hf.result(id), stall.failure]);
    if (run >= WARM_UP) taken.push(performance.now() - begun);
    await sleep(REST_MS);
  }
  stall.stop();
  await hf.close();
  return taken;
}
