import { STALE_FINGERPRINT } from "../../../job/fingerprint.js";
import { STALE_ERROR } from "../../../job/state.js";
import { LEASED, lostAttempt, MAX_LOSSES, rowsOf, usedAttempts, type Sql } from "../connection/sql.js";
import { jobColumns, reportColumns, RETURNED } from "./claim-columns.js";
import { EARLIEST, LATEST } from "./claim-cursors.js";
import { isUnpausedQueue, laneChanges, scannedLanes } from "./live-lanes.js";
import { stateStatement, type StateStatement } from "./recording.js";

const USED = usedAttempts("j");
/** How soon to claim again when due jobs are locked by other sessions. */
export const LOCKED_RETRY_MS = 50;
export const EVERY_TYPE = "j.queue = l.queue";

/** Which lanes a claim scans: all of them, or those that hold jobs according to a snapshot and the marks since. */
export type LaneSource = "all" | "snapshot";

/**
 * The claim. It scans the lanes from the highest priority down, takes due jobs, earliest first, and skips rows that
 * other sessions have locked. Its parts:
 *
 * - `lanes`: the lanes that are not paused, with the cursor from which each is scanned (claim-cursors.ts); `levels`:
 *   their priorities.
 * - `candidates`: due jobs, found and locked in order, at most the limit; `selected`: as many of them as fit into the
 *   byte limit.
 * - `expired_leases`: those among them whose lease has expired, as they were; `history` gets an attempt for each.
 * - `claimed`: the update. Only rows that it returns were claimed: a row may have changed after it was found.
 * - `freed_keys`: keys with scope `waiting` end with the claim. `deltas`: the counters of states. `recorded`: see recording.ts.
 * - `skipped`: whether due jobs are locked by other sessions. `next_due`: when to claim again.
 *
 * What PostgreSQL would do wrong, and what prevents it:
 *
 * - Joined on ids, the update may read the whole table. The planner expects few rows in a table that was small when it
 *   was last analysed, and a prepared statement keeps its plan: with 300,000 jobs a claim of 10 took 90 ms. So rows are
 *   found first and then updated by their physical address; `ctid = ANY` reads those rows only, whatever the planner
 *   expects. Now it takes about 3 ms. See also preallocate.ts.
 * - One query over all lanes would sort all due jobs, since the index starts with the queue. A lateral query for each
 *   lane reads the index in order and stops at the limit.
 */
