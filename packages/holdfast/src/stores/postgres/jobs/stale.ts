import { STALE_ERROR } from "../../../job/state.js";
import { EARLIEST } from "./claim-cursors.js";
import { movesFor } from "./archive-sql.js";
import { LEASED, lostAttempt, MOST_LOSSES, NOW, usedAttempts, type Sql } from "../connection/sql.js";

const USED = usedAttempts("g");

// Stale leases have no index of their own, so the walk passes waiting jobs that are due, and they may be many.
const STEP = 5_000;
// A job that loses one lease after the other must not stop its queue when the column is full.
const ONE_MORE = `least(g.losses + 1, ${MOST_LOSSES})`;

/**
 * One step of a walk over all that is due, which lays down at most `$2` leases that ran out: the parts of a statement, of
 * which `laid_down` tells each job and its `goal`, and `last` where the next step begins (`$3` to `$6`: queue, priority, due
 * time and number); it is empty when the walk is through. For the store and for the function that other programs call.
 */
export function staleParts(sql: Sql): string {
  const { s } = sql;
  const moves = movesFor(sql);
  // Not a plain number: where the planner takes a step for all that is due, it would read and sort that instead of walking
  // the index.
  const step = `(SELECT ${STEP})`;
  const from = (column: string, otherwise: string): string =>
    `CASE WHEN queue = $3::text AND priority = $4::smallint THEN ${column} ELSE ${otherwise} END`;
  return `WITH ${NOW}, lane AS MATERIALIZED (
       SELECT queue, priority, ${from("$5::bigint", String(EARLIEST))} AS floor_due, ${from("$6::bigint", "0")} AS floor_seq FROM ${s}.lanes
       WHERE $3::text IS NULL OR (queue, priority) >= ($3::text, $4::smallint) ORDER BY queue, priority
     ), seen AS MATERIALIZED (
       SELECT d.* FROM lane l CROSS JOIN LATERAL (
         SELECT j.ctid AS place, j.queue, j.priority, j.due_at, j.seq, j.state FROM ${s}.live j
         WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at <= (SELECT now FROM t)
           AND (j.due_at, j.seq) > (l.floor_due, l.floor_seq) ORDER BY j.due_at, j.seq LIMIT ${step}
       ) d LIMIT ${step}
     ), last AS (
       SELECT queue, priority, due_at, seq FROM seen OFFSET ${STEP - 1}
     ), g AS MATERIALIZED (
       SELECT ctid AS place, * FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT place FROM seen WHERE state IN ${LEASED}))
         AND due_at <= (SELECT now FROM t) AND state IN ${LEASED} ORDER BY due_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED
     ), fate AS MATERIALIZED (
       SELECT g.*, ${USED} AS used, CASE WHEN cancel_at IS NOT NULL THEN 'cancelled' WHEN ${USED} >= max_attempts THEN 'dead' ELSE 'pending' END AS goal FROM g
     ), back AS (
       UPDATE ${s}.live g SET state = 'pending', due_at = (SELECT now FROM t), run_at = (SELECT now FROM t), updated_at = (SELECT now FROM t),
         attempt = ${USED}, losses = ${ONE_MORE}, worker = NULL,
         error = '${STALE_ERROR.message}', error_code = '${STALE_ERROR.code}', error_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT place FROM fate WHERE goal = 'pending')) RETURNING id
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT place FROM fate WHERE goal <> 'pending')) RETURNING *
     ), kept AS (${moves.archive("gone g JOIN fate f ON f.id = g.id", {
       state: "f.goal",
       attempt: "f.used",
       losses: ONE_MORE,
       updated_at: "(SELECT now FROM t)",
       error: `'${STALE_ERROR.message}'`,
       error_code: `'${STALE_ERROR.code}'`,
       error_at: "(SELECT now FROM t)",
     })}), done AS (SELECT id FROM back UNION ALL SELECT id FROM kept),
     history AS (INSERT INTO ${s}.attempts (job, record) SELECT g.id, ${lostAttempt("g")} FROM fate g WHERE g.id = ANY (ARRAY(SELECT id FROM done))),
     freed AS (${moves.free}), counted AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, state, -pg_catalog.count(*), false FROM fate, t WHERE id = ANY (ARRAY(SELECT id FROM done)) GROUP BY now, queue, type, state
       UNION ALL SELECT now, queue, type, goal, pg_catalog.count(*), goal <> 'pending' FROM fate, t WHERE id = ANY (ARRAY(SELECT id FROM done)) GROUP BY now, queue, type, goal
     ), laid_down AS (SELECT * FROM fate WHERE id = ANY (ARRAY(SELECT id FROM done)))`;
}
