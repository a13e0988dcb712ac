import type { CancelResult, ChangeScope, RemoveResult, RetryResult } from "../../../store.js";
import { retryWhileLocked, SHORT_LOCK_WAIT } from "./lock-retry.js";
import type { Row, Runner, Statement } from "../connection/db.js";
import { isStale, staleKeys } from "./insert-sql.js";
import { archiveSql } from "./archive-sql.js";
import { COMMON } from "../schema/schema.js";
import { LEASED, NOW, WAITING, type Sql } from "../connection/sql.js";
import { recorded } from "./recording.js";
import { endedNotes, NOTES, readNotes } from "./wake-notes.js";

export interface ChangeOperations {
  /** `notes` gets the numbers of notes about waits that have ended. */
  cancel(
    runner: Runner,
    ids: readonly string[],
    scope: ChangeScope,
    now: number | null,
    notes: string[],
  ): Promise<CancelResult[]>;
  retry(runner: Runner, ids: readonly string[], scope: ChangeScope, now: number | null): Promise<RetryResult[]>;
  remove(runner: Runner, ids: readonly string[], scope: ChangeScope, notes: string[]): Promise<RemoveResult[]>;
}

type JobTable = "live" | "archive";

/** A scope as a condition on a table of jobs. */
function within(user: string, states: string): string {
  return `(${user}::text IS NULL OR user_id::text = ${user}::text) AND (${states}::text[] IS NULL OR state = ANY (${states}::text[]))`;
}

/**
 * A table and conditions, for FROM: the jobs `$2` in the scope of `$3` and `$4`. Expects a part `lock_wait` that sets the lock
 * timeout.
 */
export function wantedJobs({ s }: Sql, table: JobTable): string {
  return `${s}.${table} WHERE (SELECT true FROM lock_wait) AND id = ANY ($2::uuid[]) AND ${within("$3", "$4")}`;
}

/** Returns the ids that exist among `$1`, in the scope of `$2` and `$3`. */
export function findExisting(sql: Sql): Statement {
  const { s } = sql;
  return sql.statement(
    "existing",
    `SELECT id::text FROM ${s}.live WHERE id = ANY ($1::uuid[]) AND ${within("$2", "$3")}
     UNION ALL SELECT id::text FROM ${s}.archive WHERE id = ANY ($1::uuid[]) AND ${within("$2", "$3")}`,
  );
}

/**
 * cancel, retry, remove. The statements skip rows that other sessions have locked, and rows that changed between being
 * found and being locked; `retryWhileLocked` runs them again for those.
 */
