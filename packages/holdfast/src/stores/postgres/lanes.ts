import { LIMITS } from "../../defaults.js";
import type { Db, Row, Runner, Statement } from "./db.js";
import { NOW, type Sql } from "./sql.js";

export interface Lane {
  queue: string;
  priority: number;
}

// A lane that is used says so at least this often, and is forgotten much later.
const FRESH_MS = 3_600_000;
const MOST_KNOWN = 10_000;
// A lane that said so within this time is not forgotten before any transaction is over.
const SAFE_MS = 43_200_000;
// How long a free connection is waited for, and for how long after that nobody waits again.
const FREE_CONNECTION_MS = 200;
const STARVED_MS = 60_000;

export interface LaneKeeper {
  ensure(jobs: readonly Lane[], now: number | null): Promise<void>;
  /** The same while the caller's transaction is open, which may hold the last connection of the pool that both share. */
  ensureBeside(tx: Runner, jobs: readonly Lane[], now: number | null): Promise<void>;
}

/**
 * Sees to it that jobs are written only into lanes that claims walk. On connections of our own: a lane that waited for
 * the caller's transaction would hold up everyone else's.
 *
 * No lane is born paused: a queue is paused if any of its lanes is, and one that took it over from the others would, if its
 * transaction ended after the queue was resumed, pause it again.
 */
export function laneKeeper(sql: Sql, db: Db): LaneKeeper {
  const { s } = sql;
  const add = adding(sql);
  // A lane that is there is not touched: its row would stay locked until the caller is done.
  const addInside = sql.statement(
    "ensure_lanes_inside",
    `WITH ${NOW} INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
     SELECT g.queue, g.priority, false, now
     FROM unnest($2::text[], $3::smallint[]) AS g (queue, priority), t
     WHERE NOT EXISTS (SELECT 1 FROM ${s}.lanes l WHERE l.queue = g.queue AND l.priority = g.priority AND l.used_at >= now - ${SAFE_MS})
     ORDER BY 1, 2 ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at`,
  );
  /** When each lane last said that it is used. */
  const known = new Map<string, number>();
  let starvedUntil = Number.NEGATIVE_INFINITY;

  /** Those not known to be fresh. */
  function unknown(jobs: readonly Lane[]): Lane[] {
    const at = performance.now();
    const missing = new Map<string, Lane>();
    let last: Lane | null = null;
    for (const { queue, priority } of jobs) {
      if (last !== null && last.queue === queue && last.priority === priority) continue;
      last = { queue, priority };
      const name = nameOf({ queue, priority });
      const fresh = (known.get(name) ?? Number.NEGATIVE_INFINITY) >= at - FRESH_MS;
      // A priority that no lane can have is refused with its job.
      if (!fresh && Math.abs(priority) <= LIMITS.priority) missing.set(name, { queue, priority });
    }
    return [...missing.values()];
  }

  async function learn(lanes: readonly Lane[], write: () => Promise<Row[] | null>): Promise<boolean> {
    const at = performance.now();
    if ((await write()) === null) return false;
    if (known.size > MOST_KNOWN) known.clear();
    for (const lane of lanes) known.set(nameOf(lane), at);
    return true;
  }

  return {
    async ensure(jobs, now) {
      const lanes = unknown(jobs);
      if (lanes.length > 0) await learn(lanes, () => db.run(add, columnsOf(lanes, now)));
    },
    async ensureBeside(tx, jobs, now) {
      const lanes = unknown(jobs);
      if (lanes.length === 0) return;
      const values = columnsOf(lanes, now);
      if (performance.now() >= starvedUntil) {
        if (await learn(lanes, () => db.runIfFree(FREE_CONNECTION_MS, add, values))) return;
        starvedUntil = performance.now() + STARVED_MS;
      }
      // Not known afterwards: the caller may yet roll back.
      await tx.run(addInside, values);
    },
  };
}

/** The same inside a transaction of ours: what is undone with it must not be taken for known. */
export async function addLanes(sql: Sql, tx: Runner, lanes: readonly Lane[], now: number | null): Promise<void> {
  if (lanes.length > 0) await tx.run(adding(sql), columnsOf(lanes, now));
}

function adding(sql: Sql): Statement {
  const { s } = sql;
  return sql.statement(
    "ensure_lanes",
    `WITH ${NOW} INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
     SELECT g.queue, g.priority, false, now
     FROM unnest($2::text[], $3::smallint[]) AS g (queue, priority), t ORDER BY 1, 2
     ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at`,
  );
}

function columnsOf(lanes: readonly Lane[], now: number | null): unknown[] {
  return [now, lanes.map(({ queue }) => queue), lanes.map(({ priority }) => priority)];
}

function nameOf({ queue, priority }: Lane): string {
  return `${priority} ${queue}`;
}
