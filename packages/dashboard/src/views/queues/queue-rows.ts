// What the view of queues shows, from counts, history and workers.
import type { HistoryResult, QueueResult, StatsResult, WorkerResult } from "holdfast/admin";
import { isLive, takes } from "../../app/workers.js";

export interface QueueRow {
  queue: string;
  paused: boolean;
  pausedAt: string | null;
  pausedBy: string | null;
  /** Highest first. */
  priorities: readonly number[];
  types: readonly string[];
  waiting: number;
  running: number;
  /** Claimed ahead by workers, and not started. */
  claimed: number;
  retrying: number;
  dead: number;
  /** What live workers that take this queue can run at a time. 0: none takes it. */
  capacity: number;
  /** These workers take other queues too. */
  isShared: boolean;
  /** Finished per minute, the last hour. */
  finished: readonly number[];
  perSecond: number | null;
  waitP95: number | null;
  oldestDueMs: number | null;
}

interface Sources {
  queues: readonly QueueResult[];
  stats: StatsResult | null;
  history: HistoryResult | undefined;
  workers: readonly WorkerResult[];
  now: number;
}

const MINUTE_MS = 60_000;
/** A minute before this says nothing about now. */
const RECENT_MS = 3 * MINUTE_MS;

/** Sorted by name: rows do not move when counts change. */
export function queueRows({ queues, stats, history, workers, now }: Sources): QueueRow[] {
  const known = new Map(queues.map((each) => [each.queue, each]));
  const names = new Set([...known.keys(), ...Object.keys(stats?.queues ?? {})]);
  const live = workers.filter((worker) => isLive(worker, now));
  const series = new Map(history?.series.map(({ name, points }) => [name, points]));
  const due = new Map(stats?.oldestDue.map(({ queue, dueMs }) => [queue, dueMs]));
  return [...names].toSorted(compare).map((queue) => {
    const { paused = false, pausedAt = null, pausedBy = null, priorities = [] } = known.get(queue) ?? {};
    const counts = countsOf(stats, queue);
    const takers = live.filter((worker) => takes(worker, queue));
    // The current minute is not over.
    const points = (series.get(queue) ?? []).filter(({ at }) => Date.parse(at) <= now - MINUTE_MS);
    const recent = points.filter(({ at }) => Date.parse(at) >= now - RECENT_MS);
    const finished = points.map(({ completed, dead, cancelled }) => completed + dead + cancelled);
    return {
      queue,
      paused,
      pausedAt,
      pausedBy,
      priorities: [...priorities].toSorted((a, b) => b - a),
      types: typesOf(stats, queue),
      ...counts,
      capacity: takers.reduce((sum, { concurrency }) => sum + concurrency, 0),
      isShared: names.size > 1 && takers.some(({ queues: own }) => own === null || own.length > 1),
      finished,
      perSecond: finished.length === 0 ? null : (finished.at(-1) ?? 0) / 60,
      waitP95: recent.findLast(({ wait }) => wait !== null)?.wait?.p95 ?? null,
      oldestDueMs: due.get(queue) ?? null,
    };
  });
}

function compare(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}

function countsOf(
  stats: StatsResult | null,
  queue: string,
): Pick<QueueRow, "waiting" | "running" | "claimed" | "retrying" | "dead"> {
  const counts = stats !== null && Object.hasOwn(stats.queues, queue) ? stats.queues[queue] : undefined;
  if (counts === undefined) return { waiting: 0, running: 0, claimed: 0, retrying: 0, dead: 0 };
  const { pending, claimed, running, failed, dead } = counts;
  return { waiting: pending, running, claimed, retrying: failed, dead };
}

/** The types of its jobs, those with the most jobs first. */
function typesOf(stats: StatsResult | null, queue: string): string[] {
  const totals = new Map<string, number>();
  for (const each of stats?.counts ?? []) {
    if (each.queue === queue) totals.set(each.type, (totals.get(each.type) ?? 0) + each.count);
  }
  return [...totals].toSorted(([, one], [, other]) => other - one).map(([type]) => type);
}
