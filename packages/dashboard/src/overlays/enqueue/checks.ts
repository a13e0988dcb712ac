import type { QueueResult, WorkerResult } from "holdfast/admin";
import { api } from "../../app/api.js";
import { coarse, number } from "../../app/format.js";

/** What matters before a job can run, whether it is in order or not. */
export interface Check {
  isMet: boolean;
  text: string;
}

/** Like the engine: a worker that has sent no heartbeat for so long is missing. */
const MISSING_MS = 60_000;

export function isLiveWorker({ left, seenAt }: Pick<WorkerResult, "left" | "seenAt">, now: number): boolean {
  return !left && Date.parse(seenAt) > now - MISSING_MS;
}

interface Place {
  type: string;
  queue: string;
}

/** What a job needs around it. */
export interface Around {
  queues: readonly QueueResult[];
  /** All queues are. */
  paused: boolean;
  workers: readonly WorkerResult[];
}

/** Since when a queue is paused, and by whom; null: it is not. */
function pauseOf(queue: string, { queues, paused }: Pick<Around, "queues" | "paused">, now: number): string | null {
  if (paused) return "All queues are paused";
  const own = queues.find((each) => each.queue === queue);
  if (own?.paused !== true) return null;
  const by = own.pausedBy === null ? "" : ` by ${own.pausedBy}`;
  if (own.pausedAt === null) return `Queue ${queue} is paused${by}`;
  return `Queue ${queue} has been paused for ${coarse(now - Date.parse(own.pausedAt))}${by}`;
}

/** Whether workers and the queue would take a job of this type. */
export function checksOf({ type, queue }: Place, { queues, paused, workers }: Around, now: number): Check[] {
  const checks: Check[] = [];
  const pause = pauseOf(queue, { queues, paused }, now);
  checks.push(pause === null ? { isMet: true, text: `Queue ${queue} is not paused` } : { isMet: false, text: pause });

  const live = workers.filter((worker) => isLiveWorker(worker, now));
  const able = live.filter(
    ({ queues: served, types }) => (served === null || served.includes(queue)) && types.includes(type),
  );
  if (able.length === 0) {
    checks.push({ isMet: false, text: live.length === 0 ? "No worker is live" : `No live worker takes ${type}` });
  } else {
    const free = able.reduce((sum, { concurrency, running }) => sum + Math.max(0, concurrency - running), 0);
    const takes =
      able.length === 1 ? `1 live worker takes ${type}` : `${number(able.length)} live workers take ${type}`;
    checks.push({
      isMet: true,
      text:
        free === 0
          ? `${takes}, ${able.length === 1 ? "but is" : "but all are"} busy`
          : `${takes} and can start ${number(free)} more`,
    });
  }
  return checks;
}

/** Queues and workers. */
export async function loadAround(): Promise<Around> {
  const [{ queues, paused }, { workers }] = await Promise.all([api.queues.list(), api.workers.list()]);
  return { queues, paused, workers };
}
