import { ALL_QUEUES } from "../../../defaults.js";
import type { Runner } from "../connection/db.js";
import { nameOf, type Lane } from "./lanes.js";
import { rowsOf, type Sql } from "../connection/sql.js";

// Up to this many lanes, scanning all of them costs less than tracking which of them hold jobs.
const FEW_LANES = 64;
// All lanes are read at most this often, and reading them takes at most one fiftieth of the time.
const READ_EVERY_MS = 5_000;
const READ_SHARE = 50;
// Marks of new jobs are stored for longer than this; see ROLLUP_AFTER_MS.
const VALID_MS = 45_000;

/**
 * The lanes that held live jobs in one snapshot of the database. Jobs that were enqueued since are found by the rows
 * that their transactions wrote to `deltas`, the marks: those that the snapshot does not see.
 */
export interface LaneSnapshot {
  /** `pg_current_snapshot()`. */
  at: string;
  queues: readonly string[];
  priorities: readonly number[];
  /** Queues that were paused and held jobs. `queues` does not contain them. */
  paused: readonly string[];
}

/** The values of {@link scannedLanes}. */
export function valuesOf({ queues, priorities, at, paused }: LaneSnapshot): unknown[] {
  return [queues, priorities, at, paused];
}

/** What a claim found out about the lanes that it scanned. */
export interface LaneChanges {
  at: string;
  /** Lanes in which jobs were enqueued since the snapshot. */
  marked: readonly Lane[];
  /** Lanes that hold no jobs. */
  emptied: readonly Lane[];
}

/**
 * Tracks which lanes hold live jobs, so that claims need not scan ten thousand that hold none. It depends neither on a
 * clock nor on notifications: a claim scans the lanes of the last snapshot, those with marks since, and those of queues
 * that were resumed. No other open lane can hold a job. All lanes are read again from time to time, because marks are
 * deleted after a while.
 */
export class LiveLanes {
  readonly #read;
  #snapshot: LaneSnapshot | null = null;
  /** The earliest time at which the snapshot was taken. */
  #takenAt = Number.NEGATIVE_INFINITY;
  #nextReadAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(sql: Sql) {
    const { s } = sql;
    this.#read = sql.statement(
      "read_lanes",
      `WITH lane_count AS MATERIALIZED (SELECT pg_catalog.count(*) AS n FROM (SELECT 1 FROM ${s}.lanes LIMIT ${FEW_LANES + 1}) l)
       SELECT pg_catalog.pg_current_snapshot()::text, CASE WHEN n > ${FEW_LANES} THEN (
         SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(l.queue, l.priority,
           l.queue = ANY (SELECT p.queue FROM ${s}.lanes p WHERE p.paused))), '[]'::json)::text FROM ${s}.lanes l
         WHERE (SELECT 1 FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority ORDER BY j.due_at, j.seq LIMIT 1) IS NOT NULL) END
       FROM lane_count`,
    );
  }

  /** Null: there are few lanes, and a claim scans all of them. */
  async current(runner: Runner): Promise<LaneSnapshot | null> {
    const now = performance.now();
    if (now >= this.#nextReadAt || now - this.#takenAt > VALID_MS) {
      this.#reading ??= this.#readAll(runner).finally(() => (this.#reading = null));
      await this.#reading;
    }
    return this.#snapshot;
  }

  /**
   * Applies what a claim found, which was sent at `sentAt` with the snapshot `before`; ignored if another claim was
   * faster.
   */
  applyChanges(before: LaneSnapshot, { at, marked, emptied }: LaneChanges, sentAt: number): void {
    if (this.#snapshot !== before) return;
    this.#takenAt = sentAt;
    if (marked.length === 0 && emptied.length === 0) {
      this.#snapshot = { ...before, at };
      return;
    }
    const lanes = new Map<string, Lane>();
    for (const [index, queue] of before.queues.entries()) {
      const lane = { queue, priority: before.priorities[index] as number };
      lanes.set(nameOf(lane), lane);
    }
    for (const lane of marked) lanes.set(nameOf(lane), lane);
    for (const lane of emptied) lanes.delete(nameOf(lane));
    this.#snapshot = snapshotOf(at, [...lanes.values()], before.paused);
  }

  async #readAll(runner: Runner): Promise<void> {
    const startedAt = performance.now();
    const [row] = await runner.run(this.#read, []);
    const [at, lanes] = (row ?? ["", null]) as readonly [string, string | null];
    this.#snapshot = lanes === null ? null : readSnapshot(at, lanes);
    this.#takenAt = startedAt;
    const now = performance.now();
    this.#nextReadAt = now + Math.max(READ_EVERY_MS, READ_SHARE * (now - startedAt));
  }
}

