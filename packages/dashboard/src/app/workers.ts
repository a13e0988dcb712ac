import type { WorkerResult } from "holdfast/admin";

/** A worker without a heartbeat for this long counts as missing, as in the engine and the CLI. */
const MISSING_MS = 60_000;

export function isLive({ left, seenAt }: Pick<WorkerResult, "left" | "seenAt">, now: number): boolean {
  return !left && now - Date.parse(seenAt) <= MISSING_MS;
}

/** Whether it takes jobs of a queue. */
export function takes({ queues }: Pick<WorkerResult, "queues">, queue: string): boolean {
  return queues === null || queues.includes(queue);
}
