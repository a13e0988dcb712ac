import { STALE_ERROR, type State } from "../../state.js";
import type { Claim, ClaimedJob, ClaimRequest } from "../../store.js";
import type { Row, Runner, Statement } from "./db.js";
import { LEASED, lostAttempt, NOW, usedAttempts, type Sql } from "./sql.js";

const USED = usedAttempts("j");

/**
 * claim: walks the lanes that are open from the highest priority down and takes what is due, oldest first, in one
 * statement. Rows that others have locked are passed over.
 *
 * Rows are found and locked first, then updated by their physical address: joined on their ids, the planner may choose
 * to read the whole table. Only what was truly updated is answered, since a row may have changed after the look at it.
 */
export function claimOperation(
  sql: Sql,
): (runner: Runner, request: ClaimRequest, now: number | null) => Promise<Claim> {
  const { s } = sql;

  function claiming(name: string, byType: boolean): Statement {
    const types = byType ? "CROSS JOIN unnest($7::text[]) AS u (type)" : "";
    return sql.statement(
      name,
      `WITH ${NOW},
      lane AS MATERIALIZED (
        SELECT queue, priority ${byType ? ", u.type" : ""} FROM ${s}.lanes ${types}
        WHERE NOT paused AND ($2::text[] IS NULL OR queue = ANY ($2::text[]))
      ),
      level AS MATERIALIZED (SELECT priority FROM lane GROUP BY priority ORDER BY priority DESC),
      picked AS MATERIALIZED (
        SELECT p.* FROM level v CROSS JOIN LATERAL (
          SELECT d.* FROM lane l CROSS JOIN LATERAL (
            SELECT j.ctid AS place, j.id, j.state, j.attempt, j.worker, j.claimed_at, j.started_at,
              j.error, j.error_code, j.error_at, j.input_bytes, j.due_at, j.seq
            FROM ${s}.live j
            WHERE j.queue = l.queue AND j.priority = l.priority ${byType ? "AND j.type = l.type" : ""}
              AND j.due_at <= (SELECT now FROM t)
            ORDER BY j.due_at, j.seq LIMIT $3 FOR UPDATE SKIP LOCKED
          ) d
          WHERE l.priority = v.priority ORDER BY d.due_at, d.seq LIMIT $3
        ) p LIMIT $3
      ),
      chosen AS MATERIALIZED (
        SELECT * FROM (
          SELECT p.*, sum(input_bytes) OVER upTo AS bytes, row_number() OVER upTo AS n
          FROM picked p WINDOW upTo AS (ROWS UNBOUNDED PRECEDING)
        ) q WHERE n = 1 OR bytes <= $4::bigint
      ),
      claimed AS (
        UPDATE ${s}.live j SET
          prev_state = state, prev_attempt = ${USED}, prev_due_at = due_at,
          state = 'claimed', fence = fence + 1, attempt = least(${USED} + 1, max_attempts),
          losses = losses + CASE WHEN state IN ${LEASED} THEN 1 ELSE 0 END,
          error = CASE WHEN state IN ${LEASED} THEN '${STALE_ERROR.message}' ELSE error END,
          error_code = CASE WHEN state IN ${LEASED} THEN '${STALE_ERROR.code}' ELSE error_code END,
          error_at = CASE WHEN state IN ${LEASED} THEN (SELECT now FROM t) ELSE error_at END,
          due_at = (SELECT now FROM t) + $6::bigint, claimed_at = (SELECT now FROM t), started_at = NULL,
          worker = $5, updated_at = (SELECT now FROM t)
        WHERE ctid = ANY (ARRAY(SELECT place FROM chosen))
        RETURNING *
      ),
      lost AS MATERIALIZED (
        SELECT c.* FROM chosen c WHERE c.state IN ${LEASED} AND c.id = ANY (ARRAY(SELECT id FROM claimed))
      ),
      history AS (
        INSERT INTO ${s}.attempts (job, record)
        SELECT id, ${lostAttempt("lost")}
        FROM lost
      ),
      freed AS (
        DELETE FROM ${s}.keys WHERE scope = 'waiting'
          AND key = ANY (ARRAY(SELECT key FROM claimed WHERE key_scope = 'waiting'))
          AND job = ANY (ARRAY(SELECT id FROM claimed WHERE key_scope = 'waiting'))
      ),
      counted AS (
        INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
        SELECT now, queue, type, prev_state, -count(*), false FROM claimed, t GROUP BY now, queue, type, prev_state
        UNION ALL SELECT now, queue, type, 'claimed', count(*), false FROM claimed, t GROUP BY now, queue, type
      )
      SELECT id::text, fence, type, queue, priority, user_id::text,
        CASE WHEN input IS NULL THEN (SELECT i.input::text FROM ${s}.inputs i WHERE i.job = c.id) ELSE input::text END,
        attempt, max_attempts, losses, releases, run_at::float8, expires_at::float8, created_at::float8,
        cancel_at IS NOT NULL, array_to_json(tags)::text, schedule, slot::float8, prev_state, prev_attempt,
        prev_due_at::float8, seq::float8, claimed_at::float8,
        CASE WHEN prev_state IN ${LEASED} THEN (SELECT row_to_json(l)::text FROM (SELECT error AS message, error_code AS code, error_at AS at FROM lost WHERE lost.id = c.id) l)
          WHEN error IS NOT NULL THEN json_build_object('message', error, 'code', error_code, 'at', error_at)::text END
      FROM claimed c`,
    );
  }
  const plain = claiming("claim", false);
  const typed = claiming("claim_types", true);
  const nextDue = sql.statement(
    "next_due",
    `WITH ${NOW} SELECT (SELECT now FROM t)::float8, min(d.due_at)::float8 FROM ${s}.lanes l CROSS JOIN LATERAL (
       SELECT due_at FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at > (SELECT now FROM t)
       ORDER BY due_at LIMIT 1
     ) d WHERE NOT l.paused AND ($2::text[] IS NULL OR l.queue = ANY ($2::text[]))`,
  );

  return async (runner, request, now) => {
    const { queues, types, limit, bytes, worker, leaseMs } = request;
    if (leaseMs <= 0) throw new RangeError("a lease must be longer than 0");
    const values = [now, queues, limit, bytes, worker, leaseMs];
    const rows = types === null ? await runner.run(plain, values) : await runner.run(typed, [...values, types]);
    // Updated by address they come in physical order.
    const sorted = rows.toSorted(
      (a, b) =>
        (b[4] as number) - (a[4] as number) ||
        (a[20] as number) - (b[20] as number) ||
        (a[21] as number) - (b[21] as number),
    );
    const jobs = sorted.map(readClaimed);
    if (rows.length >= limit) return { at: sorted[0]?.[22] as number, jobs, nextDueAt: null };
    const [next] = await runner.run(nextDue, [now, queues]);
    const at = (sorted[0]?.[22] ?? next?.[0]) as number;
    return { at, jobs, nextDueAt: (next?.[1] as number | null | undefined) ?? null };
  };
}

