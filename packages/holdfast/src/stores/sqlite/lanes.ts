import type { Database } from "better-sqlite3";
import type { QueueRecord } from "../../store.js";

export interface Lane {
  queue: string;
  priority: number;
}

/**
 * The lanes in use: one per queue and priority. A claim walks them, so that a hundred thousand future jobs of a higher
 * priority cost one look into the index instead of a walk over them.
 */
export interface Lanes {
  ensure(jobs: readonly Lane[]): void;
  /** Lanes that are not paused, highest priority first. */
  open(queues: readonly string[] | null): Lane[];
  pause(queue: string, paused: boolean): void;
  list(): QueueRecord[];
  /** Forgets lanes that hold no live job, so that short-lived queues leave nothing behind. */
  prune(): void;
}

export function laneStatements(db: Database): Lanes {
  const add = db.prepare(
    `INSERT OR IGNORE INTO holdfast_lanes (queue, priority, paused)
     VALUES (?, ?, (SELECT coalesce(max(paused), 0) FROM holdfast_lanes WHERE queue = ?))`,
  );
  const open = db.prepare("SELECT queue, priority FROM holdfast_lanes WHERE paused = 0 ORDER BY priority DESC, queue");
  const setPaused = db.prepare("UPDATE holdfast_lanes SET paused = ? WHERE queue = ?");
  const list = db.prepare("SELECT queue, priority, paused FROM holdfast_lanes ORDER BY queue, priority DESC");
  const prune = db.prepare(
    `DELETE FROM holdfast_lanes WHERE paused = 0 AND NOT EXISTS (
       SELECT 1 FROM holdfast_jobs j
       WHERE j.queue = holdfast_lanes.queue AND j.priority = holdfast_lanes.priority AND j.due_at IS NOT NULL)`,
  );
  return {
    ensure(jobs) {
      let last: Lane | undefined;
      for (const job of jobs) {
        if (last !== undefined && last.queue === job.queue && last.priority === job.priority) continue;
        add.run(job.queue, job.priority, job.queue);
        last = job;
      }
    },
    open(queues) {
      const lanes = open.all() as Lane[];
      return queues === null ? lanes : lanes.filter((lane) => queues.includes(lane.queue));
    },
    pause(queue, paused) {
      add.run(queue, 0, queue);
      setPaused.run(paused ? 1 : 0, queue);
    },
    list() {
      const byQueue = new Map<string, QueueRecord>();
      for (const row of list.all() as (Lane & { paused: number })[]) {
        const known = byQueue.get(row.queue);
        if (known === undefined)
          byQueue.set(row.queue, { queue: row.queue, paused: row.paused === 1, priorities: [row.priority] });
        else known.priorities.push(row.priority);
      }
      return [...byQueue.values()];
    },
    prune: () => void prune.run(),
  };
}