export function claimStatement(sql: Sql, name: string, match: string, source: LaneSource): StateStatement {
  const { s } = sql;
  const byType = match !== EVERY_TYPE;
  const { lanes, scanned } = lanesOf(sql, source, byType ? 13 : 12);
  const isShort = "(SELECT pg_catalog.count(*) FROM claimed) < $3";
  const at = "(SELECT now FROM t)::float8";
  // A claim for types has not seen jobs of other types, and one from a cursor has not seen jobs before it.
  const emptied = `SELECT l.queue, l.priority FROM lanes l WHERE ${byType ? "false" : "true"}
    AND ${isShort} AND NOT EXISTS (SELECT 1 FROM skipped) AND l.cursor_due = ${EARLIEST}
    AND NOT (l.queue, l.priority) IN (SELECT queue, priority FROM claimed)
    AND (SELECT 1 FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at > (SELECT now FROM t)
      ORDER BY j.due_at LIMIT 1) IS NULL`;
  const due = `${match} AND j.priority = l.priority
    AND j.due_at <= (SELECT now FROM t) AND (j.due_at, j.seq) >= (l.cursor_due, l.cursor_seq)`;
  /** The first unlocked jobs of each lane of a level, and the first of all of these. */
  const firstUnlocked = (range: string, condition = "true"): string => `(
          SELECT d.* FROM lanes l CROSS JOIN LATERAL (
            SELECT j.ctid AS address, j.state, j.input_bytes, j.due_at, j.seq
            FROM ${s}.live j WHERE ${due} AND (j.due_at, j.seq) ${range}
            ORDER BY j.due_at, j.seq LIMIT $3 FOR UPDATE SKIP LOCKED
          ) d
          WHERE l.priority = v.priority AND ${condition} ORDER BY d.due_at, d.seq LIMIT $3
        )`;
  const types = byType ? "CROSS JOIN pg_catalog.unnest($12::text[]) AS u (type)" : "";
  const lostError = `WHEN prev_state IN ${LEASED} THEN (SELECT pg_catalog.row_to_json(e)::text FROM (
      SELECT error AS message, error_code AS code, error_at AS at FROM expired_leases x WHERE x.id = c.id) e)`;
  const report =
    source === "all"
      ? `SELECT ${reportColumns({ nextDueAt: "(SELECT next FROM next_due)::float8", at })} WHERE ${isShort}`
      : `SELECT ${reportColumns({ nextDueAt: `CASE WHEN ${isShort} THEN (SELECT next FROM next_due) END::float8`, at, lanes: laneChanges(emptied) })}`;
  return stateStatement(
    sql,
    name,
    (recording) => `WITH ${recording.now}, ${scanned}
    lanes AS MATERIALIZED (
      SELECT a.queue, a.priority${byType ? ", u.type" : ""},
        coalesce(f.due_at, ${EARLIEST}) AS cursor_due, coalesce(f.seq, 0) AS cursor_seq
      FROM ${lanes} a ${types}
      LEFT JOIN ${rowsOf("$7::text[], $8::smallint[], $9::text[], $10::bigint[], $11::bigint[]")} AS f (queue, priority, type, due_at, seq)
        ON f.queue = a.queue AND f.priority = a.priority ${byType ? "AND f.type = u.type" : ""}
      WHERE ${isUnpausedAndRequested(s, "a", source)}
    ),
    levels AS MATERIALIZED (SELECT priority, pg_catalog.count(*) AS lanes FROM lanes GROUP BY priority ORDER BY priority DESC),
    candidates AS MATERIALIZED (
      SELECT p.* FROM levels v
      -- With several lanes, each of them would lock as many jobs as the limit. So a position is found first, without
      -- locks, beyond which no lane is locked: that of job number 2 * limit. Twice the limit, because other sessions
      -- may have locked some of these jobs. If they have locked more, the second query continues after the position.
      LEFT JOIN LATERAL (
        SELECT c.due_at, c.seq FROM lanes l CROSS JOIN LATERAL (
          SELECT j.due_at, j.seq FROM ${s}.live j WHERE ${due} ORDER BY j.due_at, j.seq LIMIT 2 * $3
        ) c
        WHERE v.lanes > 1 AND l.priority = v.priority ORDER BY c.due_at, c.seq OFFSET 2 * $3 - 1 LIMIT 1
      ) b ON true
      CROSS JOIN LATERAL (
        ${firstUnlocked(`<= (coalesce(b.due_at, ${LATEST}), coalesce(b.seq, ${LATEST}))`)}
        UNION ALL ${firstUnlocked("> (b.due_at, b.seq)", "b.due_at IS NOT NULL")}
      ) p LIMIT $3
    ),
    size AS MATERIALIZED (SELECT pg_catalog.sum(input_bytes) AS bytes FROM candidates),
    selected AS MATERIALIZED (
      SELECT address, state FROM candidates WHERE (SELECT bytes FROM size) <= $4::bigint
      UNION ALL SELECT address, state FROM (
        SELECT p.*, pg_catalog.sum(input_bytes) OVER upTo AS bytes, pg_catalog.row_number() OVER upTo AS n
        FROM candidates p WINDOW upTo AS (ROWS UNBOUNDED PRECEDING)
      ) q WHERE (SELECT bytes FROM size) > $4::bigint AND (n = 1 OR bytes <= $4::bigint)
    ),
    expired_leases AS MATERIALIZED (
      SELECT id, attempt, fence, worker, claimed_at, started_at, error, error_code, error_at FROM ${s}.live
      WHERE ctid = ANY (ARRAY(SELECT address FROM selected WHERE state IN ${LEASED}))
    ),
    claimed AS (
      UPDATE ${s}.live j SET
        prev_state = state, prev_attempt = ${USED}, prev_due_at = due_at,
        state = 'claimed', fence = fence + 1, attempt = least(${USED} + 1, max_attempts),
        losses = CASE WHEN state IN ${LEASED} THEN least(losses + 1, ${MAX_LOSSES}) ELSE losses END,
        error = CASE WHEN state IN ${LEASED} THEN '${STALE_ERROR.message}' ELSE error END,
        error_code = CASE WHEN state IN ${LEASED} THEN '${STALE_ERROR.code}' ELSE error_code END,
        error_at = CASE WHEN state IN ${LEASED} THEN (SELECT now FROM t) ELSE error_at END,
        fingerprint = CASE WHEN state IN ${LEASED} THEN '${STALE_FINGERPRINT}' ELSE fingerprint END,
        due_at = (SELECT now FROM t) + $6::bigint, claimed_at = (SELECT now FROM t), started_at = NULL,
        worker = $5, updated_at = (SELECT now FROM t)
      WHERE ctid = ANY (ARRAY(SELECT address FROM selected))
      RETURNING ${RETURNED}
    ),
    history AS (
      INSERT INTO ${s}.attempts (job, record)
      SELECT id, ${lostAttempt("expired_leases")} FROM expired_leases WHERE id = ANY (ARRAY(SELECT id FROM claimed))
    ),
    freed_keys AS (
      DELETE FROM ${s}.keys WHERE scope = 'waiting'
        AND key = ANY (ARRAY(SELECT key FROM claimed WHERE key_scope = 'waiting'))
        AND job = ANY (ARRAY(SELECT id FROM claimed WHERE key_scope = 'waiting'))
    ),
    ${recording.of("claimed", CLAIMED)}
    ${deltas(s, "(SELECT now FROM t)")},
    skipped AS (
      SELECT 1 FROM lanes l CROSS JOIN LATERAL (
        SELECT 1 FROM ${s}.live j WHERE ${due} AND NOT j.ctid = ANY (ARRAY(SELECT address FROM selected))
        ORDER BY j.due_at, j.seq LIMIT 1
      ) d LIMIT 1
    ),
    -- The first of: the next job that becomes due, the end of these leases, the retry of locked jobs, and now if the
    -- byte limit left some.
    next_due AS (
      SELECT least(pg_catalog.min(d.due_at), CASE WHEN EXISTS (SELECT 1 FROM claimed) THEN (SELECT now FROM t) + $6::bigint END,
        CASE WHEN EXISTS (SELECT 1 FROM skipped) THEN (SELECT now FROM t) + ${LOCKED_RETRY_MS} END,
        CASE WHEN (SELECT pg_catalog.count(*) FROM candidates) > (SELECT pg_catalog.count(*) FROM selected) THEN (SELECT now FROM t) END) AS next
      FROM ${lanes} l CROSS JOIN LATERAL (
        SELECT due_at FROM ${s}.live j
        WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at > (SELECT now FROM t)
        ORDER BY due_at LIMIT 1
      ) d WHERE ${isUnpausedAndRequested(s, "l", source)}
    )
    ${selectJobs(s, lostError)}
    UNION ALL ${report}`,
  );
}

