import { COMMON } from "../schema/schema.js";
import type { Sql } from "../connection/sql.js";

/**
 * Parts of statements that take jobs out of a table. Each expects `t` with the time; the first three also a part `gone`
 * with the rows that left the live table.
 */
export interface Moves {
  /**
   * Adds the rows of `from` to the archive; columns that change are given as SQL over `g`. A job that is there already
   * stays as it ended first: a caller's REPEATABLE READ can enqueue its id again, since it does not see that.
   */
  archive(from: string, changed: Partial<Record<string, string>>): string;
  /** Frees the unique keys that end with their job. */
  free: string;
  /** Counts what left its state, and what it came to, by `kept`. */
  count: string;
  /** Deletes what belongs to the rows of `from`, and counts them out. Only `all keys` frees those that outlive their job. */
  deleteBeside(from: string, keys: "all keys" | "own keys"): string;
}

export function movesFor({ s }: Sql): Moves {
  return {
    archive(from, changed) {
      const values = COMMON.map((column) => changed[column] ?? `g.${column}`);
      return `INSERT INTO ${s}.archive (${COMMON.join(", ")}, output, finished_at)
        SELECT ${values.join(", ")}, ${changed["output"] ?? "NULL::json"}, (SELECT now FROM t) FROM ${from}
        ON CONFLICT (id) DO NOTHING RETURNING id, queue, type, state`;
    },
    free: `DELETE FROM ${s}.keys WHERE scope IN ('live', 'waiting')
      AND key = ANY (ARRAY(SELECT key FROM gone WHERE key IS NOT NULL))
      AND job = ANY (ARRAY(SELECT id FROM gone WHERE key IS NOT NULL))`,
    count: `INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
      SELECT now, queue, type, state, -pg_catalog.count(*), false FROM gone, t GROUP BY now, queue, type, state
      UNION ALL SELECT now, queue, type, state, pg_catalog.count(*), true FROM kept, t GROUP BY now, queue, type, state`,
    deleteBeside(from, keys) {
      const ids = `ARRAY(SELECT id FROM ${from})`;
      return `inputs_off AS (DELETE FROM ${s}.inputs WHERE job = ANY (${ids})),
    attempts_off AS (DELETE FROM ${s}.attempts WHERE job = ANY (${ids})),
    log_off AS (DELETE FROM ${s}.log WHERE job = ANY (${ids})),
    tags_off AS (DELETE FROM ${s}.tags g USING (SELECT pg_catalog.unnest(tags) AS tag, seq FROM ${from} WHERE tags IS NOT NULL) x
      WHERE g.tag = x.tag AND g.seq = x.seq),
    keys_off AS (DELETE FROM ${s}.keys WHERE key = ANY (ARRAY(SELECT key FROM ${from} WHERE key IS NOT NULL))
      AND job = ANY (${ids}) ${keys === "all keys" ? "" : "AND scope IN ('live', 'waiting')"}),
    counted AS (INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
      SELECT now, queue, type, state, -pg_catalog.count(*), false FROM ${from}, t GROUP BY now, queue, type, state)`;
    },
  };
}
