import pg from "pg";
import { NOOP, orderedId, payload } from "./jobs.js";
import type { Raw } from "./raw.js";

export interface RawLease {
  id: string;
  fence: number;
}

const LEASE_MS = 30_000;
const WORKER = "raw:1:000000000000";
const NOW = "t AS MATERIALIZED (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now)";
const COUNTED = "INSERT INTO holdfast.deltas (at, queue, type, state, n, ended)";
const COLUMNS = `id, seq, type, queue, priority, user_id, input, input_bytes, max_attempts, losses, fence, run_at, expires_at,
  created_at, claimed_at, cancel_at, key, key_scope, tags, schedule, slot, error, error_code, error_at, progress, progress_note, worker`;

const INSERT = `WITH ${NOW}, given AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[]) AS g (id, type, input)),
  known AS MATERIALIZED (SELECT id FROM holdfast.archive WHERE id = ANY ($1::uuid[])
    UNION ALL SELECT id FROM holdfast.live WHERE id = ANY ($1::uuid[])),
  fresh AS (SELECT * FROM given g WHERE NOT g.id = ANY (ARRAY(SELECT id FROM known))),
  inserted AS (
    INSERT INTO holdfast.live (id, type, queue, priority, state, input, input_bytes, attempt, max_attempts, losses, releases,
      fence, run_at, due_at, created_at, updated_at)
    SELECT id, type, 'default', 0, 'pending', input::json, octet_length(input), 0, 4, 0, 0, 0, now, now, now, now FROM fresh, t
    RETURNING id, queue, type
  ), counted AS (${COUNTED} SELECT now, queue, type, 'pending', count(*), false FROM inserted, t GROUP BY now, queue, type)
  SELECT id FROM inserted`;
const CLAIM = `WITH ${NOW},
  lane AS MATERIALIZED (SELECT queue, priority FROM holdfast.lanes WHERE NOT paused ORDER BY priority DESC),
  picked AS MATERIALIZED (
    SELECT d.place FROM lane l CROSS JOIN LATERAL (
      SELECT ctid AS place FROM holdfast.live j WHERE j.queue = l.queue AND j.priority = l.priority AND j.due_at <= (SELECT now FROM t)
      ORDER BY j.due_at, j.seq LIMIT $1 FOR UPDATE SKIP LOCKED) d LIMIT $1
  ), claimed AS (
    UPDATE holdfast.live SET prev_state = state, prev_attempt = attempt, prev_due_at = due_at, state = 'claimed',
      fence = fence + 1, attempt = attempt + 1, due_at = (SELECT now FROM t) + ${LEASE_MS}, claimed_at = (SELECT now FROM t),
      started_at = NULL, worker = '${WORKER}', updated_at = (SELECT now FROM t)
    WHERE ctid = ANY (ARRAY(SELECT place FROM picked))
    RETURNING id, fence, type, queue, priority, user_id, input, attempt, max_attempts, losses, releases, run_at, expires_at,
      created_at, cancel_at, tags, prev_state, prev_due_at, seq, claimed_at, error
  ), moved AS (SELECT queue, type, prev_state, count(*) AS n FROM claimed GROUP BY queue, type, prev_state),
  counted AS (${COUNTED} SELECT now, queue, type, v.state, v.n, false
    FROM t, moved CROSS JOIN LATERAL (VALUES (prev_state, -n), ('claimed', n)) AS v (state, n))
  SELECT id::text, fence, type, queue, priority, user_id, CASE WHEN input IS NULL THEN (SELECT i.input::text FROM holdfast.inputs i WHERE i.job = c.id) ELSE input::text END,
    attempt, max_attempts, losses, releases, run_at::float8, expires_at::float8, created_at::float8, cancel_at, tags, prev_state,
    prev_due_at::float8, seq::float8, claimed_at::float8, error FROM claimed c`;
const SETTLE = `WITH ${NOW}, gone AS (
    DELETE FROM holdfast.live WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM holdfast.live WHERE id = ANY ($1::uuid[]) AND fence = $2 AND state IN ('claimed', 'running') FOR UPDATE SKIP LOCKED))
    RETURNING *
  ), kept AS (
    INSERT INTO holdfast.archive (${COLUMNS}, state, attempt, releases, updated_at, started_at, output, finished_at)
    SELECT ${COLUMNS.replaceAll(/(\w+)/g, "g.$1")}, 'completed', g.attempt, g.releases, now, coalesce(g.started_at, o.started_at), o.output::json, now
    FROM t, gone g JOIN unnest($1::uuid[], $3::text[], $4::bigint[]) AS o (id, output, started_at) ON o.id = g.id
    RETURNING id, queue, type, state
  ), counted AS (${COUNTED} SELECT now, queue, type, state, -count(*), false FROM gone, t GROUP BY now, queue, type, state
    UNION ALL SELECT now, queue, type, state, count(*), true FROM kept, t GROUP BY now, queue, type, state)
  SELECT id::text FROM kept`;

/**
 * The writes of the PostgreSQL store without Holdfast: one connection, no checks, nothing between the loop and the
 * driver. Uses a schema that Holdfast's migration has created, so that tables and indexes are the same.
 */
export async function openRawPostgres(url: string): Promise<Raw<RawLease>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(
    "INSERT INTO holdfast.lanes (queue, priority, paused, used_at) VALUES ('default', 0, false, $1) ON CONFLICT DO NOTHING",
    [Date.now()],
  );
  const input = JSON.stringify(payload());
  const run = async (name: string, text: string, values: unknown[]): Promise<unknown[][]> =>
    (await client.query({ name, text, values, rowMode: "array" })).rows as unknown[][];
  return {
    async insert(jobs) {
      const now = Date.now();
      const each = <Value>(value: () => Value): Value[] => Array.from({ length: jobs }, value);
      await run("raw_insert", INSERT, [each(() => orderedId(now)), each(() => NOOP), each(() => input)]);
    },
    async claim(limit) {
      const rows = await run("raw_claim", CLAIM, [limit]);
      return rows.map((row) => ({ id: row[0] as string, fence: row[1] as number }));
    },
    async settle(leases) {
      const now = Date.now();
      for (const fence of new Set(leases.map((lease) => lease.fence))) {
        const group = leases.filter((lease) => lease.fence === fence);
        await run("raw_settle", SETTLE, [
          group.map(({ id }) => id),
          fence,
          group.map(() => "{}"),
          group.map(() => now),
        ]);
      }
    },
    close: () => client.end(),
  };
}