const CLAIMED = { state: "'claimed'" };
const FAST_NOW = "coalesce($1::bigint, (extract(epoch FROM pg_catalog.statement_timestamp()) * 1000)::bigint)";

/**
 * The claim of an idle worker, which expects few jobs. It leaves out everything that only matters when there are many,
 * since setting up the plan of the full statement takes longer than running it (see claim.ts for the figures): no
 * cursors, no limit on what is locked, no byte limit.
 *
 * It claims nothing and reports `needsFull` if a job has an expired lease or a key with scope `waiting`, or if the
 * inputs exceed the byte limit. If due jobs are locked by other sessions, it reports their due time as the next one.
 */
export function fastClaimStatement(sql: Sql, source: LaneSource): StateStatement {
  const { s } = sql;
  const { lanes, scanned } = lanesOf(sql, source, 7);
  const condition = isUnpausedAndRequested(s, "l", source);
  const emptied = `SELECT l.queue, l.priority FROM ${lanes} l WHERE ${condition}
    AND (SELECT 1 FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority ORDER BY j.due_at, j.seq LIMIT 1) IS NULL`;
  const report = reportColumns({
    needsFull: "(SELECT f.needed FROM full_claim f)::int",
    nextDueAt: `(SELECT pg_catalog.min((SELECT j.due_at FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority
        AND NOT j.ctid = ANY (ARRAY(SELECT address FROM candidates)) ORDER BY j.due_at, j.seq LIMIT 1))
        FROM ${lanes} l WHERE ${condition})::float8`,
    at: `${FAST_NOW}::float8`,
    ...(source === "all" ? {} : { lanes: laneChanges(emptied) }),
  });
  return stateStatement(
    sql,
    source === "all" ? "claim_fast" : "claim_fast_lanes",
    (recording) => `WITH ${scanned} candidates AS MATERIALIZED (
      SELECT d.* FROM ${lanes} l CROSS JOIN LATERAL (
        SELECT j.ctid AS address, j.input_bytes, j.due_at, j.seq, j.state IN ${LEASED} OR j.key_scope = 'waiting' AS needs_full
        FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at <= ${FAST_NOW}
        ORDER BY j.due_at, j.seq LIMIT $3 FOR UPDATE SKIP LOCKED
      ) d WHERE ${condition} ORDER BY l.priority DESC, d.due_at, d.seq LIMIT $3
    ),
    full_claim AS MATERIALIZED (
      SELECT coalesce(pg_catalog.bool_or(needs_full) OR pg_catalog.sum(input_bytes) > $4::bigint, false) OR ${recording.guard} < 1 AS needed FROM candidates
    ),
    claimed AS (
      UPDATE ${s}.live j SET prev_state = state, prev_attempt = attempt, prev_due_at = due_at,
        state = 'claimed', fence = fence + 1, attempt = least(attempt + 1, max_attempts),
        due_at = ${FAST_NOW} + $6::bigint, claimed_at = ${FAST_NOW}, started_at = NULL, worker = $5, updated_at = ${FAST_NOW}
      WHERE ctid = ANY (ARRAY(SELECT address FROM candidates)) AND NOT (SELECT f.needed FROM full_claim f)
      RETURNING ${RETURNED}
    ),
    ${recording.of("claimed", { ...CLAIMED, now: FAST_NOW })}
    ${deltas(s, FAST_NOW)}
    ${selectJobs(s, "")}
    UNION ALL SELECT ${report}`,
  );
}

