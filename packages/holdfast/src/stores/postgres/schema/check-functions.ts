import { LAST_INSTANT_MS, LIMITS } from "../../../defaults.js";
import { IN_PERIOD, OF_USER } from "../../../job/unique-key.js";
import { BATCH, placeOf } from "./insert-functions.js";
import type { SchemaSettings } from "./schema.js";

/** Names of a calendar period are shorter than this. */
const PERIOD_LENGTH = 50;
const LONGEST_KEY = LIMITS.userLength + LIMITS.keyLength + PERIOD_LENGTH;

/** With the types of their parameters. Nobody is granted them: the functions that enqueue call them, with their owner's rights. */
export function checkSignatures({ schema: s }: SchemaSettings): string[] {
  return [`${s}.is_too_deep(text)`, `${s}.check_jobs(${BATCH.join(", ")})`];
}

/** What no name contains, as a regular expression. */
export const CONTROLS = "[\\u0001-\\u001f\\u007f]";

/** True if JSON holds the character NUL. */
export function holdsNul(json: string): string {
  return `(pg_catalog.strpos(${json}, '\\u0000') > 0 AND ${json} ~ '(^|[^\\\\])(\\\\\\\\)*\\\\u0000')`;
}

/**
 * SQL that makes the functions by which those who may only enqueue are refused what the client refuses: workers, lists and the
 * API meet no job that no client could have made.
 */