function readClaimed(row: Row): ClaimedJob {
  const [id, fence, type, queue, priority, user, input, attempt, maxAttempts, losses, releases, runAt, expiresAt] = row;
  const [createdAt, cancelRequested, tags, schedule, slot, prevState, prevAttempt] = row.slice(13);
  const error = row[23] as string | null;
  return {
    id: id as string,
    fence: fence as number,
    type: type as string,
    queue: queue as string,
    priority: priority as number,
    user: user as string | null,
    input: (input as string | null) ?? "",
    attempt: attempt as number,
    maxAttempts: maxAttempts as number,
    losses: losses as number,
    releases: releases as number,
    runAt: runAt as number,
    expiresAt: expiresAt as number | null,
    createdAt: createdAt as number,
    cancelRequested: cancelRequested as boolean,
    error: error === null ? null : readError(error),
    tags: tags === null ? [] : (JSON.parse(tags as string) as string[]),
    schedule: schedule === null ? null : { name: schedule as string, slot: slot as number },
    previous: {
      state: prevState as State,
      attempt: prevAttempt as number,
      exhausted: (prevAttempt as number) >= (maxAttempts as number),
    },
  };
}

function readError(text: string): ClaimedJob["error"] {
  const error = JSON.parse(text) as { message: string | null; code: string | null; at: number };
  return error.message === null ? null : { message: error.message, code: error.code, at: error.at };
}
