import { STALE_ERROR } from "../../../job/state.js";
import type { Statement } from "../connection/db.js";
import { EARLIEST, LATEST } from "./claim-cursors.js";
import { laneChanges, walkedLanes } from "./live-lanes.js";
import { LEASED, lostAttempt, MOST_LOSSES, NOW, rowsOf, usedAttempts, type Sql } from "../connection/sql.js";

const USED = usedAttempts("j");
/** How soon to look again for what others have locked. */
export const AGAIN_MS = 50;
export const EVERY_TYPE = "j.queue = l.queue";

/** What both statements answer of a job, in the order in which it is read. */
const RETURNED = `id, id::text AS name, fence, type, queue, priority, user_id::text AS owner, input::text AS input,
  attempt, max_attempts, losses, releases, run_at::float8, expires_at::float8, created_at::float8,
  cancel_at IS NOT NULL AS cancel, pg_catalog.array_to_json(tags)::text AS tags, schedule, slot::float8, prev_state,
  prev_attempt, prev_due_at::float8, seq::float8, claimed_at::float8, error, error_code, error_at, key, key_scope, trace`;

function answered(s: string, lostError: string): string {
  return `SELECT name, fence, type, queue, priority, owner,
      CASE WHEN input IS NULL THEN (SELECT i.input::text FROM ${s}.inputs i WHERE i.job = c.id) ELSE input END,
      attempt, max_attempts, losses, releases, run_at, expires_at, created_at, cancel, tags, schedule, slot, prev_state,
      prev_attempt, prev_due_at, seq, claimed_at,
      CASE ${lostError} WHEN error IS NOT NULL
        THEN pg_catalog.json_build_object('message', error, 'code', error_code, 'at', error_at)::text END, trace
    FROM claimed c`;
}

/** A row that is no job: when to look next, the time, and what is to be learnt of lanes. */
function lastRow(unfit: string, next: string, now: string, lanes = "NULL"): string {
  return `SELECT NULL, ${unfit}, NULL, NULL, 0, NULL, ${lanes}, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0,
      ${next}::float8, 0, ${now}::float8, NULL, NULL`;
}

/** Which lanes a claim walks: all there are, or those that a snapshot and the marks since say hold jobs. */
export type LaneSource = "all" | "snapshot";

/**
 * A lane that came to be as its queue was paused may not know it. Those of a snapshot were looked at as they were gathered. The
 * others are looked up in a hash: as a list, many paused queues would be compared with each lane.
 */
function unpaused(s: string, lane: string, source: LaneSource): string {
  return source === "snapshot" ? "true" : `NOT (${lane}.queue = ANY (SELECT p.queue FROM ${s}.lanes p WHERE p.paused))`;
}

/**
 * The claim: walks the lanes that are open from the highest priority down and takes what is due, oldest first. Rows that
 * others have locked are passed over.
 *
 * Rows are found and locked first, then updated by their physical address: joined on their ids, the planner may choose
 * to read the whole table. Only what was truly updated is answered, since a row may have changed after the look at it.
 */
