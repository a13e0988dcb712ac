import { LIMITS } from "../../../defaults.js";
import type { State } from "../../../job/state.js";
import type { TransitionPage, TransitionRecord } from "../../../store.js";
import type { Runner, Transaction } from "../connection/db.js";
import { NOW, type Sql } from "../connection/sql.js";
import { FOLLOWED_UNTIL } from "./recording.js";
import {
  cursorText,
  fittingSnapshot,
  readSnapshot,
  snapshotText,
  xminOf,
  type Snapshot,
  type TransitionCursor,
} from "./transition-cursors.js";

export interface TransitionOperations {
  record(runner: Runner, forMs: number, now: number | null): Promise<string>;
  page(runner: Runner, cursor: TransitionCursor, limit: number, now: number | null): Promise<TransitionPage | null>;
  /** Several statements. */
  purge(tx: Transaction, request: { before: number; limit: number }, now: number | null): Promise<number>;
}

// How long to wait for statements that began before transitions were recorded.
const SETTLE_MS = 5_000;
const POLL_MS = [2, 5, 10, 20, 50] as const;
// Snapshots are stored this often and this many, so that a purge finds one that is hardly newer than what it deletes.
const SNAPSHOT_EVERY_MS = 30_000;
const MAX_SNAPSHOTS = 40;

/**
 * recordTransitions, transitions, purgeTransitions.
 *
 * - To record begins with a value of the sequence `followed_until` (recording.ts). Statements that read it earlier hold a lock on
 *   the table of live jobs until their transaction ends. So `record` notes who holds one, and waits until those have ended.
 * - A page has what the snapshot of its cursor does not contain and a later snapshot does.
 * - A purge may delete what a cursor has not returned yet. Every deleted transition is in the snapshot `deleted`, so a cursor has
 *   expired if its own snapshot is an earlier one.
 */
