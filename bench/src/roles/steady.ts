import { setTimeout as sleep } from "node:timers/promises";
import { holdfast, NotRetryable } from "holdfast";
import { noop, payload } from "../jobs.js";
import type { Stage } from "./role.js";

export interface SteadyOrder {
  url: string;
  transitionsPerSecond: number;
}

/** What happened in so many seconds. */
export interface Steady {
  transitions: number;
  seconds: number;
}

const TRANSITIONS = ["enqueued", "claimed", "started", "completed", "dead"] as const;
/** Enqueued, claimed, started, ended. */
const PER_JOB = 4;
/** The start of a handler that takes less is not written. */
const RUN_MS = 50;
/** One in so many jobs dies. */
const DEAD_EVERY = 10;
const CONCURRENCY = 10;
const REPORT_MS = 1_000;

/** Enqueues and runs jobs at a steady pace until it is stopped. The first progress is its start. */
export async function steady({ url, transitionsPerSecond }: SteadyOrder, stage: Stage): Promise<Steady> {
  let ran = 0;
  const type = noop(async () => {
    await sleep(RUN_MS);
    if (++ran % DEAD_EVERY === 0) throw new NotRetryable(`the mail server refused message ${ran}`);
  });
  const hf = await holdfast({ store: url, jobs: [type], logger: false });
  await hf.schedule("yearly", { job: type, input: payload(), cron: "0 0 1 1 *" });
  let transitions = 0;
  for (const name of TRANSITIONS) hf.on(name, () => transitions++);
  const worker = hf.work({ concurrency: CONCURRENCY });
  await stage.ready();
  const begun = performance.now();
  let failed: (error: unknown) => void = () => {};
  const failure = new Promise<never>((_resolve, reject) => (failed = reject));
  const pace = setInterval(
    () => void hf.enqueue(type, payload()).catch(failed),
    (PER_JOB * 1_000) / transitionsPerSecond,
  );
  stage.progress(transitions);
  const reports = setInterval(() => stage.progress(transitions), REPORT_MS);
  await Promise.race([stage.stopped, failure]);
  clearInterval(pace);
  clearInterval(reports);
  const seconds = (performance.now() - begun) / 1_000;
  const result = { transitions, seconds };
  await worker.stop();
  await hf.close();
  return result;
}
