import type { Sql } from "../connection/sql.js";
import { COMMON, COMMON_BEFORE_10, COMMON_BEFORE_15, COMMON_BEFORE_8 } from "../schema/schema.js";
import { tagEntries } from "./tag-entries.js";
import { deletedNotes, ENDED_COLUMNS } from "./wake-notes.js";

/**
 * Parts of statements that move or delete jobs. Each expects `t` with the time. `freeKeys` and `deltas` also expect a part
 * `gone` with the rows that left the live table; `deltas` expects `kept` with the rows that were inserted into the archive.
 */
export interface ArchiveSql {
  /**
   * Inserts the rows of `from` into the archive; columns that change are SQL over `g`. A job that is already there
   * stays as it is: in the caller's REPEATABLE READ transaction, which does not see it, its id can be enqueued again.
   * Returns what `endedNotes` needs, except with `withTies: false`.
   */
  insert(from: string, changed: Partial<Record<string, string>>, options?: { withTies: boolean }): string;
  /** Frees the unique keys that end with their job. */
  freeKeys: string;
  /** Writes the counter changes: out of the states of `gone`, into those of `kept`. */
  deltas: string;
  /**
   * Deletes everything that belongs to the rows of `from`, and counts them out. Only `all keys` frees keys that outlive
   * their job. If jobs may have ties, it also deletes steps, and has a part `notes` with the waits that have ended.
   */
  deleteRelated(from: string, keys: "all keys" | "own keys", options?: { withTies: boolean }): string;
}

export function archiveSql(sql: Sql): ArchiveSql {
  const { s, hasJobSettings, hasSteps } = sql;
  return {
    insert(from, changed, { withTies } = { withTies: hasSteps }) {
      const common = commonOf(sql);
      const values = common.map((column) => changed[column] ?? `g.${column}`);
      const purgeAt = changed["purge_at"] ?? purgeTime(changed["state"] ?? "g.state");
      return `INSERT INTO ${s}.archive (${common.join(", ")}, output, finished_at${hasJobSettings ? ", purge_at" : ""})
        SELECT ${values.join(", ")}, ${changed["output"] ?? "NULL::json"}, (SELECT now FROM t)${hasJobSettings ? `, ${purgeAt}` : ""} FROM ${from}
        ON CONFLICT (id) DO NOTHING RETURNING id, queue, type, state${withTies ? `, ${ENDED_COLUMNS}` : ""}`;
    },
    freeKeys: `DELETE FROM ${s}.keys WHERE scope IN ('live', 'waiting')
      AND key = ANY (ARRAY(SELECT key FROM gone WHERE key IS NOT NULL))
      AND job = ANY (ARRAY(SELECT id FROM gone WHERE key IS NOT NULL))`,
    deltas: `INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
      SELECT now, queue, type, state, -pg_catalog.count(*), false FROM gone, t GROUP BY now, queue, type, state
      UNION ALL SELECT now, queue, type, state, pg_catalog.count(*), true FROM kept, t GROUP BY now, queue, type, state`,
    deleteRelated(from, keys, { withTies } = { withTies: hasSteps }) {
      const ids = `ARRAY(SELECT id FROM ${from})`;
      return `${
        withTies
          ? `deleted_steps AS (DELETE FROM ${s}.steps WHERE job = ANY (ARRAY(SELECT id FROM ${from} WHERE ties IS NOT NULL))),
    ${deletedNotes(sql, from)},`
          : ""
      }
    deleted_inputs AS (DELETE FROM ${s}.inputs WHERE job = ANY (${ids})),
    deleted_attempts AS (DELETE FROM ${s}.attempts WHERE job = ANY (${ids})),
    deleted_log AS (DELETE FROM ${s}.log WHERE job = ANY (${ids})),
    deleted_tags AS (DELETE FROM ${s}.tags g USING (
      SELECT pg_catalog.unnest(${hasJobSettings ? tagEntries("j") : "j.tags"}) AS tag, j.seq FROM ${from} j
        WHERE j.tags IS NOT NULL${hasJobSettings ? " OR j.parent IS NOT NULL" : ""}) x
      WHERE g.tag = x.tag AND g.seq = x.seq),
    freed_keys AS (DELETE FROM ${s}.keys WHERE key = ANY (ARRAY(SELECT key FROM ${from} WHERE key IS NOT NULL))
      AND job = ANY (${ids}) ${keys === "all keys" ? "" : "AND scope IN ('live', 'waiting')"}),
    deltas AS (INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
      SELECT now, queue, type, state, -pg_catalog.count(*), false FROM ${from}, t GROUP BY now, queue, type, state)`;
    },
  };
}

function commonOf({ hasJobSettings, hasFollowing, hasSteps }: Sql): readonly string[] {
  if (hasSteps) return COMMON;
  if (hasFollowing) return COMMON_BEFORE_15;
  return hasJobSettings ? COMMON_BEFORE_10 : COMMON_BEFORE_8;
}

/** A duration in milliseconds, as a regular expression for SQL. */
export const DURATION = "^[0-9]{1,15}$";

/**
 * The purge time of a job `g` that ends now in this state, an SQL expression: by its own settings, NULL for most jobs. A value
 * that is not a duration is ignored: it would fail the outcomes of all jobs of the batch.
 */
export function purgeTime(state: string): string {
  const ms = `pg_catalog.json_extract_path_text(g.settings, 'keepMs', ${state})`;
  return `CASE WHEN g.settings IS NOT NULL THEN CASE WHEN ${ms} ~ '${DURATION}' THEN (SELECT now FROM t) + ${ms}::bigint END END`;
}
