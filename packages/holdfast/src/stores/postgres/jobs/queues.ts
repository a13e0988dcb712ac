import { ALL_QUEUES } from "../../../defaults.js";
import type { QueuePosition, QueueRecord } from "../../../store.js";
import type { Runner } from "../connection/db.js";
import { NOW, type Sql } from "../connection/sql.js";

export interface QueueOperations {
  pause(runner: Runner, queue: string, by: string | null, now: number | null): Promise<void>;
  resume(runner: Runner, queue: string): Promise<void>;
  queues(runner: Runner): Promise<QueueRecord[]>;
  countAhead(runner: Runner, before: QueuePosition, atMost: number, now: number | null): Promise<number>;
}

/**
 * pause, resume, queues, countAhead. A queue is paused if any of its lanes is: a lane that is being created now is not visible
 * here, and is not paused. `pauses` has since when and by whom; a row for a queue that is not paused means nothing, because
 * processes of an earlier version do not delete it.
 */
export function queueOperations(sql: Sql): QueueOperations {
  const { s } = sql;
  const pause = sql.statement(
    "pause",
    `WITH ${NOW}, noted AS (
       INSERT INTO ${s}.pauses (queue, paused_at, paused_by) SELECT $2, now, $3::text FROM t
       WHERE NOT EXISTS (SELECT 1 FROM ${s}.lanes WHERE queue = $2 AND paused)
       ON CONFLICT (queue) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by
     ), known AS (UPDATE ${s}.lanes SET paused = true WHERE queue = $2 RETURNING 1)
     INSERT INTO ${s}.lanes (queue, priority, paused, used_at) SELECT $2, 0, true, now FROM t WHERE NOT EXISTS (SELECT 1 FROM known)
     ON CONFLICT (queue, priority) DO UPDATE SET paused = true`,
  );
  const forget = `forgotten AS (DELETE FROM ${s}.pauses WHERE queue = $1)`;
  const resume = sql.statement(
    "resume",
    `WITH ${forget} UPDATE ${s}.lanes SET paused = false WHERE queue = $1 AND paused`,
  );
  // `*` is not a queue, so its row must not remain. To a role that may not resume queues, row-level security hides paused lanes from a
  // DELETE, which would do nothing. An UPDATE of that column is refused, even of no row.
  const resumeAll = sql.statement(
    "resume_all",
    `WITH ${forget}, permitted AS (UPDATE ${s}.lanes SET paused = false WHERE false) DELETE FROM ${s}.lanes WHERE queue = $1`,
  );
  const lanes = sql.statement(
    "lanes",
    `SELECT l.queue, l.priority, l.paused, p.paused_at::float8, p.paused_by
     FROM ${s}.lanes l LEFT JOIN ${s}.pauses p ON p.queue = l.queue AND l.paused ORDER BY l.queue COLLATE "C", l.priority DESC`,
  );
  const due = "j.queue = $3 AND j.due_at <= (SELECT now FROM t)";
  const ahead = sql.statement(
    "count_ahead",
    `WITH ${NOW} SELECT pg_catalog.count(*)::float8 FROM (
       (SELECT 1 FROM ${s}.lanes l CROSS JOIN LATERAL (
          SELECT 1 FROM ${s}.live j WHERE ${due} AND j.priority = l.priority ORDER BY j.due_at, j.seq LIMIT $6::bigint
        ) d WHERE l.queue = $3 AND l.priority > $4::smallint LIMIT $6::bigint)
       UNION ALL (SELECT 1 FROM ${s}.live j WHERE ${due} AND j.priority = $4::smallint
         AND (j.due_at, j.seq) < ($5::bigint, coalesce((SELECT m.seq FROM ${s}.live m WHERE m.id = $2::uuid), 0))
         ORDER BY j.due_at, j.seq LIMIT $6::bigint)
       LIMIT $6::bigint) n`,
  );

  return {
    pause: async (runner, queue, by, now) =>
      void (await runner.run(pause, [now, queue, by?.replaceAll("\0", "") ?? null])),
    resume: async (runner, queue) => void (await runner.run(queue === ALL_QUEUES ? resumeAll : resume, [queue])),
    async queues(runner) {
      const byQueue = new Map<string, QueueRecord>();
      for (const row of await runner.run(lanes, [])) {
        const [queue, priority, paused, pausedAt, pausedBy] = row as LaneRow;
        const known = byQueue.get(queue);
        if (known === undefined) {
          byQueue.set(queue, { queue, paused, pausedAt, pausedBy, priorities: queue === ALL_QUEUES ? [] : [priority] });
          continue;
        }
        known.priorities.push(priority);
        if (paused) Object.assign(known, { paused, pausedAt, pausedBy });
      }
      return [...byQueue.values()];
    },
    async countAhead(runner, { id, queue, priority, dueAt }, atMost, now) {
      const [row] = await runner.run(ahead, [now, id, queue, priority, dueAt, atMost]);
      return row?.[0] as number;
    },
  };
}

type LaneRow = [queue: string, priority: number, paused: boolean, pausedAt: number | null, pausedBy: string | null];
