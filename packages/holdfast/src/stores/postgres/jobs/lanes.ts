import { LIMITS } from "../../../defaults.js";
import type { Db, Row, Runner, Statement } from "../connection/db.js";
import { isLockTimeout, isNoFunction, isNoRights } from "../connection/errors.js";
import { FRESH_MS } from "../schema/lane-functions.js";
import { NOW, rowsOf, type Sql } from "../connection/sql.js";
import { LANE_UNUSED_MS } from "./maintenance.js";

export interface Lane {
  queue: string;
  priority: number;
}

const MOST_KNOWN = 10_000;
// A lane that said so within this time is not forgotten before any transaction is over.
const SAFE_MS = LANE_UNUSED_MS / 2;
// One that somebody has locked will do if it said so within this time: that leaves hours until it could be forgotten.
const HELD_SAFE_MS = LANE_UNUSED_MS * 0.75;
// How long a lane is waited for that somebody has locked, and, once it is known that one of them is, each part of them.
const LOCK_MS = 50;
const PART_LOCK_MS = 10;
// Waits that one batch may go through until it is known which of its lanes are locked.
const MOST_WAITS = 20;
// How long a free connection is waited for.
const FREE_CONNECTION_MS = 200;
// For so long nobody waits again for what was waited for in vain.
const IN_VAIN_MS = 60_000;

export interface LaneKeeper {
  /** Answers which lanes cannot take jobs yet, since an open transaction is about to make them; null: all can. */
  ensure(jobs: readonly Lane[], now: number | null): Promise<((job: Lane) => boolean) | null>;
  /** The same while the caller's transaction is open, which may hold the last connection of the pool that both share. */
  ensureBeside(tx: Runner, jobs: readonly Lane[], now: number | null): Promise<void>;
}

/** Runs a statement, or answers null if there is no connection to run it on. */
type Run = (statement: Statement, values: readonly unknown[]) => Promise<Row[] | null>;

/**
 * Sees to it that jobs are written only into lanes that claims walk. On connections of our own: a lane that waited for
 * the caller's transaction would hold up everyone else's. Others may do that all the same, by SQL. They are waited for no
 * longer than a moment: they may be whoever waits for us.
 *
 * No lane is born paused: a queue is paused if any of its lanes is, and one that took it over from the others would, if its
 * transaction ended after the queue was resumed, pause it again.
 */
export function laneKeeper(sql: Sql, db: Db): LaneKeeper {
  const { s } = sql;
  const add = sql.statement(
    "ensure_lanes",
    `WITH ${NOW}, impatient AS MATERIALIZED (SELECT pg_catalog.set_config('lock_timeout', $5::text, true))
     ${adding(sql, ", impatient")}`,
  );
  const addInside = addingInside(sql);
  // For those who may not write the table.
  const addByFunction = sql.statement(
    "add_lanes",
    `SELECT ${s}.add_lanes($1::text[], $2::smallint[], $3::bigint, $4::integer)`,
  );
  const mayAdd = sql.statement("may_add_lanes", `SELECT pg_catalog.has_table_privilege('${s}.lanes', 'INSERT') AS may`);
  const there = sql.statement(
    "lanes_there",
    `WITH ${NOW} SELECT l.queue, l.priority FROM ${rowsOf("$2::text[], $3::smallint[]")} AS g (queue, priority), t, ${s}.lanes l
     WHERE l.queue = g.queue AND l.priority = g.priority AND l.used_at >= now - $4::bigint`,
  );
  const known = new Known();
  let byFunction = false;
  let starvedUntil = Number.NEGATIVE_INFINITY;
  /** Until when lanes that somebody has locked are left to the transactions that want them. */
  const lockedUntil = new Map<string, number>();

  /** Null: there was no connection. */
  async function adds(run: Run, lanes: readonly Lane[], now: number | null, lockMs: number): Promise<Row[] | null> {
    const values = [...columnsOf(lanes, now), FRESH_MS, lockMs];
    if (byFunction) return run(addByFunction, values.slice(1));
    try {
      return await run(add, values);
    } catch (error) {
      if (!isNoRights(error)) throw error;
      const added = await run(addByFunction, values.slice(1)).catch((second: unknown) => {
        throw isNoRights(second) || isNoFunction(second) ? error : second;
      });
      byFunction = true;
      return added;
    }
  }

  /** Makes lanes known. Answers those that somebody has locked, or null if there was no connection to look. */
  async function open(
    run: Run,
    lanes: readonly Lane[],
    now: number | null,
    waits = MOST_WAITS,
  ): Promise<Opened | null> {
    if (lanes.length === 0) return { locked: [], waits };
    const since = moment(now);
    try {
      const lockMs = waits === MOST_WAITS ? LOCK_MS : PART_LOCK_MS;
      if ((await adds(run, lanes, now, lockMs)) === null) return null;
      known.add(lanes, since, FRESH_MS);
      return { locked: [], waits };
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
    }
    // Whoever has locked a lane that is there keeps nobody else from using it.
    const rows = await run(there, [...columnsOf(lanes, now), HELD_SAFE_MS]);
    if (rows === null) return null;
    const seen = new Set(rows.map(([queue, priority]) => nameOf({ queue, priority } as Lane)));
    const isSeen = (lane: Lane): boolean => seen.has(nameOf(lane));
    known.add(lanes.filter(isSeen), since, IN_VAIN_MS);
    const unseen = lanes.filter((lane) => !isSeen(lane));
    if (lanes.length === 1 || waits <= 1) return { locked: unseen, waits: waits - 1 };
    // Halves are tried until the locked ones stand alone.
    const middle = Math.ceil(unseen.length / 2);
    const first = await open(run, unseen.slice(0, middle), now, waits - 1);
    const second = first && (await open(run, unseen.slice(middle), now, first.waits));
    return second && { locked: [...first.locked, ...second.locked], waits: second.waits };
  }

  /** Lanes that a transaction can use only if it makes them itself. */
  async function notOpenBeside(lanes: readonly Lane[], now: number | null): Promise<readonly Lane[]> {
    const at = performance.now();
    if (at < starvedUntil) return lanes;
    const isLeft = (lane: Lane): boolean => (lockedUntil.get(nameOf(lane)) ?? at) > at;
    const tried = lanes.filter((lane) => !isLeft(lane));
    const opened = await open((statement, values) => db.runIfFree(FREE_CONNECTION_MS, statement, values), tried, now);
    if (opened === null) {
      starvedUntil = performance.now() + IN_VAIN_MS;
      return lanes;
    }
    if (lockedUntil.size > MOST_KNOWN) lockedUntil.clear();
    for (const lane of opened.locked) lockedUntil.set(nameOf(lane), performance.now() + IN_VAIN_MS);
    return [...lanes.filter(isLeft), ...opened.locked];
  }

  return {
    async ensure(jobs, now) {
      const opened = await open((statement, values) => db.run(statement, values), known.missing(jobs, now), now);
      if (opened === null || opened.locked.length === 0) return null;
      const locked = new Set(opened.locked.map(nameOf));
      return (job) => locked.has(nameOf(job));
    },
    async ensureBeside(tx, jobs, now) {
      const missing = known.missing(jobs, now);
      if (missing.length === 0) return;
      const lanes = await notOpenBeside(missing, now);
      if (lanes.length === 0) return;
      // Not known afterwards: the caller may yet roll back. The transaction's login need not be ours, and must not fail in it.
      const [row] = await tx.run(mayAdd, []);
      const values = [...columnsOf(lanes, now), SAFE_MS];
      await (row?.[0] === true ? tx.run(addInside, values) : tx.run(addByFunction, [...values.slice(1), null]));
    },
  };
}

