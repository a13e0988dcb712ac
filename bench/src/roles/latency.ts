import { setTimeout as sleep } from "node:timers/promises";
import { holdfast } from "holdfast";
import { noop, payload } from "../jobs.js";
import type { Stage } from "./role.js";
import { stuck } from "./stuck.js";

export interface LatencyOrder {
  url: string;
  samples: number;
}

/** The number of warm-up samples: as many as are measured, up to a maximum. */
export function warmUpOf(samples: number): number {
  return Math.min(200, samples);
}
/**
 * Long enough for the worker to be idle again. The raw baseline waits as long, because an idle disk has another
 * latency.
 */
export const REST_MS = 2;

/** Enqueues in the process of the worker, one job at a time. Returns the milliseconds until each handler started. */
export async function latency({ url, samples }: LatencyOrder, stage: Stage): Promise<number[]> {
  let began: (at: number) => void = () => {};
  let completed: () => void = () => {};
  const type = noop(() => began(performance.now()));
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  hf.on("completed", () => completed());
  const taken: number[] = [];
  const stall = stuck(hf, () => taken.length);
  await stage.ready();

  const worker = hf.work({ concurrency: 10 });
  const warmUp = warmUpOf(samples);
  for (let index = 0; index < warmUp + samples; index++) {
    const start = new Promise<number>((resolve) => (began = resolve));
    const end = new Promise<void>((resolve) => (completed = resolve));
    const sentAt = performance.now();
    const enqueued = hf.enqueue(type, payload());
    const startedAt = await Promise.race([start, stall.failure]);
    await Promise.race([Promise.all([enqueued, end]), stall.failure]);
    if (index >= warmUp) taken.push(startedAt - sentAt);
    await sleep(REST_MS);
  }
  stall.stop();
  await worker.stop();
  await hf.close();
  return taken;
}

/** A worker that reports how long ago each job was enqueued, by any process. */
export async function listen({ url }: { url: string }, stage: Stage): Promise<void> {
  const type = noop(({ sentAt }) => {
    const ns = process.hrtime.bigint() - BigInt(sentAt ?? 0);
    stage.progress(Number(ns) / 1e6);
  });
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  hf.work({ concurrency: 10 });
  await stage.ready();
  await stage.stopped;
  await hf.close();
}
