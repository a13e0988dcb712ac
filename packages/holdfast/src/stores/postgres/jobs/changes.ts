import type { CancelResult, ChangeScope, RemoveResult, RetryResult } from "../../../store.js";
import { answersOf, BRIEFLY } from "./lock-retry.js";
import type { Runner } from "../connection/db.js";
import { isStale, staleKeys } from "./insert-sql.js";
import { movesFor } from "./archive-sql.js";
import { COMMON } from "../schema/schema.js";
import { LEASED, NOW, WAITING, type Sql } from "../connection/sql.js";

export interface ChangeOperations {
  cancel(runner: Runner, ids: readonly string[], scope: ChangeScope, now: number | null): Promise<CancelResult[]>;
  retry(runner: Runner, ids: readonly string[], scope: ChangeScope, now: number | null): Promise<RetryResult[]>;
  remove(runner: Runner, ids: readonly string[], scope: ChangeScope): Promise<RemoveResult[]>;
}

/**
 * cancel, retry, remove: what people do to jobs. Rows that others have locked are passed over, and so are those that
 * changed between the look at them and the lock on them: `answersOf` asks for them again.
 */
export function changeOperations(sql: Sql): ChangeOperations {
  const { s } = sql;
  const moves = movesFor(sql);
  const within = (user: string, states: string): string =>
    `(${user}::text IS NULL OR user_id::text = ${user}::text) AND (${states}::text[] IS NULL OR state = ANY (${states}::text[]))`;
  const wanted = (table: string): string =>
    `${s}.${table} WHERE (SELECT true FROM briefly) AND id = ANY ($2::uuid[]) AND ${within("$3", "$4")}`;
  const cancel = sql.statement(
    "cancel",
    `WITH ${NOW}, ${BRIEFLY}, target AS MATERIALIZED (
       SELECT ctid AS place, state FROM ${wanted("live")} FOR UPDATE SKIP LOCKED
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT place FROM target WHERE state IN ${WAITING})) RETURNING *
     ), kept AS (${moves.archive("gone g", {
       state: "'cancelled'",
       cancel_at: "(SELECT now FROM t)",
       updated_at: "(SELECT now FROM t)",
     })}), freed AS (${moves.free}), counted AS (${moves.count}), asked AS (
       UPDATE ${s}.live SET cancel_at = coalesce(cancel_at, (SELECT now FROM t)), updated_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT place FROM target WHERE state IN ${LEASED})) RETURNING id
     )
     SELECT id::text, 'cancelled' FROM kept UNION ALL SELECT id::text, 'requested' FROM asked
     UNION ALL SELECT id::text, 'finished' FROM ${wanted("archive")}`,
  );
  const hurry = sql.statement(
    "hurry",
    `WITH ${NOW}, ${BRIEFLY}, target AS MATERIALIZED (
       SELECT ctid AS place, id::text, state FROM ${wanted("live")} FOR UPDATE SKIP LOCKED
     ), hurried AS (
       UPDATE ${s}.live SET run_at = (SELECT now FROM t), due_at = (SELECT now FROM t), updated_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT place FROM target WHERE state = 'failed')) RETURNING id::text
     )
     SELECT id, 'retried' FROM hurried UNION ALL SELECT id, 'not-retryable' FROM target WHERE state <> 'failed'
     UNION ALL SELECT id::text, 'not-retryable' FROM ${wanted("archive")} AND state = 'completed'`,
  );
  const fresh: Partial<Record<string, string>> = {
    state: "'pending'",
    attempt: "0",
    losses: "0",
    releases: "0",
    run_at: "(SELECT now FROM t)",
    updated_at: "(SELECT now FROM t)",
    expires_at: "NULL::bigint",
    cancel_at: "NULL::bigint",
    error: "NULL::text",
    error_code: "NULL::text",
    error_at: "NULL::bigint",
  };
  const revive = sql.statement(
    "revive",
    `WITH ${NOW}, ${BRIEFLY}, target AS MATERIALIZED (
       SELECT ctid AS place, id, key, key_scope FROM ${wanted("archive")}
         AND state IN ('dead', 'cancelled') FOR UPDATE SKIP LOCKED
     ), ${staleKeys(s, "SELECT key FROM target WHERE key_scope = 'live'")}, taken AS (
       INSERT INTO ${s}.keys (key, job, scope, until) SELECT key, id, 'live', NULL FROM target WHERE key_scope = 'live'
       ON CONFLICT (key) DO UPDATE SET job = excluded.job, scope = excluded.scope, until = excluded.until
       WHERE keys.job = excluded.job OR EXISTS (SELECT FROM stale o WHERE o.key = keys.key AND ${isStale("keys", "o")}) RETURNING job
     ), gone AS (
       DELETE FROM ${s}.archive WHERE ctid = ANY (ARRAY(
         SELECT place FROM target WHERE key_scope IS NULL OR key_scope <> 'live' OR id = ANY (ARRAY(SELECT job FROM taken)))) RETURNING *
     ), kept AS (
       INSERT INTO ${s}.live (${COMMON.join(", ")}, due_at)
       SELECT ${COMMON.map((column) => fresh[column] ?? `g.${column}`).join(", ")}, (SELECT now FROM t) FROM gone g
       RETURNING id, queue, type, state, priority
     ), laned AS (
       INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
       SELECT queue, priority, false, now FROM kept, t
       ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at
     ), counted AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, state, -1, false FROM gone, t UNION ALL SELECT now, queue, type, state, 1, false FROM kept, t
     )
     SELECT id::text, 'retried' FROM kept UNION ALL SELECT id::text, 'key-held' FROM target WHERE key_scope = 'live' AND NOT EXISTS (SELECT 1 FROM taken)`,
  );
  const remove = sql.statement(
    "remove",
    `WITH ${NOW}, ${BRIEFLY}, target AS MATERIALIZED (
       SELECT ctid AS place, id::text, state FROM ${wanted("live")} FOR UPDATE SKIP LOCKED
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT place FROM target WHERE state IN ${WAITING}))
       RETURNING id, seq, queue, type, state, key, tags
     ), ended AS (
       DELETE FROM ${s}.archive WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${wanted("archive")} FOR UPDATE SKIP LOCKED))
       RETURNING id, seq, queue, type, state, key, tags
     ), removed AS (SELECT * FROM gone UNION ALL SELECT * FROM ended),
     ${moves.deleteBeside("removed", "all keys")}
     SELECT id::text, 'removed' FROM removed UNION ALL SELECT id, 'leased' FROM target WHERE state IN ${LEASED}`,
  );

  const there = sql.statement(
    "there",
    `SELECT id::text FROM ${s}.live WHERE id = ANY ($1::uuid[]) AND ${within("$2", "$3")}
     UNION ALL SELECT id::text FROM ${s}.archive WHERE id = ANY ($1::uuid[]) AND ${within("$2", "$3")}`,
  );

  return {
    cancel: (runner, ids, { user = null, states = null }, now) =>
      answersOf<CancelResult>(ids, {
        ask: (open) => runner.run(cancel, [now, open, user, states]),
        look: (open) => runner.run(there, [open, user, states]),
      }),
    retry: (runner, ids, { user = null, states = null }, now) =>
      answersOf<RetryResult>(ids, {
        ask: (open) => runner.run(hurry, [now, open, user, states]),
        // One by one: of several that want the same key, one gets it.
        askEach: (id) => runner.run(revive, [now, [id], user, states]),
        look: (open) => runner.run(there, [open, user, states]),
      }),
    remove: (runner, ids, { user = null, states = null }) =>
      answersOf<RemoveResult>(ids, {
        ask: (open) => runner.run(remove, [null, open, user, states]),
        look: (open) => runner.run(there, [open, user, states]),
      }),
  };
}
