import { LAST_INSTANT_MS, LIMITS } from "../../../defaults.js";
import { PERIOD_SEPARATOR, USER_SEPARATOR } from "../../../job/unique-key.js";
import { BATCH, placeholderOf } from "./insert-functions.js";
import { DURATION } from "../jobs/archive-sql.js";
import { FINISHED, type SchemaSettings } from "./schema.js";

/** Names of a calendar period are shorter than this. */
const PERIOD_LENGTH = 50;
const MAX_SETTINGS_BYTES = 1_000;
const MAX_KEY_LENGTH = LIMITS.userLength + LIMITS.keyLength + PERIOD_LENGTH;

/**
 * The signatures of the functions. They are granted to no role: the functions that enqueue call them with their owner's
 * privileges.
 */
export function checkSignatures(settings: SchemaSettings): string[] {
  const { schema: s } = settings;
  return [`${s}.is_too_deep(text)`, `${s}.check_jobs(${BATCH.join(", ")})`, settingsCheck(settings)];
}

/** The signature of the function that checks settings. */
export function settingsCheck({ schema: s }: SchemaSettings): string {
  return `${s}.check_settings(text[])`;
}

/** Characters that names must not contain, as a regular expression. */
export const CONTROLS = "[\\u0001-\\u001f\\u007f]";

/** Whether JSON contains the character NUL. */
export function holdsNul(json: string): string {
  return `(pg_catalog.strpos(${json}, '\\u0000') > 0 AND ${json} ~ '(^|[^\\\\])(\\\\\\\\)*\\\\u0000')`;
}

/**
 * SQL of the functions that repeat the checks of the client for the role enqueue, so that every stored job is valid.
 */
