import { holdfast, type Holdfast } from "holdfast";
import { noop, payload } from "../jobs.js";
import type { Stage } from "./role.js";
import { stuck } from "./stuck.js";

export interface FireOrder {
  url: string;
  /** Schedules that are due. */
  count: number;
}
export interface Fired {
  /** From the start of the worker to the last slot that became a job. */
  ms: number;
  /** Enqueue to start of other jobs in the meantime. */
  latencies: number[];
}

/** Starts a worker on a store full of due schedules, and enqueues other jobs at the same time. */
export async function fireSchedules({ url, count }: FireOrder, stage: Stage): Promise<Fired> {
  const began = new Map<string, (at: number) => void>();
  const type = noop(({ sentAt }) => began.get(sentAt ?? "")?.(performance.now()));
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  let fired = 0;
  let all: () => void = () => {};
  const done = new Promise<void>((resolve) => (all = resolve));
  hf.on("fired", () => {
    if (++fired === count) all();
  });
  const stall = stuck(hf, () => fired);
  await stage.ready();

  const start = performance.now();
  hf.work({ concurrency: 10 });
  const latencies: number[] = [];
  let over = false;
  const background = (async () => {
    for (let n = 0; !over; n++) {
      // With a higher priority than the jobs of the schedules, so that their backlog is not measured.
      const sentAt = String(n);
      const started = new Promise<number>((resolve) => began.set(sentAt, resolve));
      const before = performance.now();
      await hf.enqueue(type, { ...payload(), sentAt }, { priority: 10 });
      latencies.push((await started) - before);
      began.delete(sentAt);
    }
  })();
  await Promise.race([done, stall.failure]);
  const ms = performance.now() - start;
  over = true;
  await background;
  stall.stop();
  await hf.close();
  return { ms, latencies };
}

const LOOKS = 2_000;

/** Polls for due schedules where none is due. Returns the seconds for all polls. */
export async function lookForDue({ url }: { url: string }, stage: Stage): Promise<{ seconds: number; count: number }> {
  const hf: Holdfast = await holdfast({ store: url, logger: false });
  for (let warmUp = 0; warmUp < 100; warmUp++) await hf.schedules.fireDue();
  await stage.ready();
  const start = performance.now();
  for (let look = 0; look < LOOKS; look++) await hf.schedules.fireDue();
  const seconds = (performance.now() - start) / 1_000;
  await hf.close();
  return { seconds, count: LOOKS };
}
