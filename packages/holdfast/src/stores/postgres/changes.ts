import type { CancelAnswer, RemoveAnswer, RetryAnswer, Scope } from "../../store.js";
import type { Runner } from "./db.js";
import { movesFor } from "./moves.js";
import { COMMON } from "./schema.js";
import { LEASED, NOW, WAITING, type Sql } from "./sql.js";

export interface ChangeOperations {
  cancel(runner: Runner, ids: readonly string[], scope: Scope, now: number | null): Promise<CancelAnswer[]>;
  retry(runner: Runner, ids: readonly string[], scope: Scope, now: number | null): Promise<RetryAnswer[]>;
  remove(runner: Runner, ids: readonly string[], scope: Scope): Promise<RemoveAnswer[]>;
}

// A row that changes between the look at it and the lock on it is passed over, and looked at again.
const TRIES = 20;

/** cancel, retry, remove: what people do to jobs. */
export function changeOperations(sql: Sql): ChangeOperations {
  const { s } = sql;
  const moves = movesFor(sql);
  const mine = "($3::text IS NULL OR user_id::text = $3::text)";
  const cancel = sql.statement(
    "cancel",
    `WITH ${NOW}, target AS MATERIALIZED (
       SELECT ctid AS place, state FROM ${s}.live WHERE id = ANY ($2::uuid[]) AND ${mine} ORDER BY id FOR UPDATE
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
     UNION ALL SELECT id::text, 'finished' FROM ${s}.archive WHERE id = ANY ($2::uuid[]) AND ${mine}`,
  );
  const hurry = sql.statement(
    "hurry",
    `WITH ${NOW}, target AS MATERIALIZED (
       SELECT ctid AS place, id::text, state FROM ${s}.live WHERE id = ANY ($2::uuid[]) AND ${mine} ORDER BY id FOR UPDATE
     ), hurried AS (
       UPDATE ${s}.live SET run_at = (SELECT now FROM t), due_at = (SELECT now FROM t), updated_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT place FROM target WHERE state = 'failed')) RETURNING id::text
     )
     SELECT id, 'retried' FROM hurried UNION ALL SELECT id, 'not retryable' FROM target WHERE state <> 'failed'
     UNION ALL SELECT id::text, 'not retryable' FROM ${s}.archive WHERE id = ANY ($2::uuid[]) AND ${mine} AND state = 'completed'`,
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
    `WITH ${NOW}, target AS MATERIALIZED (
       SELECT ctid AS place, id, key, key_scope FROM ${s}.archive
       WHERE id = $2::uuid AND ${mine} AND state IN ('dead', 'cancelled') FOR UPDATE
     ), taken AS (
       INSERT INTO ${s}.keys (key, job, scope, until) SELECT key, id, 'live', NULL FROM target WHERE key_scope = 'live'
       ON CONFLICT (key) DO UPDATE SET job = excluded.job, scope = excluded.scope, until = excluded.until
       WHERE keys.until <= (SELECT now FROM t) OR keys.job = excluded.job RETURNING job
     ), gone AS (
       DELETE FROM ${s}.archive WHERE ctid = ANY (ARRAY(
         SELECT place FROM target WHERE key_scope IS DISTINCT FROM 'live' OR id = ANY (ARRAY(SELECT job FROM taken)))) RETURNING *
     ), kept AS (
       INSERT INTO ${s}.live (${COMMON.join(", ")}, due_at)
       SELECT ${COMMON.map((column) => fresh[column] ?? `g.${column}`).join(", ")}, (SELECT now FROM t) FROM gone g
       RETURNING id, queue, type, state, priority
     ), laned AS (
       INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
       SELECT queue, priority, coalesce((SELECT bool_or(paused) FROM ${s}.lanes l WHERE l.queue = kept.queue), false), now FROM kept, t
       ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at
     ), counted AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, state, -1, false FROM gone, t UNION ALL SELECT now, queue, type, state, 1, false FROM kept, t
     )
     SELECT CASE WHEN EXISTS (SELECT 1 FROM kept) THEN 'retried' ELSE 'key held' END FROM target`,
  );
  const remove = sql.statement(
    "remove",
    `WITH ${NOW}, target AS MATERIALIZED (
       SELECT ctid AS place, id::text, state FROM ${s}.live WHERE id = ANY ($2::uuid[]) AND ${mine} ORDER BY id FOR UPDATE
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT place FROM target WHERE state IN ${WAITING}))
       RETURNING id, seq, queue, type, state, key, tags
     ), ended AS (
       DELETE FROM ${s}.archive WHERE id = ANY ($2::uuid[]) AND ${mine} RETURNING id, seq, queue, type, state, key, tags
     ), removed AS (SELECT * FROM gone UNION ALL SELECT * FROM ended),
     ${moves.deleteBeside("removed", "all keys")}
     SELECT id::text, 'removed' FROM removed UNION ALL SELECT id, 'leased' FROM target WHERE state IN ${LEASED}`,
  );

  /** Asks until each job has an answer or is known to be missing. */
  async function answered<Answer extends string>(
    ids: readonly string[],
    ask: (ids: readonly string[]) => Promise<readonly (readonly unknown[])[]>,
  ): Promise<Map<string, Answer>> {
    const answers = new Map<string, Answer>();
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const open = ids.filter((id) => !answers.has(id));
      if (open.length === 0) break;
      const rows = await ask(open);
      for (const [id, answer] of rows) answers.set(id as string, answer as Answer);
      if (rows.length === 0 && attempt > 0) break;
    }
    return answers;
  }

  return {
    async cancel(runner, ids, { user }, now) {
      const answers = await answered<CancelAnswer>(ids, (open) => runner.run(cancel, [now, open, user ?? null]));
      return ids.map((id) => answers.get(id) ?? "missing");
    },
    async retry(runner, ids, { user }, now) {
      const answers = await answered<RetryAnswer>(ids, (open) => runner.run(hurry, [now, open, user ?? null]));
      for (const id of ids) {
        if (answers.has(id)) continue;
        const [row] = await runner.run(revive, [now, id, user ?? null]);
        if (row !== undefined) answers.set(id, row[0] as RetryAnswer);
      }
      return ids.map((id) => answers.get(id) ?? "missing");
    },
    async remove(runner, ids, { user }) {
      const answers = await answered<RemoveAnswer>(ids, (open) => runner.run(remove, [null, open, user ?? null]));
      return ids.map((id) => answers.get(id) ?? "missing");
    },
  };
}
