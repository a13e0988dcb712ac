import { DEFAULTS, LIMITS } from "../../../defaults.js";
import { sqlFor } from "../connection/sql.js";
import { emitText } from "../jobs/events.js";
import { CONTROLS, holdsNul } from "./check-functions.js";
import type { SchemaSettings } from "./schema.js";

export function emitSignature({ schema: s }: SchemaSettings): string {
  return `${s}.emit(text, json, interval)`;
}

/**
 * SQL of the function that emits an event, for other languages, triggers and `psql`, and for clients with the role enqueue, which has
 * no privileges on the tables. It returns whether the event is the first of its name. A process that listens ends the waits after
 * the commit.
 */
export function emitFunction({ schema: s, channel, userType }: SchemaSettings): string {
  const values = ["NULL", "ARRAY[emit.event]", "ARRAY[emit.payload::text]", "ARRAY[the_keep]"];
  const text = emitText(sqlFor(s, userType)).replaceAll(/\$(\d)/g, (_, n: string) => values[Number(n) - 1] as string);
  const refuse = (message: string): string => `RAISE EXCEPTION 'emit: ${message}' USING ERRCODE = '22023';`;
  return `CREATE OR REPLACE FUNCTION ${s}.emit(event text, payload json DEFAULT 'null', keep interval DEFAULT '${DEFAULTS.eventKeepMs / 1000} seconds')
RETURNS boolean LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
#variable_conflict use_column
DECLARE
  the_keep bigint := pg_catalog.round(extract(epoch FROM emit.keep) * 1000)::bigint;
  each record; is_first boolean := false;
BEGIN
  IF coalesce(emit.event, '') = '' THEN ${refuse("event must not be empty")}
  ELSIF pg_catalog.length(emit.event) > ${LIMITS.eventNameLength} THEN ${refuse(`event is longer than ${LIMITS.eventNameLength} characters`)}
  ELSIF emit.event ~ '${CONTROLS}' THEN ${refuse("event contains control characters")}
  ELSIF emit.payload IS NULL THEN ${refuse("payload must not be NULL")}
  ELSIF pg_catalog.octet_length(pg_catalog.convert_to(emit.payload::text, 'UTF8')) > ${LIMITS.payloadBytes} THEN
    ${refuse(`payload exceeds ${LIMITS.payloadBytes} bytes of JSON`)}
  ELSIF ${holdsNul("emit.payload::text")} THEN ${refuse("payload contains \\u0000, which PostgreSQL cannot store")}
  ELSIF ${s}.is_too_deep(emit.payload::text) THEN ${refuse(`payload is nested deeper than ${LIMITS.payloadDepth} levels`)}
  ELSIF the_keep IS NULL OR the_keep NOT BETWEEN 0 AND ${LIMITS.eventKeepMs} THEN
    ${refuse(`keep is not between 0 and ${LIMITS.eventKeepMs / 86_400_000} days`)}
  END IF;
  FOR each IN ${text} LOOP
    is_first := is_first OR each.is_first;
  END LOOP;
  PERFORM pg_catalog.pg_notify('${channel}', 'sql wakes');
  RETURN is_first;
END $function$;`;
}
