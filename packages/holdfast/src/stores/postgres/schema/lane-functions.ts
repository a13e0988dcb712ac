import { LIMITS } from "../../../defaults.js";
import { CONTROLS } from "./check-functions.js";
import type { SchemaSettings } from "./schema.js";
import { rowsOf } from "../connection/sql.js";

// A lane that is used says so at least this often, and is forgotten much later.
export const FRESH_MS = 3_600_000;

/** With the types of its parameters: queues and priorities, after how long a lane says again that it is used, and how long locks are waited for. */
export function laneSignature({ schema: s }: SchemaSettings): string {
  return `${s}.add_lanes(text[], smallint[], bigint, integer)`;
}

/**
 * SQL that makes the function by which lanes come from those who may only enqueue: with names that a client would send, never
 * paused, and used at the time of the server.
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
    RAISE EXCEPTION 'a lane has a queue of 1 to ${LIMITS.queueLength} characters, none of them a control character, and a priority from -${LIMITS.priority} to ${LIMITS.priority}'
      USING ERRCODE = '22023';
  END IF;
  IF $4 IS NOT NULL THEN PERFORM pg_catalog.set_config('lock_timeout', $4::text, true); END IF;
  -- One that said so is not touched: its row would stay locked.
  INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
  SELECT g.queue, g.priority, false, the_now FROM ${rowsOf("$1, $2")} AS g (queue, priority)
  WHERE NOT EXISTS (SELECT FROM ${s}.lanes l WHERE l.queue = g.queue AND l.priority = g.priority AND l.used_at >= the_now - greatest($3, ${FRESH_MS}))
  ORDER BY 1, 2 ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at;
END $function$;`;
}
