import type { Database } from "better-sqlite3";
import { ALL_QUEUES } from "../../../defaults.js";
import type { QueueRecord } from "../../../store.js";

export interface Lane {
  queue: string;
  priority: number;
}

/** A lane with live jobs, and the first of them in claim order. */
export interface LiveLane extends Lane {
  dueAt: number;
  seq: number;
}

/**
 * The lanes with live jobs: one per queue and priority. A claim goes from lane to lane, so that 100,000 future jobs of a
 * higher priority cost one seek and no scan.
 *
 * Lanes are read from the index of live jobs, one seek per lane. A queue whose jobs have all finished has no lane, so 10,000
 * such queues cost a claim nothing.
 */
export interface Lanes {
  /** Lanes of queues that are not paused, highest priority first. */
  unpaused(queues: readonly string[] | null): LiveLane[];
  /** All lanes, by queue and priority. */
  live(): LiveLane[];
  setPaused(queue: string, paused: boolean): void;
  queues(): QueueRecord[];
}

export function laneStatements(db: Database): Lanes {
  // Two seeks instead of one `(queue, priority) > (?, ?)`, for which SQLite would scan all jobs of the lane.
  const select = "SELECT queue, priority, due_at AS dueAt, seq FROM holdfast_jobs INDEXED BY holdfast_jobs_due";
  const firstOf = db.prepare(`${select} WHERE due_at IS NOT NULL AND queue = ? ORDER BY priority, due_at, seq LIMIT 1`);
  const nextPriority = db.prepare(
    `${select} WHERE due_at IS NOT NULL AND queue = ? AND priority > ? ORDER BY priority, due_at, seq LIMIT 1`,
  );
  const nextQueue = db.prepare(
    `${select} WHERE due_at IS NOT NULL AND queue > ? ORDER BY queue, priority, due_at, seq LIMIT 1`,
  );
  const pausedQueues = db.prepare("SELECT queue FROM holdfast_paused").pluck();
  const pause = db.prepare("INSERT OR IGNORE INTO holdfast_paused (queue) VALUES (?)");
  const resume = db.prepare("DELETE FROM holdfast_paused WHERE queue = ?");

  function ofQueue(queue: string): LiveLane[] {
    const lanes: LiveLane[] = [];
    let lane = firstOf.get(queue) as LiveLane | undefined;
    while (lane !== undefined) {
      lanes.push(lane);
      lane = nextPriority.get(queue, lane.priority) as LiveLane | undefined;
    }
    return lanes;
  }
  function live(): LiveLane[] {
    const lanes: LiveLane[] = [];
    let lane = nextQueue.get("") as LiveLane | undefined;
    while (lane !== undefined) {
      lanes.push(lane);
      const { queue, priority } = lane;
      lane = (nextPriority.get(queue, priority) ?? nextQueue.get(queue)) as LiveLane | undefined;
    }
    return lanes;
  }

  return {
    unpaused(queues) {
      const lanes = queues === null ? live() : [...new Set(queues)].flatMap(ofQueue);
      const paused = new Set(pausedQueues.all());
      if (paused.has(ALL_QUEUES)) return [];
      const unpaused = paused.size === 0 ? lanes : lanes.filter(({ queue }) => !paused.has(queue));
      return unpaused.length < 2 ? unpaused : unpaused.sort((a, b) => b.priority - a.priority);
    },
    live,
    setPaused(queue, paused) {
      (paused ? pause : resume).run(queue);
    },
    queues() {
      const paused = new Set(pausedQueues.all() as string[]);
      const byQueue = new Map<string, QueueRecord>();
      for (const { queue, priority } of live()) {
        const known = byQueue.get(queue);
        if (known === undefined) byQueue.set(queue, { queue, paused: paused.has(queue), priorities: [priority] });
        else known.priorities.unshift(priority);
      }
      for (const queue of paused) if (!byQueue.has(queue)) byQueue.set(queue, { queue, paused: true, priorities: [] });
      return [...byQueue.values()];
    },
  };
}