/** The relation of the lanes to scan, and the parts of the statement that define it; their values start at `$first`. */
function lanesOf(sql: Sql, source: LaneSource, first: number): { lanes: string; scanned: string } {
  if (source === "all") return { lanes: `${sql.s}.lanes`, scanned: "" };
  const values = { queues: `$${first}`, priorities: `$${first + 1}`, at: `$${first + 2}`, paused: `$${first + 3}` };
  return { lanes: "scanned_lanes", scanned: `${scannedLanes(sql, values)},` };
}

/**
 * Whether a lane is requested and not paused. A lane that is created while its queue is paused is not marked itself, so
 * a queue is paused if any of its lanes is. `scanned_lanes` contains no paused ones. Otherwise paused queues are looked
 * up by a hash: as an array, many of them would be compared with each lane.
 */
function isUnpausedAndRequested(s: string, lane: string, source: LaneSource): string {
  const isUnpaused = source === "snapshot" ? "true" : isUnpausedQueue(s, `${lane}.queue`);
  return `${isUnpaused} AND ($2::text[] IS NULL OR ${lane}.queue = ANY ($2::text[]))`;
}

/** The changes to the counters of states. */
function deltas(s: string, now: string): string {
  return `transitions AS (SELECT queue, type, prev_state, pg_catalog.count(*) AS n FROM claimed GROUP BY queue, type, prev_state),
    deltas AS (
      INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
      SELECT ${now}, queue, type, v.state, v.n, false
      FROM transitions CROSS JOIN LATERAL (VALUES (prev_state, -n), ('claimed', n)) AS v (state, n)
    )`;
}

/** The claimed jobs. `lostError`: a WHEN for the error that a job had before its lease expired. */
function selectJobs(s: string, lostError: string): string {
  const columns = jobColumns({
    input: `CASE WHEN input IS NULL THEN (SELECT i.input::text FROM ${s}.inputs i WHERE i.job = c.id) ELSE input END`,
    error: `CASE ${lostError} WHEN error IS NOT NULL
        THEN pg_catalog.json_build_object('message', error, 'code', error_code, 'at', error_at)::text END`,
  });
  return `SELECT ${columns} FROM claimed c`;
}
