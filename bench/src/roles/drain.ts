import { monitorEventLoopDelay } from "node:perf_hooks";
import { holdfast } from "holdfast";
import { noop } from "../jobs.js";
import { openStore } from "../open-store.js";
import { countBatches, type Batches } from "./batches.js";
import { watchMemory } from "./peak-memory.js";
import type { Stage } from "./role.js";
import { stuck } from "./stuck.js";

export interface DrainOrder {
  url: string;
  concurrency: number;
  types: readonly string[] | null;
  /** Stop after this many runs; null: on request. */
  expect: number | null;
  progressMs: number;
}

export interface DrainResult {
  ran: number;
  /** From the start of the worker until it has stopped and every outcome is durable. */
  seconds: number;
  /** CPU time of all threads in the same period. */
  cpuSeconds: number;
  batches: Batches;
  peakRssMb: number;
  loopDelay: { p99Ms: number; maxMs: number };
}

// The histogram contains the whole time between two samples; the part above the interval is the delay.
const LOOK_MS = 1;

/** A worker process: claims, runs no-op jobs, settles. */
export async function drain(order: DrainOrder, stage: Stage): Promise<DrainResult> {
  let ran = 0;
  let enough: () => void = () => {};
  const done = Promise.race([stage.stopped, new Promise<void>((resolve) => (enough = resolve))]);
  const type = noop(() => {
    if (++ran === order.expect) enough();
  });
  const store = await openStore(order.url);
  const batches = countBatches(store);
  // Each expired job would log a line, and the cost of a terminal must not be measured.
  const hf = await holdfast({ store, jobs: [type], logger: false });
  const memory = watchMemory();
  const stall = stuck(hf, () => batches.settled);
  const delay = monitorEventLoopDelay({ resolution: LOOK_MS });
  await stage.ready();

  const teller = setInterval(() => stage.progress(ran), order.progressMs);
  delay.enable();
  const cpuBefore = process.cpuUsage();
  const begun = performance.now();
  const worker = hf.work({ concurrency: order.concurrency, ...(order.types === null ? {} : { types: order.types }) });
  await Promise.race([done, stall.failure]);
  stall.stop();
  await worker.stop();
  const seconds = (performance.now() - begun) / 1_000;
  const cpu = process.cpuUsage(cpuBefore);
  delay.disable();
  clearInterval(teller);
  const peakRssMb = memory.stop();
  await hf.close();
  const aboveLook = (ns: number): number => Math.max(0, ns / 1e6 - LOOK_MS);
  const loopDelay = { p99Ms: aboveLook(delay.percentile(99)), maxMs: aboveLook(delay.max) };
  return { ran, seconds, cpuSeconds: (cpu.user + cpu.system) / 1e6, batches, peakRssMb, loopDelay };
}
