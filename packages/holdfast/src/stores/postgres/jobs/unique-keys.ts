import type { FreeKeyResult, KeyHolder } from "../../../store.js";
import type { Runner } from "../connection/db.js";
import { NOW, type Sql } from "../connection/sql.js";

export interface KeyOperations {
  holder(runner: Runner, key: string, now: number | null): Promise<KeyHolder | null>;
  free(runner: Runner, key: string, now: number | null): Promise<FreeKeyResult>;
}

// How long to wait for a transaction that is changing the key.
const LOCK_WAIT_MS = 2_000;
// A key that other sessions keep changing is held by one of their jobs.
const TRIES = 5;

/** `keyHolder` and `freeKey`. A key is held until its period ends or its job is deleted; a key of scope `forever` even after. */
export function keyOperations(sql: Sql): KeyOperations {
  const { s } = sql;
  const exists = `(EXISTS (SELECT 1 FROM ${s}.live l WHERE l.id = k.job) OR EXISTS (SELECT 1 FROM ${s}.archive a WHERE a.id = k.job))`;
  const isCurrent = "k.key = $2 AND (k.until IS NULL OR k.until > (SELECT now FROM t))";
  const holder = sql.statement(
    "key_holder",
    `WITH ${NOW} SELECT h.job, h.present FROM (
       SELECT k.job::text AS job, k.scope, ${exists} AS present FROM ${s}.keys k WHERE ${isCurrent}
     ) h WHERE h.present OR h.scope = 'ever'`,
  );
  const free = sql.statement(
    "free_key",
    `WITH ${NOW}, lock_wait AS MATERIALIZED (SELECT pg_catalog.set_config('lock_timeout', '${LOCK_WAIT_MS}', true)),
     held AS MATERIALIZED (
       SELECT k.ctid AS address, k.scope, ${exists} AS present FROM ${s}.keys k
       WHERE (SELECT true FROM lock_wait) AND ${isCurrent} FOR UPDATE OF k
     ), freed AS (
       DELETE FROM ${s}.keys WHERE ctid = ANY (ARRAY(SELECT address FROM held WHERE NOT present AND scope = 'ever')) RETURNING 1
     )
     SELECT present, (SELECT pg_catalog.count(*) FROM freed)::integer FROM held WHERE present OR scope = 'ever'`,
  );

  return {
    async holder(runner, key, now) {
      const [row] = await runner.run(holder, [now, key]);
      return row === undefined ? null : { job: row[0] as string, exists: row[1] as boolean };
    },
    async free(runner, key, now) {
      for (let attempt = 1; attempt <= TRIES; attempt++) {
        const [row] = await runner.run(free, [now, key]);
        if (row === undefined) return "missing";
        const [isPresent, freed] = row as [boolean, number];
        if (isPresent) return "held";
        if (freed > 0) return "freed";
        // The key was taken between being found and being locked.
      }
      return "held";
    },
  };
}