/**
 * The lanes that a claim scans, as parts of its statement: those of the snapshot, those marked since, and those of
 * queues that were paused then; of all these, those that are not paused now. Each is looked up by itself, so paused
 * queues without jobs cost nothing.
 */
export function scannedLanes(
  { s }: Sql,
  values: { queues: string; priorities: string; at: string; paused: string },
): string {
  const isUnpaused = (queue: string): string =>
    `(SELECT 1 FROM ${s}.lanes p WHERE p.queue = ANY (ARRAY[${queue}, '${ALL_QUEUES}']) AND p.paused LIMIT 1) IS NULL`;
  const at = `${values.at}::pg_catalog.pg_snapshot`;
  const mark = `FROM ${s}.deltas d WHERE d.state = 'pending' AND d.n > 0 AND d.tx`;
  return `marked AS MATERIALIZED (
      SELECT l.queue, l.priority FROM ${s}.lanes l WHERE l.queue = ANY (ARRAY(
        SELECT d.queue ${mark} >= pg_catalog.pg_snapshot_xmax(${at})
        UNION SELECT d.queue ${mark} = ANY (ARRAY(SELECT pg_catalog.pg_snapshot_xip(${at})))))
    ),
    scanned_lanes AS MATERIALIZED (
      SELECT w.queue, w.priority FROM (
        SELECT k.queue, k.priority FROM ${rowsOf(`${values.queues}::text[], ${values.priorities}::smallint[]`)} AS k (queue, priority)
        UNION SELECT queue, priority FROM marked
        UNION SELECT l.queue, l.priority FROM ${s}.lanes l WHERE l.queue = ANY (ARRAY(
          SELECT q.queue FROM pg_catalog.unnest(${values.paused}::text[]) AS q (queue) WHERE ${isUnpaused("q.queue")}))
      ) w WHERE (SELECT p.queue FROM ${s}.lanes p WHERE p.paused ORDER BY p.queue LIMIT 1) IS NULL OR ${isUnpaused("w.queue")}
    )`;
}

/**
 * Whether neither a queue, an SQL expression, nor all queues are paused. If all are, the list of paused queues has a NULL, so
 * that the condition is NULL for each queue that is not in it. A condition of its own would make each claim slower.
 */
export function isUnpausedQueue(s: string, queue: string): string {
  return `NOT (${queue} = ANY (SELECT CASE WHEN p.queue <> '${ALL_QUEUES}' THEN p.queue END FROM ${s}.lanes p WHERE p.paused))`;
}

/** {@link LaneChanges} as JSON, for {@link readChanges}; `emptied` is a query of lanes. */
export function laneChanges(emptied: string): string {
  const list = (query: string): string =>
    `(SELECT coalesce(pg_catalog.json_agg(pg_catalog.json_build_array(queue, priority)), '[]'::json) FROM (${query}) l)`;
  return `pg_catalog.json_build_array(pg_catalog.pg_current_snapshot()::text, ${list("SELECT queue, priority FROM marked")}, ${list(emptied)})::text`;
}

export function readChanges(text: string): LaneChanges {
  const [at, marked, emptied] = JSON.parse(text) as [string, Pair[], Pair[]];
  return { at, marked: marked.map(laneOf), emptied: emptied.map(laneOf) };
}

type Pair = readonly [queue: string, priority: number];

function laneOf([queue, priority]: Pair): Lane {
  return { queue, priority };
}

function readSnapshot(at: string, text: string): LaneSnapshot {
  const lanes = JSON.parse(text) as [...Pair, isPaused: boolean][];
  const paused = lanes.filter(([, , isPaused]) => isPaused).map(([queue]) => queue);
  const open = lanes.filter(([, , isPaused]) => !isPaused);
  return snapshotOf(
    at,
    open.map(([queue, priority]) => ({ queue, priority })),
    [...new Set(paused)],
  );
}

function snapshotOf(at: string, lanes: readonly Lane[], paused: readonly string[]): LaneSnapshot {
  return { at, queues: lanes.map(({ queue }) => queue), priorities: lanes.map(({ priority }) => priority), paused };
}