interface Opened {
  locked: readonly Lane[];
  /** Waits for locks that are left to its batch. */
  waits: number;
}

/** Lanes that need not be looked at for a while. */
class Known {
  readonly #lanes = new Map<string, { since: Moment; forMs: number }>();

  add(lanes: readonly Lane[], since: Moment, forMs: number): void {
    if (this.#lanes.size > MOST_KNOWN) this.#lanes.clear();
    for (const lane of lanes) this.#lanes.set(nameOf(lane), { since, forMs });
  }

  /** The lanes of these jobs that are not known. */
  missing(jobs: readonly Lane[], now: number | null): Lane[] {
    const { ticks, wall } = moment(now);
    const missing = new Map<string, Lane>();
    let last: Lane | null = null;
    for (const { queue, priority } of jobs) {
      if (last !== null && last.queue === queue && last.priority === priority) continue;
      last = { queue, priority };
      const name = nameOf({ queue, priority });
      const { since, forMs } = this.#lanes.get(name) ?? NEVER_KNOWN;
      const isKnown = ticks - since.ticks < forMs && Math.abs(wall - since.wall) < FRESH_MS;
      // A priority that no lane can have is refused with its job.
      if (!isKnown && Math.abs(priority) <= LIMITS.priority) missing.set(name, { queue, priority });
    }
    return [...missing.values()];
  }
}

interface Moment {
  /** By a clock that nobody sets, which may stand still while the machine sleeps. */
  ticks: number;
  wall: number;
}

function moment(now: number | null): Moment {
  return { ticks: performance.now(), wall: now ?? Date.now() };
}

const NEVER_KNOWN = { since: { ticks: 0, wall: 0 }, forMs: 0 };

/** The same inside a transaction of ours: what is undone with it must not be taken for known. */
export async function addLanes(sql: Sql, tx: Runner, lanes: readonly Lane[], now: number | null): Promise<void> {
  if (lanes.length > 0) await tx.run(addingInside(sql), [...columnsOf(lanes, now), SAFE_MS]);
}

function addingInside(sql: Sql): Statement {
  return sql.statement("ensure_lanes_inside", `WITH ${NOW} ${adding(sql)}`);
}

/** A lane that said that it is used within value 4, in milliseconds, is not touched: its row would stay locked. */
function adding({ s }: Sql, and = ""): string {
  return `INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
     SELECT g.queue, g.priority, false, now
     FROM ${rowsOf("$2::text[], $3::smallint[]")} AS g (queue, priority), t${and}
     WHERE NOT EXISTS (SELECT 1 FROM ${s}.lanes l WHERE l.queue = g.queue AND l.priority = g.priority AND l.used_at >= now - $4::bigint)
     ORDER BY 1, 2 ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at`;
}

function columnsOf(lanes: readonly Lane[], now: number | null): unknown[] {
  return [now, lanes.map(({ queue }) => queue), lanes.map(({ priority }) => priority)];
}

function nameOf({ queue, priority }: Lane): string {
  return `${priority} ${queue}`;
}