export function changeOperations(sql: Sql): ChangeOperations {
  const { s } = sql;
  const archive = archiveSql(sql);
  const recording = recorded(sql);
  const wanted = (table: JobTable): string => wantedJobs(sql, table);
  const cancel = sql.statement(
    "cancel",
    `WITH ${NOW}, ${SHORT_LOCK_WAIT}, target AS MATERIALIZED (
       SELECT ctid AS address, state FROM ${wanted("live")} FOR UPDATE SKIP LOCKED
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT address FROM target WHERE state IN ${WAITING})) RETURNING *
     ), kept AS (${archive.insert("gone g", {
       state: "'cancelled'",
       cancel_at: "(SELECT now FROM t)",
       updated_at: "(SELECT now FROM t)",
     })}), freed_keys AS (${archive.freeKeys}), ${recording.of("kept")} deltas AS (${archive.deltas}), ${endedNotes(sql, "kept")}, requested AS (
       UPDATE ${s}.live SET cancel_at = coalesce(cancel_at, (SELECT now FROM t)), updated_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT address FROM target WHERE state IN ${LEASED})) RETURNING id
     )
     SELECT id::text, 'cancelled' FROM kept UNION ALL SELECT id::text, 'requested' FROM requested
     UNION ALL SELECT id::text, 'finished' FROM ${wanted("archive")} UNION ALL SELECT NULL, ${NOTES}`,
  );
  const runNow = sql.statement(
    "retry_failed",
    `WITH ${NOW}, ${SHORT_LOCK_WAIT}, target AS MATERIALIZED (
       SELECT ctid AS address, id::text, state FROM ${wanted("live")} FOR UPDATE SKIP LOCKED
     ), rescheduled AS (
       UPDATE ${s}.live SET run_at = (SELECT now FROM t), due_at = (SELECT now FROM t), updated_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT address FROM target WHERE state = 'failed')) RETURNING id::text
     )
     SELECT id, 'retried' FROM rescheduled UNION ALL SELECT id, 'not-retryable' FROM target WHERE state <> 'failed'
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
    claimed_at: "NULL::bigint",
    started_at: "NULL::bigint",
    worker: "NULL::text",
    error: "NULL::text",
    error_code: "NULL::text",
    error_at: "NULL::bigint",
    fingerprint: "NULL::text",
    ties: "g.ties",
  };
  const reopen = sql.statement(
    "retry_finished",
    `WITH ${NOW}, ${SHORT_LOCK_WAIT}, target AS MATERIALIZED (
       SELECT ctid AS address, id, key, key_scope FROM ${wanted("archive")}
         AND state IN ('dead', 'cancelled') FOR UPDATE SKIP LOCKED
     ), ${staleKeys(s, "SELECT key FROM target WHERE key_scope = 'live'")}, taken AS (
       INSERT INTO ${s}.keys (key, job, scope, until) SELECT key, id, 'live', NULL FROM target WHERE key_scope = 'live'
       ON CONFLICT (key) DO UPDATE SET job = excluded.job, scope = excluded.scope, until = excluded.until
       WHERE keys.job = excluded.job OR EXISTS (SELECT FROM stale o WHERE o.key = keys.key AND ${isStale("keys", "o")}) RETURNING job
     ), gone AS (
       DELETE FROM ${s}.archive WHERE ctid = ANY (ARRAY(
         SELECT address FROM target WHERE key_scope IS NULL OR key_scope <> 'live' OR id = ANY (ARRAY(SELECT job FROM taken)))) RETURNING *
     ), kept AS (
       INSERT INTO ${s}.live (${COMMON.join(", ")}, due_at)
       SELECT ${COMMON.map((column) => fresh[column] ?? `g.${column}`).join(", ")}, (SELECT now FROM t) FROM gone g
       RETURNING id, queue, type, state, priority
     ), lanes AS (
       INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
       SELECT queue, priority, false, now FROM kept, t
       ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at
     ), ${recording.of("kept")} deltas AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, state, -1, false FROM gone, t UNION ALL SELECT now, queue, type, state, 1, false FROM kept, t
     )
     SELECT id::text, 'retried' FROM kept UNION ALL SELECT id::text, 'key-held' FROM target WHERE key_scope = 'live' AND NOT EXISTS (SELECT 1 FROM taken)`,
  );
  const remove = sql.statement(
    "remove",
    `WITH ${NOW}, ${SHORT_LOCK_WAIT}, target AS MATERIALIZED (
       SELECT ctid AS address, id::text, state FROM ${wanted("live")} FOR UPDATE SKIP LOCKED
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(SELECT address FROM target WHERE state IN ${WAITING}))
       RETURNING id, seq, queue, type, state, key, tags, parent, ties
     ), ended AS (
       DELETE FROM ${s}.archive WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${wanted("archive")} FOR UPDATE SKIP LOCKED))
       RETURNING id, seq, queue, type, state, key, tags, parent, ties
     ), removed AS (SELECT * FROM gone UNION ALL SELECT * FROM ended),
     ${archive.deleteRelated("removed", "all keys")}
     SELECT id::text, 'removed' FROM removed UNION ALL SELECT id, 'leased' FROM target WHERE state IN ${LEASED}
     UNION ALL SELECT NULL, ${NOTES}`,
  );

  const existing = findExisting(sql);

  return {
    cancel: (runner, ids, { user = null, states = null }, now, notes) =>
      retryWhileLocked<CancelResult>(ids, {
        run: async (open) => takeNotes(await runner.run(cancel, [now, open, user, states]), notes),
        findExisting: (open) => runner.run(existing, [open, user, states]),
      }),
    retry: (runner, ids, { user = null, states = null }, now) =>
      retryWhileLocked<RetryResult>(ids, {
        run: (open) => runner.run(runNow, [now, open, user, states]),
        // One by one: of several jobs with the same key, only one gets it.
        runEach: (id) => runner.run(reopen, [now, [id], user, states]),
        findExisting: (open) => runner.run(existing, [open, user, states]),
      }),
    remove: (runner, ids, { user = null, states = null }, notes) =>
      retryWhileLocked<RemoveResult>(ids, {
        run: async (open) => takeNotes(await runner.run(remove, [null, open, user, states]), notes),
        findExisting: (open) => runner.run(existing, [open, user, states]),
      }),
  };
}

/** The rows of jobs; the numbers in the row without an id are added to `notes`. */
function takeNotes(rows: readonly Row[], notes: string[]): Row[] {
  notes.push(...readNotes(rows.find(([id]) => id === null)?.[1]));
  return rows.filter(([id]) => id !== null);
}
