import { LIMITS } from "../../../defaults.js";
import type { Db, Row, Runner, Statement } from "../connection/db.js";
import { isLockTimeout, isMissingFunction, isPermissionDenied } from "../connection/errors.js";
import { FRESH_MS } from "../schema/lane-functions.js";
import { NOW, rowsOf, type Sql } from "../connection/sql.js";
import { LANE_UNUSED_MS } from "./maintenance.js";

export interface Lane {
  queue: string;
  priority: number;
}

const MAX_KNOWN = 10_000;
// A lane that was used within this time is not deleted before any open transaction ends.
const SAFE_MS = LANE_UNUSED_MS / 2;
// A locked lane is accepted if it was used within this time: it is deleted hours later at the earliest.
const HELD_SAFE_MS = LANE_UNUSED_MS * 0.75;
// How long to wait for locked lanes: the whole batch, and then each part of it.
const LOCK_MS = 50;
const PART_LOCK_MS = 10;
// How often one batch may wait until it is known which of its lanes are locked.
const MAX_WAITS = 20;
// How long to wait for a free connection.
const FREE_CONNECTION_MS = 200;
// How long not to wait again after a wait that failed.
const FAILED_PAUSE_MS = 60_000;

export interface LaneKeeper {
  /**
   * Resolves to a test for lanes that cannot take jobs yet, because an open transaction is creating them; null: all can.
   */
  ensure(jobs: readonly Lane[], now: number | null): Promise<((job: Lane) => boolean) | null>;
  /** The same for the caller's transaction, which may hold the last connection of a shared pool. */
  ensureForTransaction(tx: Runner, jobs: readonly Lane[], now: number | null): Promise<void>;
}

/** Runs a statement. Resolves to null if no connection is free. */
type Run = (statement: Statement, values: readonly unknown[]) => Promise<Row[] | null>;

/**
 * Creates the lanes of new jobs: claims only find jobs in lanes that exist. This happens on the store's own
 * connections, because a lane in the caller's transaction would block all other enqueues to it until the commit. Other
 * programs may still cause that through SQL. The store waits for them only briefly, because they may be waiting for
 * this process.
 *
 * Lanes are created unpaused. A queue is paused if any of its lanes is, and a new lane that copied the flag could pause
 * a queue again that was resumed before its transaction committed.
 */
