import type { Database } from "better-sqlite3";
import { ALL_QUEUES } from "../../../defaults.js";
import type { QueuePosition, QueueRecord } from "../../../store.js";

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
  pause(queue: string, by: string | null, now: number): void;
  resume(queue: string): void;
  queues(): QueueRecord[];
  /** How many due jobs a claim would take before this one. */
  countAhead(before: QueuePosition, atMost: number, now: number): number;
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
  const pauses = db.prepare("SELECT queue, paused_at AS pausedAt, paused_by AS pausedBy FROM holdfast_paused");
  const pause = db.prepare("INSERT OR IGNORE INTO holdfast_paused (queue, paused_at, paused_by) VALUES (?, ?, ?)");
  const resume = db.prepare("DELETE FROM holdfast_paused WHERE queue = ?");
  const dueIn = "SELECT count(*) FROM (SELECT 1 FROM holdfast_jobs WHERE queue = ? AND priority = ? AND due_at <= ?";
  const dueCount = db.prepare(`${dueIn} LIMIT ?)`).pluck();
  const earlierCount = db.prepare(`${dueIn} AND (due_at, seq) < (?, ?) LIMIT ?)`).pluck();
  const seqOf = db.prepare("SELECT seq FROM holdfast_jobs WHERE id = ?").pluck();

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
    pause: (queue, by, now) => void pause.run(queue, now, by),
    resume: (queue) => void resume.run(queue),
    countAhead({ id, queue, priority, dueAt }, atMost, now) {
      let count = 0;
      for (const lane of ofQueue(queue).toReversed()) {
        if (lane.priority <= priority || count >= atMost) break;
        count += dueCount.get(queue, lane.priority, now, atMost - count) as number;
      }
      const seq = (seqOf.get(id) as number | undefined) ?? 0;
      return count + (earlierCount.get(queue, priority, now, dueAt, seq, atMost - count) as number);
    },
    queues() {
      const paused = new Map((pauses.all() as Pause[]).map(({ queue, ...pause }) => [queue, pause]));
      const byQueue = new Map<string, QueueRecord>();
      for (const { queue, priority } of live()) {
        const known = byQueue.get(queue);
        if (known === undefined) byQueue.set(queue, queueRecord(queue, paused.get(queue), [priority]));
        else known.priorities.unshift(priority);
      }
      for (const [queue, since] of paused) {
        if (!byQueue.has(queue)) byQueue.set(queue, queueRecord(queue, since, []));
      }
      return [...byQueue.values()];
    },
  };
}

interface Pause {
  queue: string;
  pausedAt: number | null;
  pausedBy: string | null;
}

function queueRecord(queue: string, pause: Omit<Pause, "queue"> | undefined, priorities: number[]): QueueRecord {
  return { queue, paused: pause !== undefined, pausedAt: null, pausedBy: null, ...pause, priorities };
}