export function claimStatement(sql: Sql, name: string, match: string, source: LaneSource): Statement {
  const { s } = sql;
  const byType = match !== EVERY_TYPE;
  const { lanes, walked } = sourceOf(sql, source, byType ? 13 : 12);
  const open = `${unpaused(s, "l", source)} AND ($2::text[] IS NULL OR l.queue = ANY ($2::text[]))`;
  const isShort = "(SELECT pg_catalog.count(*) FROM claimed) < $3";
  // A claim for types says nothing of the jobs of others, and one from floors nothing of what lies below them.
  const emptied = `SELECT l.queue, l.priority FROM lane l WHERE ${byType ? "false" : "true"}
    AND ${isShort} AND NOT EXISTS (SELECT 1 FROM passed) AND l.floor_due = ${EARLIEST}
    AND NOT (l.queue, l.priority) IN (SELECT queue, priority FROM claimed)
    AND (SELECT 1 FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at > (SELECT now FROM t)
      ORDER BY j.due_at LIMIT 1) IS NULL`;
  const due = `${match} AND j.priority = l.priority
    AND j.due_at <= (SELECT now FROM t) AND (j.due_at, j.seq) >= (l.floor_due, l.floor_seq)`;
  /** Of each lane of a level the first that nobody has locked, and of those the first of all. */
  const found = (within: string, when = "true"): string => `(
          SELECT d.* FROM lane l CROSS JOIN LATERAL (
            SELECT j.ctid AS place, j.state, j.input_bytes, j.due_at, j.seq
            FROM ${s}.live j WHERE ${due} AND (j.due_at, j.seq) ${within}
            ORDER BY j.due_at, j.seq LIMIT $3 FOR UPDATE SKIP LOCKED
          ) d
          WHERE l.priority = v.priority AND ${when} ORDER BY d.due_at, d.seq LIMIT $3
        )`;
  const types = byType ? "CROSS JOIN pg_catalog.unnest($12::text[]) AS u (type)" : "";
  return sql.statement(
    name,
    `WITH ${NOW}, ${walked}
    lane AS MATERIALIZED (
      SELECT a.queue, a.priority${byType ? ", u.type" : ""},
        coalesce(f.due_at, ${EARLIEST}) AS floor_due, coalesce(f.seq, 0) AS floor_seq
      FROM ${lanes} a ${types}
      LEFT JOIN ${rowsOf("$7::text[], $8::smallint[], $9::text[], $10::bigint[], $11::bigint[]")} AS f (queue, priority, type, due_at, seq)
        ON f.queue = a.queue AND f.priority = a.priority ${byType ? "AND f.type = u.type" : ""}
      WHERE ${unpaused(s, "a", source)} AND ($2::text[] IS NULL OR a.queue = ANY ($2::text[]))
    ),
    level AS MATERIALIZED (SELECT priority, pg_catalog.count(*) AS lanes FROM lane GROUP BY priority ORDER BY priority DESC),
    picked AS MATERIALIZED (
      SELECT p.* FROM level v
      -- Of several lanes none need be locked beyond the last job that can be wanted; as many again for those that
      -- others have locked. If they have more than that, what lies beyond is wanted after all.
      LEFT JOIN LATERAL (
        SELECT c.due_at, c.seq FROM lane l CROSS JOIN LATERAL (
          SELECT j.due_at, j.seq FROM ${s}.live j WHERE ${due} ORDER BY j.due_at, j.seq LIMIT 2 * $3
        ) c
        WHERE v.lanes > 1 AND l.priority = v.priority ORDER BY c.due_at, c.seq OFFSET 2 * $3 - 1 LIMIT 1
      ) b ON true
      CROSS JOIN LATERAL (
        ${found(`<= (coalesce(b.due_at, ${LATEST}), coalesce(b.seq, ${LATEST}))`)}
        UNION ALL ${found("> (b.due_at, b.seq)", "b.due_at IS NOT NULL")}
      ) p LIMIT $3
    ),
    size AS MATERIALIZED (SELECT pg_catalog.sum(input_bytes) AS bytes FROM picked),
    chosen AS MATERIALIZED (
      SELECT place, state FROM picked WHERE (SELECT bytes FROM size) <= $4::bigint
      UNION ALL SELECT place, state FROM (
        SELECT p.*, pg_catalog.sum(input_bytes) OVER upTo AS bytes, pg_catalog.row_number() OVER upTo AS n
        FROM picked p WINDOW upTo AS (ROWS UNBOUNDED PRECEDING)
      ) q WHERE (SELECT bytes FROM size) > $4::bigint AND (n = 1 OR bytes <= $4::bigint)
    ),
    lost AS MATERIALIZED (
      SELECT id, attempt, worker, claimed_at, started_at, error, error_code, error_at FROM ${s}.live
      WHERE ctid = ANY (ARRAY(SELECT place FROM chosen WHERE state IN ${LEASED}))
    ),
    claimed AS (
      UPDATE ${s}.live j SET
        prev_state = state, prev_attempt = ${USED}, prev_due_at = due_at,
        state = 'claimed', fence = fence + 1, attempt = least(${USED} + 1, max_attempts),
        losses = CASE WHEN state IN ${LEASED} THEN least(losses + 1, ${MOST_LOSSES}) ELSE losses END,
        error = CASE WHEN state IN ${LEASED} THEN '${STALE_ERROR.message}' ELSE error END,
        error_code = CASE WHEN state IN ${LEASED} THEN '${STALE_ERROR.code}' ELSE error_code END,
        error_at = CASE WHEN state IN ${LEASED} THEN (SELECT now FROM t) ELSE error_at END,
        due_at = (SELECT now FROM t) + $6::bigint, claimed_at = (SELECT now FROM t), started_at = NULL,
        worker = $5, updated_at = (SELECT now FROM t)
      WHERE ctid = ANY (ARRAY(SELECT place FROM chosen))
      RETURNING ${RETURNED}
    ),
    history AS (
      INSERT INTO ${s}.attempts (job, record)
      SELECT id, ${lostAttempt("lost")} FROM lost WHERE id = ANY (ARRAY(SELECT id FROM claimed))
    ),
    freed AS (
      DELETE FROM ${s}.keys WHERE scope = 'waiting'
        AND key = ANY (ARRAY(SELECT key FROM claimed WHERE key_scope = 'waiting'))
        AND job = ANY (ARRAY(SELECT id FROM claimed WHERE key_scope = 'waiting'))
    ),
    moved AS (SELECT queue, type, prev_state, pg_catalog.count(*) AS n FROM claimed GROUP BY queue, type, prev_state),
    counted AS (
      INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
      SELECT now, queue, type, v.state, v.n, false
      FROM t, moved CROSS JOIN LATERAL (VALUES (prev_state, -n), ('claimed', n)) AS v (state, n)
    ),
    -- Others have these locked, and will claim them or let go of them in a moment.
    passed AS (
      SELECT 1 FROM lane l CROSS JOIN LATERAL (
        SELECT 1 FROM ${s}.live j WHERE ${due} AND NOT j.ctid = ANY (ARRAY(SELECT place FROM chosen))
        ORDER BY j.due_at, j.seq LIMIT 1
      ) d LIMIT 1
    ),
    after AS (
      SELECT least(pg_catalog.min(d.due_at), CASE WHEN EXISTS (SELECT 1 FROM claimed) THEN (SELECT now FROM t) + $6::bigint END,
        CASE WHEN EXISTS (SELECT 1 FROM passed) THEN (SELECT now FROM t) + ${AGAIN_MS} END,
        -- There is more, for which there was no room.
        CASE WHEN (SELECT pg_catalog.count(*) FROM picked) > (SELECT pg_catalog.count(*) FROM chosen) THEN (SELECT now FROM t) END) AS next
      FROM ${lanes} l CROSS JOIN LATERAL (
        SELECT due_at FROM ${s}.live j
        WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at > (SELECT now FROM t)
        ORDER BY due_at LIMIT 1
      ) d WHERE ${open}
    )
    ${answered(s, `WHEN prev_state IN ${LEASED} THEN (SELECT pg_catalog.row_to_json(l)::text FROM (SELECT error AS message, error_code AS code, error_at AS at FROM lost WHERE lost.id = c.id) l)`)}
    UNION ALL ${
      source === "all"
        ? `${lastRow("0", "(SELECT next FROM after)", "(SELECT now FROM t)")} WHERE ${isShort}`
        : lastRow(
            "0",
            `CASE WHEN ${isShort} THEN (SELECT next FROM after) END`,
            "(SELECT now FROM t)",
            laneChanges(emptied),
          )
    }`,
  );
}

