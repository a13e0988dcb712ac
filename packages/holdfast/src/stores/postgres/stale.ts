import { STALE_ERROR } from "../../state.js";
import { movesFor } from "./moves.js";
import { LEASED, lostAttempt, NOW, usedAttempts, type Sql } from "./sql.js";

const USED = usedAttempts("g");

/**
 * Lays down at most `$2` leases that ran out: the parts of a statement, of which `laid_down` tells each job and its
 * `goal`. For the store and for the function that other programs call.
 */
export function staleParts(sql: Sql): string {
  const { s } = sql;
  const moves = movesFor(sql);
  return `WITH ${NOW}, g AS MATERIALIZED (
       SELECT d.* FROM ${s}.lanes l CROSS JOIN LATERAL (
         SELECT ctid AS place, * FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority
           AND j.due_at <= (SELECT now FROM t) AND j.state IN ${LEASED} ORDER BY j.due_at, j.seq LIMIT $2 FOR UPDATE SKIP LOCKED
       ) d LIMIT $2
     ), fate AS MATERIALIZED (
       SELECT g.*, ${USED} AS used, CASE WHEN cancel_at IS NOT NULL THEN 'cancelled' WHEN ${USED} >= max_attempts THEN 'dead' ELSE 'pending' END AS goal FROM g
     ), back AS (
       UPDATE ${s}.live g SET state = 'pending', due_at = (SELECT now FROM t), run_at = (SELECT now FROM t), updated_at = (SELECT now FROM t),
         attempt = ${USED}, losses = losses + 1, worker = NULL,
         error = '${STALE_ERROR.message}', error_code = '${STALE_ERROR.code}', error_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT place FROM fate WHERE goal = 'pending')) RETURNING id
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT place FROM fate WHERE goal <> 'pending')) RETURNING *
     ), kept AS (${moves.archive("gone g JOIN fate f ON f.id = g.id", {
       state: "f.goal",
       attempt: "f.used",
       losses: "g.losses + 1",
       updated_at: "(SELECT now FROM t)",
       error: `'${STALE_ERROR.message}'`,
       error_code: `'${STALE_ERROR.code}'`,
       error_at: "(SELECT now FROM t)",
     })}), done AS (SELECT id FROM back UNION ALL SELECT id FROM kept),
     history AS (INSERT INTO ${s}.attempts (job, record) SELECT g.id, ${lostAttempt("g")} FROM fate g WHERE g.id = ANY (ARRAY(SELECT id FROM done))),
     freed AS (${moves.free}), counted AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, state, -count(*), false FROM fate, t WHERE id = ANY (ARRAY(SELECT id FROM done)) GROUP BY now, queue, type, state
       UNION ALL SELECT now, queue, type, goal, count(*), goal <> 'pending' FROM fate, t WHERE id = ANY (ARRAY(SELECT id FROM done)) GROUP BY now, queue, type, goal
     ), laid_down AS (SELECT * FROM fate WHERE id = ANY (ARRAY(SELECT id FROM done)))`;
}