export function checkFunctions({ schema: s }: SchemaSettings): string {
  const $ = placeholderOf;
  const [ofUser, inPeriod] = [USER_SEPARATOR, PERIOD_SEPARATOR].map((sign) => `pg_catalog.chr(${sign.charCodeAt(0)})`);
  const refuse = (message: string): string => `RAISE EXCEPTION '${message}' USING ERRCODE = '22023';`;
  const outside = (column: string, min: number, max: number): string =>
    `(${min} > ANY (${column}) OR ${max} < ANY (${column}))`;
  const given = (column: string): string => `array_remove(${column}, NULL)`;
  const names = (field: string, column: string, maxLength: number): string =>
    `SELECT '${field}', u.v, ${maxLength} FROM pg_catalog.unnest(${column}) AS u (v)`;
  return `CREATE OR REPLACE FUNCTION ${s}.is_too_deep(input text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  brackets text;
BEGIN
  -- Most inputs have fewer arrays and objects than that.
  IF pg_catalog.length(input) - pg_catalog.length(pg_catalog.translate(input, '[{', '')) <= ${LIMITS.payloadDepth} THEN RETURN false; END IF;
  brackets := pg_catalog.translate(pg_catalog.regexp_replace(input, '"([^"\\\\]|\\\\.)*"|[^][{}"]+', '', 'g'), '{}', '[]');
  -- Removes the innermost level.
  FOR level IN 1..${LIMITS.payloadDepth} LOOP
    brackets := pg_catalog.replace(brackets, '[]', '');
    IF brackets = '' THEN RETURN false; END IF;
  END LOOP;
  RETURN true;
END $function$;
CREATE OR REPLACE FUNCTION ${s}.check_settings(settings text[]) RETURNS void
LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $function$
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.unnest(settings) AS u (v) WHERE u.v IS NOT NULL AND CASE
    WHEN pg_catalog.octet_length(u.v) > ${MAX_SETTINGS_BYTES} OR pg_catalog.json_typeof(u.v::json) <> 'object' THEN true
    ELSE EXISTS (SELECT FROM pg_catalog.json_each(u.v::json) AS f (name, value) WHERE CASE
      WHEN f.name = 'timeoutMs' THEN f.value::text !~ '${DURATION}'
      WHEN f.name = 'keepMs' AND pg_catalog.json_typeof(f.value) = 'object' THEN EXISTS (
        SELECT FROM pg_catalog.json_each(f.value) AS k (state, ms) WHERE k.state NOT IN (${FINISHED}) OR k.ms::text !~ '${DURATION}')
      ELSE true END) END) THEN
    ${refuse("settings must be a JSON object with timeoutMs and keepMs in milliseconds")}
  END IF;
END $function$;
CREATE OR REPLACE FUNCTION ${s}.check_jobs(${BATCH.join(", ")}) RETURNS void
LANGUAGE plpgsql STABLE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  field text; given text; max_length integer; all_inputs text;
BEGIN
  IF pg_catalog.cardinality(${$("input")}) IS DISTINCT FROM pg_catalog.cardinality(${$("id")}) OR pg_catalog.array_position(${$("input")}, NULL) IS NOT NULL THEN
    ${refuse("every job must have an input")}
  END IF;
  SELECT n.* FROM (
    ${names("type", $("type"), LIMITS.typeLength)}
    UNION ALL ${names("queue", $("queue"), LIMITS.queueLength)}
    UNION ALL ${names("user", $("user"), LIMITS.userLength)}
    -- Keys with an empty user belong to schedules.
    UNION ALL SELECT 'key', CASE WHEN pg_catalog.left(u.v, 1) <> ${ofUser} THEN pg_catalog.translate(u.v, ${ofUser} || ${inPeriod}, '') ELSE '' END, ${MAX_KEY_LENGTH}
      FROM pg_catalog.unnest(${$("key")}) AS u (v) WHERE u.v IS NOT NULL
    UNION ALL SELECT 'tags', coalesce(g.tag, ''), ${LIMITS.tagLength}
      FROM pg_catalog.unnest(${$("tags")}) AS u (v) CROSS JOIN LATERAL pg_catalog.json_array_elements_text(u.v::json) AS g (tag)
  ) n (field, given, max_length)
  WHERE n.given = '' OR pg_catalog.length(n.given) > n.max_length OR n.given ~ '${CONTROLS}' LIMIT 1 INTO field, given, max_length;
  IF FOUND THEN
    RAISE EXCEPTION '% is empty, longer than % characters, or contains control characters', field, max_length USING ERRCODE = '22023';
  END IF;
  IF '*' = ANY (${$("queue")}) THEN
    ${refuse("queue: * is not a valid queue name")}
  ELSIF ${outside($("maxAttempts"), 1, LIMITS.maxAttempts)} THEN
    ${refuse(`max_attempts is not between 1 and ${LIMITS.maxAttempts}`)}
  ELSIF ${outside($("runAt"), -LAST_INSTANT_MS, LAST_INSTANT_MS)} OR ${outside($("expiresAt"), -LAST_INSTANT_MS, LAST_INSTANT_MS)} THEN
    ${refuse("run_at and expires_at must be in the range of a JavaScript Date")}
  ELSIF ${outside($("delayMs"), 0, LIMITS.durationMs)} OR ${outside($("periodMs"), 0, 2 * LIMITS.durationMs)} THEN
    ${refuse("delay and period must be between 0 and ten years")}
  ELSIF ${LAST_INSTANT_MS - LIMITS.durationMs} < ANY (${$("runAt")}) AND 0 < ANY (${$("delayMs")}) THEN
    ${refuse("run_at plus delay must be in the range of a JavaScript Date")}
  ELSIF NOT ${given($("scope"))} <@ ARRAY['waiting', 'live', 'period', 'ever'] THEN
    ${refuse("the scope of a unique key must be waiting, live, period or ever")}
  ELSIF pg_catalog.cardinality(${given($("schedule"))}) > 0 OR pg_catalog.cardinality(${given($("slot"))}) > 0 THEN
    ${refuse("only the role work may enqueue jobs of schedules")}
  END IF;
  -- Single values are checked only if any can be invalid.
  IF pg_catalog.cardinality(${given($("tags"))}) > 0 THEN
    IF EXISTS (SELECT FROM pg_catalog.unnest(${$("tags")}) AS u (v) WHERE pg_catalog.json_array_length(u.v::json) > ${LIMITS.tags}) THEN
      ${refuse(`a job has more than ${LIMITS.tags} tags`)}
    END IF;
  END IF;
  IF pg_catalog.octet_length(pg_catalog.array_to_string(${$("trace")}, '')) > ${LIMITS.traceBytes / 4} THEN
    IF EXISTS (SELECT FROM pg_catalog.unnest(${$("trace")}) AS u (v) WHERE pg_catalog.octet_length(pg_catalog.convert_to(u.v, 'UTF8')) > ${LIMITS.traceBytes}) THEN
      ${refuse(`a trace exceeds ${LIMITS.traceBytes} bytes`)}
    END IF;
  END IF;
  all_inputs := pg_catalog.array_to_string(${$("input")}, ' ');
  IF pg_catalog.strpos(all_inputs, '\\u0000') > 0 THEN
    IF EXISTS (SELECT FROM pg_catalog.unnest(${$("input")}) AS u (v) WHERE ${holdsNul("u.v")}) THEN
      ${refuse("input contains \\u0000, which PostgreSQL cannot store")}
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