/** The relation of the lanes to walk, and what makes it; their values begin at `place`. */
function sourceOf(sql: Sql, source: LaneSource, place: number): { lanes: string; walked: string } {
  if (source === "all") return { lanes: `${sql.s}.lanes`, walked: "" };
  const places = { queues: `$${place}`, priorities: `$${place + 1}`, at: `$${place + 2}`, paused: `$${place + 3}` };
  return { lanes: "walked", walked: `${walkedLanes(sql, places)},` };
}

const QUICK_NOW = "coalesce($1::bigint, (extract(epoch FROM pg_catalog.statement_timestamp()) * 1000)::bigint)";

/**
 * The claim of a worker that has been idle, for the few jobs that it expects: the same, without what only matters when there
 * are many. Setting up and taking down the plan of the other takes longer than running it. It finds all that is due before it
 * takes the first of it; takes nothing, and says so, if there are more bytes than wanted, or if there is more to a job
 * than to hand it out: a lost lease, or a key to let go of. Where others have jobs locked, it only says so, not when
 * the next one is due.
 */
export function quickClaimStatement(sql: Sql, source: LaneSource): Statement {
  const { s } = sql;
  const { lanes, walked } = sourceOf(sql, source, 7);
  const open = `${unpaused(s, "l", source)} AND ($2::text[] IS NULL OR l.queue = ANY ($2::text[]))`;
  const emptied = `SELECT l.queue, l.priority FROM ${lanes} l WHERE ${open}
    AND (SELECT 1 FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority ORDER BY j.due_at, j.seq LIMIT 1) IS NULL`;
  return sql.statement(
    source === "all" ? "claim_quick" : "claim_quick_lanes",
    `WITH ${walked} picked AS MATERIALIZED (
      SELECT d.* FROM ${lanes} l CROSS JOIN LATERAL (
        SELECT j.ctid AS place, j.input_bytes, j.due_at, j.seq, j.state IN ${LEASED} OR j.key_scope = 'waiting' AS more
        FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at <= ${QUICK_NOW}
        ORDER BY j.due_at, j.seq LIMIT $3 FOR UPDATE SKIP LOCKED
      ) d WHERE ${open} ORDER BY l.priority DESC, d.due_at, d.seq LIMIT $3
    ),
    unfit AS MATERIALIZED (SELECT coalesce(pg_catalog.bool_or(more) OR pg_catalog.sum(input_bytes) > $4::bigint, false) AS found FROM picked),
    claimed AS (
      UPDATE ${s}.live j SET prev_state = state, prev_attempt = attempt, prev_due_at = due_at,
        state = 'claimed', fence = fence + 1, attempt = least(attempt + 1, max_attempts),
        due_at = ${QUICK_NOW} + $6::bigint, claimed_at = ${QUICK_NOW}, started_at = NULL, worker = $5, updated_at = ${QUICK_NOW}
      WHERE ctid = ANY (ARRAY(SELECT place FROM picked)) AND NOT (SELECT u.found FROM unfit u)
      RETURNING ${RETURNED}
    ),
    moved AS (SELECT queue, type, prev_state, pg_catalog.count(*) AS n FROM claimed GROUP BY queue, type, prev_state),
    counted AS (
      INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
      SELECT ${QUICK_NOW}, queue, type, v.state, v.n, false
      FROM moved CROSS JOIN LATERAL (VALUES (prev_state, -n), ('claimed', n)) AS v (state, n)
    )
    ${answered(s, "")}
    UNION ALL ${lastRow(
      "(SELECT u.found FROM unfit u)::int",
      `(SELECT pg_catalog.min((SELECT j.due_at FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority
        AND NOT j.ctid = ANY (ARRAY(SELECT place FROM picked)) ORDER BY j.due_at, j.seq LIMIT 1))
        FROM ${lanes} l WHERE ${open})`,
      QUICK_NOW,
      source === "all" ? "NULL" : laneChanges(emptied),
    )}`,
  );
}
