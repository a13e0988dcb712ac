import type { Holdfast, JobType } from "holdfast";
import { noop, payload, type Payload } from "../jobs.js";

/** No-op jobs that a worker never runs out of. */
export interface Refilling {
  readonly type: JobType<Payload, void>;
  /** How many jobs ran. */
  readonly ran: number;
  /** Enqueues the first jobs. Call it before the worker starts, which may be faster than this. */
  start(hf: Holdfast): Promise<void>;
  /** Rejects if jobs could not be enqueued. */
  readonly failure: Promise<never>;
  stop(): Promise<void>;
}

const BATCH = 500;
const LOW = 2_000;
const HIGH = 4_000;

export function refilling(): Refilling {
  let hf: Holdfast | null = null;
  let ran = 0;
  let enqueued = 0;
  let filling: Promise<void> | null = null;
  let failed: (error: unknown) => void = () => {};
  const failure = new Promise<never>((_resolve, reject) => (failed = reject));
  failure.catch(() => {});

  const type = noop(() => {
    ran++;
    if (enqueued - ran < LOW) refill();
  });
  function refill(): void {
    filling ??= fill()
      .catch(failed)
      .finally(() => (filling = null));
  }
  async function enqueueBatch(client: Holdfast): Promise<void> {
    const inputs = Array.from({ length: BATCH }, () => payload());
    await client.enqueueMany(type, inputs);
    enqueued += BATCH;
  }
  async function fill(): Promise<void> {
    while (hf !== null && enqueued - ran < HIGH) await enqueueBatch(hf);
  }

  return {
    type,
    get ran() {
      return ran;
    },
    async start(given) {
      while (enqueued < HIGH) await enqueueBatch(given);
      hf = given;
    },
    failure,
    async stop() {
      hf = null;
      await filling;
    },
  };
}
