import { LIMITS } from "../../defaults.js";
import type { Runner } from "./db.js";
import { NOW, type Sql } from "./sql.js";

export interface Lane {
  queue: string;
  priority: number;
}

// A lane that is used says so at least this often, and is forgotten much later.
const FRESH_MS = 3_600_000;
const MOST_KNOWN = 10_000;

/**
 * Sees to it that jobs are written only into lanes that claims walk. On connections of our own: a lane that waited for
 * the caller's transaction would hold up everyone else's.
 */
export function laneKeeper(
  sql: Sql,
  runner: Runner,
): { ensure(jobs: readonly Lane[], now: number | null): Promise<void> } {
  const { s } = sql;
  const add = sql.statement(
    "ensure_lanes",
    `WITH ${NOW} INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
     SELECT g.queue, g.priority, coalesce((SELECT bool_or(l.paused) FROM ${s}.lanes l WHERE l.queue = g.queue), false), now
     FROM unnest($2::text[], $3::smallint[]) AS g (queue, priority), t ORDER BY 1, 2
     ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at`,
  );
  /** When each lane last said that it is used. */
  const known = new Map<string, number>();
  return {
    async ensure(jobs, now) {
      const at = performance.now();
      const missing = new Map<string, Lane>();
      for (const { queue, priority } of jobs) {
        const name = `${priority} ${queue}`;
        const fresh = (known.get(name) ?? Number.NEGATIVE_INFINITY) >= at - FRESH_MS;
        // A priority that no lane can have is refused with its job.
        if (!fresh && Math.abs(priority) <= LIMITS.priority) missing.set(name, { queue, priority });
      }
      if (missing.size === 0) return;
      const lanes = [...missing.values()];
      await runner.run(add, [now, lanes.map(({ queue }) => queue), lanes.map(({ priority }) => priority)]);
      if (known.size > MOST_KNOWN) known.clear();
      for (const name of missing.keys()) known.set(name, at);
    },
  };
}
