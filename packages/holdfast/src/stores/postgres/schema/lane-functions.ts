import { LIMITS } from "../../../defaults.js";
import { CONTROLS } from "./check-functions.js";
import type { SchemaSettings } from "./schema.js";
import { rowsOf } from "../connection/sql.js";

// A lane in use is updated this often, and deleted much later.
export const FRESH_MS = 3_600_000;

/** With the types of its parameters: queues, priorities, how often a used lane is updated, and the lock timeout. */
export function laneSignature({ schema: s }: SchemaSettings): string {
  return `${s}.add_lanes(text[], smallint[], bigint, integer)`;
}

/**
 * SQL of the function with which the role enqueue creates lanes: only valid names, never paused, and with the time of
 * the server.
 */
export function laneFunction(settings: SchemaSettings): string {
  const { schema: s } = settings;
  return `CREATE OR REPLACE FUNCTION ${laneSignature(settings)} RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
#variable_conflict use_column
DECLARE
  the_now bigint := (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint;
BEGIN
  IF pg_catalog.cardinality($1) IS DISTINCT FROM pg_catalog.cardinality($2) OR EXISTS (
    SELECT FROM ${rowsOf("$1, $2")} AS g (queue, priority) WHERE (g.queue NOT IN ('', '*') AND pg_catalog.length(g.queue) <= ${LIMITS.queueLength}
      AND g.queue !~ '${CONTROLS}' AND g.priority BETWEEN -${LIMITS.priority} AND ${LIMITS.priority}) IS NOT TRUE) THEN
    RAISE EXCEPTION 'invalid lane: queue must have 1 to ${LIMITS.queueLength} characters without control characters, and priority must be -${LIMITS.priority} to ${LIMITS.priority}'
      USING ERRCODE = '22023';
  END IF;
  IF $4 IS NOT NULL THEN PERFORM pg_catalog.set_config('lock_timeout', $4::text, true); END IF;
  -- A lane that was updated recently is not touched: its row would stay locked.
  INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
  SELECT g.queue, g.priority, false, the_now FROM ${rowsOf("$1, $2")} AS g (queue, priority)
  WHERE NOT EXISTS (SELECT FROM ${s}.lanes l WHERE l.queue = g.queue AND l.priority = g.priority AND l.used_at >= the_now - greatest($3, ${FRESH_MS}))
  ORDER BY 1, 2 ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at;
END $function$;`;
}