export function transitionOperations(sql: Sql): TransitionOperations {
  const { s } = sql;
  const sequence = `'${s}.${FOLLOWED_UNTIL}'`;
  const current = "pg_catalog.pg_current_snapshot()::text";
  const follow = sql.statement(
    "follow",
    `WITH ${NOW}, changed AS (
       UPDATE ${s}.following f SET epoch = CASE WHEN f.until > t.now THEN f.epoch ELSE f.epoch + 1 END, settled = f.settled AND f.until > t.now,
         until = CASE WHEN f.until > t.now THEN greatest(f.until, t.now + $2::bigint) ELSE t.now + $2::bigint END
       FROM t RETURNING f.epoch, f.until, f.settled
     )
     SELECT epoch::float8, settled, ${current}, pg_catalog.setval(${sequence}, until)::float8 FROM changed`,
  );
  const locks = `FROM pg_catalog.pg_locks l WHERE l.locktype = 'relation' AND l.granted AND l.mode = 'RowExclusiveLock'
    AND l.relation = pg_catalog.to_regclass('${s}.live')::oid
    AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())`;
  const writers = sql.statement("writers", `SELECT DISTINCT l.virtualtransaction ${locks}`);
  const writersLeft = sql.statement(
    "writers_left",
    `SELECT DISTINCT l.virtualtransaction ${locks} AND l.virtualtransaction = ANY ($1::text[])`,
  );
  const settle = sql.statement(
    "settle_following",
    `UPDATE ${s}.following SET settled = true WHERE epoch = $1::bigint AND NOT settled`,
  );
  const snapshot = sql.statement("current_snapshot", `SELECT ${current}`);

  /** `rows`: the condition on `r` that finds them by an index, from the last one returned. */
  const pageText = (upTo: string, rows: string): string =>
    `WITH ${NOW}, f AS MATERIALIZED (
       SELECT f.epoch = $2::bigint AND f.until > t.now AND NOT coalesce(${isEarlier("$3::pg_snapshot", "f.deleted::pg_snapshot")}, false) AS is_valid
       FROM ${s}.following f, t
     ), rows AS MATERIALIZED (
       SELECT r.n, r.at, r.queue, r.type, r.state, r.jobs, r.size FROM ${s}.transitions r
       WHERE ${rows} AND (SELECT is_valid FROM f)
         AND NOT pg_catalog.pg_visible_in_snapshot(r.xid, $3::pg_snapshot) AND pg_catalog.pg_visible_in_snapshot(r.xid, ${upTo})
       -- One more: all jobs of the first one may have been returned.
       ORDER BY r.n LIMIT $5::bigint + 1
     ), found AS (
       SELECT p.* FROM (SELECT r.*, pg_catalog.sum(r.size) OVER (ORDER BY r.n) AS passed FROM rows r) p
       WHERE p.passed - p.size < $5::bigint + $7::bigint
     )
     -- A few rows and long strings: a row for each job would take the reader twice the time.
     SELECT (SELECT is_valid FROM f), ${current}, coalesce(
       pg_catalog.json_agg(pg_catalog.json_build_array(n, at, queue, type, state, pg_catalog.array_to_string(jobs, ',')) ORDER BY n), '[]')::text
     FROM found`;
  // With both bounds, the planner expects few rows and uses the index of transactions.
  const firstUpTo = "coalesce($4::pg_snapshot, pg_catalog.pg_current_snapshot())";
  const firstPage = sql.statement(
    "transitions",
    pageText(
      firstUpTo,
      `r.xid >= $8::xid8 AND r.xid < (SELECT pg_catalog.pg_snapshot_xmax(${firstUpTo})) AND r.n >= $6::bigint`,
    ),
  );
  // The other pages between two snapshots: by the index of n, because each would otherwise read all rows between them again.
  const nextPage = sql.statement("more_transitions", pageText("$4::pg_snapshot", "r.n >= $6::bigint"));

  const lock = sql.statement("lock_following", `SELECT 1 FROM ${s}.following FOR UPDATE`);
  const isDeleted = `o.at < $2::bigint OR o.passed <= (SELECT pg_catalog.sum(a.size) FROM ${s}.transitions a) - ${LIMITS.transitions}`;
  const purge = sql.statement(
    "purge_transitions",
    `WITH ${NOW}, oldest AS MATERIALIZED (
       SELECT h.address, h.at, h.size, pg_catalog.sum(h.size) OVER (ORDER BY h.n) AS passed
       FROM (SELECT ctid AS address, n, at, size FROM ${s}.transitions ORDER BY n LIMIT $3::bigint) h
     ), gone AS (
       DELETE FROM ${s}.transitions WHERE ctid = ANY (ARRAY(
         SELECT o.address FROM oldest o WHERE (${isDeleted}) AND o.passed - o.size < $3::bigint)) RETURNING xid, size
     ), horizon AS MATERIALIZED (
       -- The oldest snapshot that contains all of them.
       SELECT coalesce((SELECT p.snapshot FROM ${s}.following f CROSS JOIN LATERAL pg_catalog.unnest(f.snapshots) WITH ORDINALITY AS p (snapshot, place)
         WHERE NOT EXISTS (SELECT 1 FROM gone g WHERE NOT pg_catalog.pg_visible_in_snapshot(g.xid, p.snapshot::pg_snapshot))
         ORDER BY p.place LIMIT 1), ${current}) AS snapshot
       WHERE EXISTS (SELECT 1 FROM gone)
     ), changed AS (
       UPDATE ${s}.following f SET
         deleted = CASE WHEN h.snapshot IS NOT NULL AND (f.deleted IS NULL OR ${isEarlier("f.deleted::pg_snapshot", "h.snapshot::pg_snapshot")})
           THEN h.snapshot ELSE f.deleted END,
         snapshots = CASE WHEN n.is_due THEN ARRAY(
           SELECT p.snapshot FROM pg_catalog.unnest(f.snapshots) WITH ORDINALITY AS p (snapshot, place)
           WHERE p.place > pg_catalog.cardinality(f.snapshots) + 1 - ${MAX_SNAPSHOTS} ORDER BY p.place) || ${current} ELSE f.snapshots END,
         snapshot_at = CASE WHEN n.is_due THEN n.now ELSE f.snapshot_at END
       FROM (SELECT t.now, pg_catalog.abs(t.now - o.snapshot_at) >= ${SNAPSHOT_EVERY_MS} AS is_due FROM t, ${s}.following o) n LEFT JOIN horizon h ON true
       RETURNING f.until
     )
     SELECT least($3::bigint, (SELECT coalesce(pg_catalog.sum(size), 0) FROM gone))::float8,
       -- So that statements need not record any more. The lock prevents that another process begins to follow meanwhile.
       (SELECT CASE WHEN c.until <= t.now THEN pg_catalog.setval(${sequence}, 0) END FROM changed c, t)::float8`,
  );

  async function untilSettled(runner: Runner): Promise<void> {
    const deadline = performance.now() + SETTLE_MS;
    let left = await runner.run(writers, []);
    for (let round = 0; left.length > 0 && performance.now() < deadline; round++) {
      await pause(POLL_MS[Math.min(round, POLL_MS.length - 1)] ?? 0);
      left = await runner.run(writersLeft, [left.map(([id]) => id)]);
    }
  }

  return {
    async record(runner, forMs, now) {
      const [row] = await runner.run(follow, [now, Math.ceil(forMs)]);
      const [epoch, isSettled, before] = row as [number, boolean, string];
      let at = before;
      if (!isSettled) {
        await untilSettled(runner);
        await runner.run(settle, [epoch]);
        const [after] = await runner.run(snapshot, []);
        at = after?.[0] as string;
      }
      return cursorText({ epoch, returned: fittingSnapshot(readSnapshot(at)), within: null });
    },
    async page(runner, cursor, limit, now) {
      const { epoch, returned, within } = cursor;
      const read = async (last: Snapshot | null): Promise<Read> => {
        const values = [
          now,
          epoch,
          snapshotText(returned),
          last === null ? null : snapshotText(last),
          limit + 1,
          within?.row ?? 0,
          within?.place ?? 0,
        ];
        const [row] =
          within === null
            ? await runner.run(firstPage, [...values, String(xminOf(returned))])
            : await runner.run(nextPage, values);
        const [isValid, taken, found] = row as [boolean, string, string];
        return { isValid, upTo: last ?? readSnapshot(taken), rows: JSON.parse(found) as FoundRow[] };
      };
      let { isValid, upTo: last, rows } = await read(within?.upTo ?? null);
      const fitting = fittingSnapshot(last);
      if (isValid && fitting !== last) ({ isValid, upTo: last, rows } = await read(fitting));
      if (!isValid) return null;
      const { transitions, end } = firstOf(rows, within, limit);
      const next: TransitionCursor =
        end === null ? { epoch, returned: last, within: null } : { epoch, returned, within: { upTo: last, ...end } };
      return { transitions, cursor: cursorText(next) };
    },
    async purge(tx, { before, limit }, now) {
      await tx.run(lock, []);
      const [row] = await tx.run(purge, [now, before, limit]);
      return row?.[0] as number;
    },
  };
}

