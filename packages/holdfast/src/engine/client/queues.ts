import { ALL_QUEUES } from "../../defaults.js";
import { dateOrNull } from "../../duration.js";
import { InvalidOptionError } from "../../errors.js";
import { readQueue } from "../../options.js";
import type { QueueRecord } from "../../store.js";
import type { EngineContext } from "../context.js";

/** A queue, as `hf.queues()` returns it. */
export interface QueueStatus extends Omit<QueueRecord, "pausedAt"> {
  pausedAt: Date | null;
}

/** Pauses a queue, or all of them without one. `by`: who asked for it; null: the program itself. */
export async function pauseQueues(
  { store, events }: EngineContext,
  queues: readonly unknown[],
  by: string | null,
): Promise<void> {
  const queue = readQueueOrAll(queues, "pause");
  await store.pause(queue, by);
  events.emit("paused", { queue });
}

export async function resumeQueues({ store, events }: EngineContext, queues: readonly unknown[]): Promise<void> {
  const queue = readQueueOrAll(queues, "resume");
  await store.resume(queue);
  events.emit("resumed", { queue });
}

/** Only a call without an argument means all queues: an undefined queue is a mistake. */
function readQueueOrAll(queues: readonly unknown[], call: "pause" | "resume"): string {
  if (queues.length === 0) return ALL_QUEUES;
  const advice = `for all queues call ${call}() without an argument`;
  if (queues[0] === undefined) throw new InvalidOptionError("queue", `is undefined; ${advice}`);
  return readQueue(queues[0], "queue", `; ${advice}`);
}

/** Queues with jobs, including those in which all jobs are finished: the store lists only the others, but its counts contain all. */
export async function listQueues(engine: EngineContext): Promise<QueueStatus[]> {
  return (await readQueues(engine, engine.store.stats())).queues;
}

/** Also whether all queues are paused, from one read of the store. */
export async function readQueues(
  { store }: EngineContext,
  counted: Promise<{ counts: readonly { queue: string }[] }>,
): Promise<{ queues: QueueStatus[]; paused: boolean }> {
  const [known, { counts }] = await Promise.all([store.queues(), counted]);
  const queues = withFinished(
    known.filter(({ queue }) => queue !== ALL_QUEUES),
    counts,
  ).map((record) => ({ ...record, pausedAt: dateOrNull(record.pausedAt) }));
  return { queues, paused: known.some(({ queue }) => queue === ALL_QUEUES) };
}

function withFinished(known: readonly QueueRecord[], counts: readonly { queue: string }[]): QueueRecord[] {
  const others = new Set(counts.map(({ queue }) => queue));
  for (const { queue } of known) others.delete(queue);
  const finished = [...others].map((queue): QueueRecord => {
    return { queue, paused: false, pausedAt: null, pausedBy: null, priorities: [] };
  });
  return [...known, ...finished].toSorted((a, b) => (a.queue < b.queue ? -1 : 1));
}