export function checkFunctions({ schema: s }: SchemaSettings): string {
  const $ = placeOf;
  const [ofUser, inPeriod] = [OF_USER, IN_PERIOD].map((sign) => `pg_catalog.chr(${sign.charCodeAt(0)})`);
  const refuse = (message: string): string => `RAISE EXCEPTION '${message}' USING ERRCODE = '22023';`;
  const beyond = (column: string, least: number, most: number): string =>
    `(${least} > ANY (${column}) OR ${most} < ANY (${column}))`;
  const given = (column: string): string => `array_remove(${column}, NULL)`;
  const names = (field: string, column: string, longest: number): string =>
    `SELECT '${field}', u.v, ${longest} FROM pg_catalog.unnest(${column}) AS u (v)`;
  return `CREATE OR REPLACE FUNCTION ${s}.is_too_deep(input text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  brackets text;
BEGIN
  -- Few have as many lists and objects at all.
  IF pg_catalog.length(input) - pg_catalog.length(pg_catalog.translate(input, '[{', '')) <= ${LIMITS.payloadDepth} THEN RETURN false; END IF;
  brackets := pg_catalog.translate(pg_catalog.regexp_replace(input, '"([^"\\\\]|\\\\.)*"|[^][{}"]+', '', 'g'), '{}', '[]');
  -- Each time the innermost go.
  FOR level IN 1..${LIMITS.payloadDepth} LOOP
    brackets := pg_catalog.replace(brackets, '[]', '');
    IF brackets = '' THEN RETURN false; END IF;
  END LOOP;
  RETURN true;
END $function$;
CREATE OR REPLACE FUNCTION ${s}.check_jobs(${BATCH.join(", ")}) RETURNS void
LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  field text; given text; longest integer; all_inputs text;
BEGIN
  IF pg_catalog.cardinality(${$("input")}) IS DISTINCT FROM pg_catalog.cardinality(${$("id")}) OR pg_catalog.array_position(${$("input")}, NULL) IS NOT NULL THEN
    ${refuse("each job has an input")}
  END IF;
  SELECT n.* FROM (
    ${names("type", $("type"), LIMITS.typeLength)}
    UNION ALL ${names("queue", $("queue"), LIMITS.queueLength)}
    UNION ALL ${names("user", $("user"), LIMITS.userLength)}
    -- Keys of a user without a name are those of schedules.
    UNION ALL SELECT 'key', CASE WHEN pg_catalog.left(u.v, 1) <> ${ofUser} THEN pg_catalog.translate(u.v, ${ofUser} || ${inPeriod}, '') ELSE '' END, ${LONGEST_KEY}
      FROM pg_catalog.unnest(${$("key")}) AS u (v) WHERE u.v IS NOT NULL
    UNION ALL SELECT 'tags', coalesce(g.tag, ''), ${LIMITS.tagLength}
      FROM pg_catalog.unnest(${$("tags")}) AS u (v) CROSS JOIN LATERAL pg_catalog.json_array_elements_text(u.v::json) AS g (tag)
  ) n (field, given, longest)
  WHERE n.given = '' OR pg_catalog.length(n.given) > n.longest OR n.given ~ '${CONTROLS}' LIMIT 1 INTO field, given, longest;
  IF FOUND THEN
    RAISE EXCEPTION '% is empty, longer than % characters, or contains control characters', field, longest USING ERRCODE = '22023';
  END IF;
  IF '*' = ANY (${$("queue")}) THEN
    ${refuse("queue: * is not the name of a queue")}
  ELSIF ${beyond($("maxAttempts"), 1, LIMITS.maxAttempts)} THEN
    ${refuse(`max_attempts is not from 1 to ${LIMITS.maxAttempts}`)}
  ELSIF ${beyond($("runAt"), -LAST_INSTANT_MS, LAST_INSTANT_MS)} OR ${beyond($("expiresAt"), -LAST_INSTANT_MS, LAST_INSTANT_MS)} THEN
    ${refuse("run_at and expires_at must be points in time that a date of JavaScript can hold")}
  ELSIF ${beyond($("delayMs"), 0, LIMITS.durationMs)} OR ${beyond($("periodMs"), 0, 2 * LIMITS.durationMs)} THEN
    ${refuse("a delay or a period is longer than ten years, or negative")}
  ELSIF ${LAST_INSTANT_MS - LIMITS.durationMs} < ANY (${$("runAt")}) AND 0 < ANY (${$("delayMs")}) THEN
    ${refuse("run_at with a delay is later than a date of JavaScript can hold")}
  ELSIF NOT ${given($("scope"))} <@ ARRAY['waiting', 'live', 'period', 'forever'] THEN
    ${refuse("the scope of a key is none of waiting, live, period, forever")}
  ELSIF pg_catalog.cardinality(${given($("schedule"))}) > 0 OR pg_catalog.cardinality(${given($("slot"))}) > 0 THEN
    ${refuse("jobs of schedules are made by those who may work")}
  END IF;
  -- Looked at one by one only where there may be something to find.
  IF pg_catalog.cardinality(${given($("tags"))}) > 0 THEN
    IF EXISTS (SELECT FROM pg_catalog.unnest(${$("tags")}) AS u (v) WHERE pg_catalog.json_array_length(u.v::json) > ${LIMITS.tags}) THEN
      ${refuse(`tags: at most ${LIMITS.tags}`)}
    END IF;
  END IF;
  IF pg_catalog.octet_length(pg_catalog.array_to_string(${$("trace")}, '')) > ${LIMITS.traceBytes / 4} THEN
    IF EXISTS (SELECT FROM pg_catalog.unnest(${$("trace")}) AS u (v) WHERE pg_catalog.octet_length(pg_catalog.convert_to(u.v, 'UTF8')) > ${LIMITS.traceBytes}) THEN
      ${refuse(`a trace is more than ${LIMITS.traceBytes} bytes`)}
    END IF;
  END IF;
  all_inputs := pg_catalog.array_to_string(${$("input")}, ' ');
  IF pg_catalog.strpos(all_inputs, '\\u0000') > 0 THEN
    IF EXISTS (SELECT FROM pg_catalog.unnest(${$("input")}) AS u (v) WHERE ${holdsNul("u.v")}) THEN
      ${refuse("input contains \\u0000, which PostgreSQL has no text for")}
    END IF;
  END IF;
  IF pg_catalog.length(all_inputs) > ${2 * LIMITS.payloadDepth} THEN
    IF EXISTS (SELECT FROM pg_catalog.unnest(${$("input")}) AS u (v)
      WHERE pg_catalog.length(u.v) > ${2 * LIMITS.payloadDepth} AND pg_catalog.octet_length(u.v) <= ${LIMITS.payloadBytes} AND ${s}.is_too_deep(u.v)) THEN
      ${refuse(`input is nested deeper than ${LIMITS.payloadDepth} levels`)}
    END IF;
  END IF;
END $function$;`;
}