interface Read {
  isValid: boolean;
  upTo: Snapshot;
  rows: FoundRow[];
}
/** Jobs that reached the same state in one statement, with their ids separated by commas. */
type FoundRow = [row: number, at: number, queue: string, type: string, state: State, ids: string];
/** A transition: the number of its row, and its place in it, from 1. */
interface Place {
  row: number;
  place: number;
}

/** The first transitions after a place, and the last of them if there are more. */
function firstOf(
  rows: readonly FoundRow[],
  after: Place | null,
  limit: number,
): { transitions: TransitionRecord[]; end: Place | null } {
  const transitions: TransitionRecord[] = [];
  let end: Place | null = null;
  for (const [row, at, queue, type, to, ids] of rows) {
    const all = ids.split(",");
    const first = row === after?.row ? after.place : 0;
    for (let index = first; index < all.length; index++) {
      if (transitions.length === limit) return { transitions, end };
      transitions.push({ id: all[index] ?? "", type, queue, to, at });
      end = { row, place: index + 1 };
    }
  }
  return { transitions, end: null };
}

/** Whether a snapshot is earlier than another, an SQL expression: the other contains a transaction that it does not contain. */
function isEarlier(one: string, other: string): string {
  const max = (of: string): string => `pg_catalog.pg_snapshot_xmax(${of})`;
  return `(${max(one)} < ${max(other)} OR (${max(one)} = ${max(other)}
    AND EXISTS (SELECT 1 FROM pg_catalog.pg_snapshot_xip(${one}) AS x (id) WHERE pg_catalog.pg_visible_in_snapshot(x.id, ${other}))))`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