export function laneKeeper(sql: Sql, db: Db): LaneKeeper {
  const { s } = sql;
  const add = sql.statement(
    "ensure_lanes",
    `WITH ${NOW}, lock_wait AS MATERIALIZED (SELECT pg_catalog.set_config('lock_timeout', $5::text, true))
     ${adding(sql, ", lock_wait")}`,
  );
  const addInside = addingInside(sql);
  // For roles without privileges on the table.
  const addByFunction = sql.statement(
    "add_lanes",
    `SELECT ${s}.add_lanes($1::text[], $2::smallint[], $3::bigint, $4::integer)`,
  );
  const mayAdd = sql.statement("may_add_lanes", `SELECT pg_catalog.has_table_privilege('${s}.lanes', 'INSERT') AS may`);
  const existing = sql.statement(
    "existing_lanes",
    `WITH ${NOW} SELECT l.queue, l.priority FROM ${rowsOf("$2::text[], $3::smallint[]")} AS g (queue, priority), t, ${s}.lanes l
     WHERE l.queue = g.queue AND l.priority = g.priority AND l.used_at >= now - $4::bigint`,
  );
  const known = new Known();
  let byFunction = false;
  let starvedUntil = Number.NEGATIVE_INFINITY;
  /** Until when a locked lane is left to the caller's transactions that need it. */
  const lockedUntil = new Map<string, number>();

  /** Null: no connection was free. */
  async function addLanesOn(
    run: Run,
    lanes: readonly Lane[],
    now: number | null,
    lockMs: number,
  ): Promise<Row[] | null> {
    const values = [...columnsOf(lanes, now), FRESH_MS, lockMs];
    if (byFunction) return run(addByFunction, values.slice(1));
    try {
      return await run(add, values);
    } catch (error) {
      if (!isPermissionDenied(error)) throw error;
      const added = await run(addByFunction, values.slice(1)).catch((second: unknown) => {
        throw isPermissionDenied(second) || isMissingFunction(second) ? error : second;
      });
      byFunction = true;
      return added;
    }
  }

  /** Creates lanes. Resolves to those that are locked, or null if no connection was free. */
  async function ensureLanes(
    run: Run,
    lanes: readonly Lane[],
    now: number | null,
    waits = MAX_WAITS,
  ): Promise<EnsuredLanes | null> {
    if (lanes.length === 0) return { locked: [], waits };
    const since = moment(now);
    try {
      const lockMs = waits === MAX_WAITS ? LOCK_MS : PART_LOCK_MS;
      if ((await addLanesOn(run, lanes, now, lockMs)) === null) return null;
      known.add(lanes, since, FRESH_MS);
      return { locked: [], waits };
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
    }
    // A lane that exists can be used, even if its row is locked.
    const rows = await run(existing, [...columnsOf(lanes, now), HELD_SAFE_MS]);
    if (rows === null) return null;
    const seen = new Set(rows.map(([queue, priority]) => nameOf({ queue, priority } as Lane)));
    const isSeen = (lane: Lane): boolean => seen.has(nameOf(lane));
    known.add(lanes.filter(isSeen), since, FAILED_PAUSE_MS);
    const unseen = lanes.filter((lane) => !isSeen(lane));
    if (lanes.length === 1 || waits <= 1) return { locked: unseen, waits: waits - 1 };
    // Try the halves, until the locked lanes are alone.
    const middle = Math.ceil(unseen.length / 2);
    const first = await ensureLanes(run, unseen.slice(0, middle), now, waits - 1);
    const second = first && (await ensureLanes(run, unseen.slice(middle), now, first.waits));
    return second && { locked: [...first.locked, ...second.locked], waits: second.waits };
  }

  /** Lanes that the caller's transaction has to create itself. */
  async function missingForTransaction(lanes: readonly Lane[], now: number | null): Promise<readonly Lane[]> {
    const at = performance.now();
    if (at < starvedUntil) return lanes;
    const isLeft = (lane: Lane): boolean => (lockedUntil.get(nameOf(lane)) ?? at) > at;
    const tried = lanes.filter((lane) => !isLeft(lane));
    const ensured = await ensureLanes(
      (statement, values) => db.runIfFree(FREE_CONNECTION_MS, statement, values),
      tried,
      now,
    );
    if (ensured === null) {
      starvedUntil = performance.now() + FAILED_PAUSE_MS;
      return lanes;
    }
    if (lockedUntil.size > MAX_KNOWN) lockedUntil.clear();
    for (const lane of ensured.locked) lockedUntil.set(nameOf(lane), performance.now() + FAILED_PAUSE_MS);
    return [...lanes.filter(isLeft), ...ensured.locked];
  }

  return {
    async ensure(jobs, now) {
      const ensured = await ensureLanes(
        (statement, values) => db.run(statement, values),
        known.missing(jobs, now),
        now,
      );
      if (ensured === null || ensured.locked.length === 0) return null;
      const locked = new Set(ensured.locked.map(nameOf));
      return (job) => locked.has(nameOf(job));
    },
    async ensureForTransaction(tx, jobs, now) {
      const missing = known.missing(jobs, now);
      if (missing.length === 0) return;
      const lanes = await missingForTransaction(missing, now);
      if (lanes.length === 0) return;
      // Not remembered: the caller may roll back. The transaction may have another role than the store, and a
      // permission error would abort it.
      const [row] = await tx.run(mayAdd, []);
      const values = [...columnsOf(lanes, now), SAFE_MS];
      await (row?.[0] === true ? tx.run(addInside, values) : tx.run(addByFunction, [...values.slice(1), null]));
    },
  };
}

interface EnsuredLanes {
  locked: readonly Lane[];
  /** How often its batch may still wait for locks. */
  waits: number;
}

/** Lanes that need not be checked for a while. */
class Known {
  readonly #lanes = new Map<string, { since: Moment; forMs: number }>();

  add(lanes: readonly Lane[], since: Moment, forMs: number): void {
    if (this.#lanes.size > MAX_KNOWN) this.#lanes.clear();
    for (const lane of lanes) this.#lanes.set(nameOf(lane), { since, forMs });
  }

  /** The lanes of these jobs that must be checked. */
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
      // An invalid priority is rejected with its job.
      if (!isKnown && Math.abs(priority) <= LIMITS.priority) missing.set(name, { queue, priority });
    }
    return [...missing.values()];
  }
}

interface Moment {
  /** The monotonic clock, which may stop while the machine sleeps. */
  ticks: number;
  wall: number;
}

function moment(now: number | null): Moment {
  return { ticks: performance.now(), wall: now ?? Date.now() };
}

const NEVER_KNOWN = { since: { ticks: 0, wall: 0 }, forMs: 0 };

/** Creates lanes inside the store's own transaction, without remembering them: it may be rolled back. */
export async function addLanes(sql: Sql, tx: Runner, lanes: readonly Lane[], now: number | null): Promise<void> {
  if (lanes.length > 0) await tx.run(addingInside(sql), [...columnsOf(lanes, now), SAFE_MS]);
}

function addingInside(sql: Sql): Statement {
  return sql.statement("ensure_lanes_inside", `WITH ${NOW} ${adding(sql)}`);
}

/** A lane that was used within the last `$4` milliseconds is not updated: its row would stay locked. */
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

/** A string that identifies a lane, for maps and sets. */
export function nameOf({ queue, priority }: Lane): string {
  return `${priority} ${queue}`;
}
