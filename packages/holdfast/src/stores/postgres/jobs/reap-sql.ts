import { STALE_FINGERPRINT } from "../../../job/fingerprint.js";
import { STALE_ERROR } from "../../../job/state.js";
import { EARLIEST } from "./claim-cursors.js";
import { archiveSql } from "./archive-sql.js";
import { recorded } from "./recording.js";
import { endedNotes } from "./wake-notes.js";
import { LEASED, lostAttempt, MAX_LOSSES, NOW, usedAttempts, type Sql } from "../connection/sql.js";

const USED = usedAttempts("g");

// Expired leases have no index, so a step scans all due jobs, and there may be many that wait.
const STEP = 5_000;
// A job that loses every lease must not fail all claims of its queue when the column is at its maximum.
const ONE_MORE = `least(g.losses + 1, ${MAX_LOSSES})`;

/**
 * One step of a scan over all due jobs, which reaps at most `$2` expired leases, as parts of a statement. `reaped` has
 * each job and its `new_state`; `resume_at` has the position at which the next step starts (`$3` to `$6`: queue,
 * priority, due time, seq) and is empty after the last step. For the store, and for the SQL function.
 */
export function reapParts(sql: Sql): string {
  const { s } = sql;
  const archive = archiveSql(sql);
  // In a subquery, so that the planner does not see the number: where it expects fewer due jobs than that, it would
  // read and sort all of them instead of scanning the index in order.
  const step = `(SELECT ${STEP})`;
  const from = (column: string, otherwise: string): string =>
    `CASE WHEN queue = $3::text AND priority = $4::smallint THEN ${column} ELSE ${otherwise} END`;
  return `WITH ${NOW}, lanes AS MATERIALIZED (
       SELECT queue, priority, ${from("$5::bigint", String(EARLIEST))} AS cursor_due, ${from("$6::bigint", "0")} AS cursor_seq FROM ${s}.lanes
       WHERE $3::text IS NULL OR (queue, priority) >= ($3::text, $4::smallint) ORDER BY queue, priority
     ), scanned AS MATERIALIZED (
       SELECT d.* FROM lanes l CROSS JOIN LATERAL (
         SELECT j.ctid AS address, j.queue, j.priority, j.due_at, j.seq, j.state FROM ${s}.live j
         WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at <= (SELECT now FROM t)
           AND (j.due_at, j.seq) > (l.cursor_due, l.cursor_seq) ORDER BY j.due_at, j.seq LIMIT ${step}
       ) d LIMIT ${step}
     ), resume_at AS (
       SELECT queue, priority, due_at, seq FROM scanned OFFSET ${STEP - 1}
     ), g AS MATERIALIZED (
       SELECT ctid AS address, * FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT address FROM scanned WHERE state IN ${LEASED}))
         AND due_at <= (SELECT now FROM t) AND state IN ${LEASED} ORDER BY due_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED
     ), decided AS MATERIALIZED (
       SELECT g.*, ${USED} AS used, CASE WHEN cancel_at IS NOT NULL THEN 'cancelled' WHEN ${USED} >= max_attempts THEN 'dead' ELSE 'pending' END AS new_state FROM g
     ), retried AS (
       UPDATE ${s}.live g SET state = 'pending', due_at = (SELECT now FROM t), run_at = (SELECT now FROM t), updated_at = (SELECT now FROM t),
         attempt = ${USED}, losses = ${ONE_MORE}, worker = NULL,
         error = '${STALE_ERROR.message}', error_code = '${STALE_ERROR.code}', error_at = (SELECT now FROM t)${sql.hasFollowing ? `, fingerprint = '${STALE_FINGERPRINT}'` : ""}
       WHERE ctid = ANY (ARRAY(SELECT address FROM decided WHERE new_state = 'pending')) RETURNING id
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT address FROM decided WHERE new_state <> 'pending')) RETURNING *
     ), kept AS (${archive.insert("gone g JOIN decided f ON f.id = g.id", {
       state: "f.new_state",
       attempt: "f.used",
       losses: ONE_MORE,
       updated_at: "(SELECT now FROM t)",
       error: `'${STALE_ERROR.message}'`,
       error_code: `'${STALE_ERROR.code}'`,
       error_at: "(SELECT now FROM t)",
       fingerprint: `'${STALE_FINGERPRINT}'`,
     })}), done AS (SELECT id FROM retried UNION ALL SELECT id FROM kept),
     history AS (INSERT INTO ${s}.attempts (job, record) SELECT g.id, ${lostAttempt("g")} FROM decided g WHERE g.id = ANY (ARRAY(SELECT id FROM done))),
     ${sql.hasSteps ? `${endedNotes(sql, "kept")},` : ""} freed_keys AS (${archive.freeKeys}), ${recorded(sql).of("(SELECT id, queue, type, new_state AS state FROM decided WHERE id = ANY (ARRAY(SELECT id FROM done)))")} deltas AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, state, -pg_catalog.count(*), false FROM decided, t WHERE id = ANY (ARRAY(SELECT id FROM done)) GROUP BY now, queue, type, state
       UNION ALL SELECT now, queue, type, new_state, pg_catalog.count(*), new_state <> 'pending' FROM decided, t WHERE id = ANY (ARRAY(SELECT id FROM done)) GROUP BY now, queue, type, new_state
     ), reaped AS (SELECT * FROM decided WHERE id = ANY (ARRAY(SELECT id FROM done)))`;
}
