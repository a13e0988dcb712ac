import type { EngineContext } from "../context.js";
import { readWorkOptions, type WorkOptions } from "./work-options.js";
import { JobWorker } from "./worker.js";

/** What `runNext` and `drain` take. */
export interface DrainOptions extends Pick<
  WorkOptions,
  "queues" | "types" | "concurrency" | "lease" | "grace" | "unknownType"
> {
  /** When aborted, nothing more is claimed; running jobs have the grace time to end, as with `stop` of a worker. */
  signal?: AbortSignal;
}

const DRAIN_BATCH = 100;

/** `hf.runNext`: runs one due job. Jobs that are settled without running do not count. */
export function runNext(engine: EngineContext, workers: Set<JobWorker>, options: DrainOptions): Promise<boolean> {
  return withWorker(engine, workers, { ...options, concurrency: 1 }, async (worker) => {
    for (;;) {
      const { claimed, ran } = await worker.runBatch(1);
      if (ran > 0 || claimed === 0) return ran > 0;
    }
  });
}

/** `hf.drain`: runs batches until a claim returns nothing. Returns how many jobs ran. */
export function drain(engine: EngineContext, workers: Set<JobWorker>, options: DrainOptions): Promise<number> {
  return withWorker(engine, workers, options, async (worker) => {
    let total = 0;
    for (;;) {
      const { claimed, ran } = await worker.runBatch(DRAIN_BATCH);
      total += ran;
      if (claimed === 0) return total;
    }
  });
}

/** Uses a worker that claims only on request, and stops it afterwards or when the signal is aborted. */
async function withWorker<Result>(
  engine: EngineContext,
  workers: Set<JobWorker>,
  { signal, ...options }: DrainOptions,
  use: (worker: JobWorker) => Promise<Result>,
): Promise<Result> {
  const worker = new JobWorker(engine, readWorkOptions(options));
  workers.add(worker);
  const stop = (): void => void worker.stop().catch(() => {});
  if (signal?.aborted === true) stop();
  else signal?.addEventListener("abort", stop, { once: true });
  try {
    return await use(worker);
  } finally {
    signal?.removeEventListener("abort", stop);
    await worker.stop();
    workers.delete(worker);
  }
}
