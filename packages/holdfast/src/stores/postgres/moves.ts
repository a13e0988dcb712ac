import { COMMON } from "./schema.js";
import type { Sql } from "./sql.js";

/**
 * Parts of statements that move jobs from the live table to the archive. Each expects `t` with the time, and a part
 * `gone` with the rows that left the live table.
 */
export interface Moves {
  /** Adds the rows of `from` to the archive; columns that change are given as SQL over `g`. */
  archive(from: string, changed: Partial<Record<string, string>>): string;
  /** Frees the unique keys that end with their job. */
  free: string;
  /** Counts what left its state and what it came to: `kept` must have queue, type, state and was. */
  count: string;
}

export function movesFor({ s }: Sql): Moves {
  return {
    archive(from, changed) {
      const values = COMMON.map((column) => changed[column] ?? `g.${column}`);
      return `INSERT INTO ${s}.archive (${COMMON.join(", ")}, output, finished_at)
        SELECT ${values.join(", ")}, ${changed["output"] ?? "NULL::json"}, (SELECT now FROM t) FROM ${from}
        RETURNING id, queue, type, state`;
    },
    free: `DELETE FROM ${s}.keys WHERE scope IN ('live', 'waiting')
      AND key = ANY (ARRAY(SELECT key FROM gone WHERE key IS NOT NULL))
      AND job = ANY (ARRAY(SELECT id FROM gone WHERE key IS NOT NULL))`,
    count: `INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
      SELECT now, queue, type, state, -count(*), false FROM gone, t GROUP BY now, queue, type, state
      UNION ALL SELECT now, queue, type, state, count(*), true FROM kept, t GROUP BY now, queue, type, state`,
  };
}
