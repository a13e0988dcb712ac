import { DEFAULTS, LAST_INSTANT_MS, LIMITS } from "../../../defaults.js";
import { USER_SEPARATOR } from "../../../job/unique-key.js";
import { checkFunctions, checkSignatures, CONTROLS, holdsNul, settingsCheck } from "./check-functions.js";
import { emitFunction, emitSignature } from "./event-functions.js";
import { insertFunctions, insertSignatures } from "./insert-functions.js";
import { insertTexts, refuseFinished } from "../jobs/insert-sql.js";
import type { Migration, SchemaSettings } from "./schema.js";
import { sqlFor, type Sql } from "../connection/sql.js";
import { reapParts } from "../jobs/reap-sql.js";
import { laneFunction, laneSignature } from "./lane-functions.js";
import { LANE_UNUSED_MS } from "../jobs/maintenance.js";

/**
 * Functions for other languages, triggers and `psql`, and for clients with the role enqueue. They do not use the search
 * path, and only their owner may call them until that is granted. The ones that enqueue run with their owner's
 * privileges, so their callers need none on the tables; the others run with the caller's.
 *
 * Their statements are those of the store. If one of those changes, add a migration that creates the functions again.
 */
export const FUNCTIONS: Migration = {
  version: 2,
  name: "functions for SQL",
  up: (settings) => functions(settings),
  // Undoing migration 8 drops some of them.
  down: (settings) => `DROP FUNCTION IF EXISTS ${every(settings)};`,
};

/**
 * Earlier versions let every role call `refuse_finished`, and enqueueing needed privileges on the tables. Roles that
 * have those keep working.
 */
export const FUNCTIONS_AGAIN: Migration = {
  version: 3,
  name: "functions that only granted roles may call",
  up: (settings) => `${functions(settings)}
DECLARE writer record;
BEGIN
  FOR writer IN SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) a
    WHERE c.oid = '${settings.schema}.live'::regclass AND a.privilege_type = 'INSERT'
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION ${signatures(settings).refuseFinished} TO %s',
      CASE WHEN writer.grantee = 0 THEN 'PUBLIC' ELSE writer.grantee::regrole::text END);
  END LOOP;
END;`,
  down: () => "",
};

/** In earlier versions, the functions of the role enqueue did not check their arguments. */
export const CHECKED_FUNCTIONS: Migration = {
  version: 6,
  name: "functions that check their arguments",
  up: (settings) => functions(settings),
  down: () => "",
};

/** In earlier versions, the time of an enqueue with unique keys grew with the number of keys. */
export const FUNCTIONS_FOR_MANY_KEYS: Migration = {
  version: 14,
  name: "functions for many unique keys",
  up: (settings) => functions(settings),
  down: () => "",
};

/** SQL that creates or replaces every function. */
export function functions(settings: SchemaSettings): string {
  const { schema: s, userType } = settings;
  // Every insert calls refuse_finished, so roles that may write all tables need it.
  return `${refuseFinished(s)}
${checkFunctions(settings)}
${laneFunction(settings)}
${emitFunction(settings)}
${changingFunctions(settings, sqlFor(s, userType))}
REVOKE ALL ON FUNCTION ${every(settings)} FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ${signatures(settings).refuseFinished} TO pg_write_all_data;`;
}

/** SQL that replaces the functions which depend on the columns of migration 8 by ones that work without. */
export function functionsBefore8(settings: SchemaSettings): string {
  const { schema: s, userType } = settings;
  const added = [...insertSignatures(settings, ["wide"]), settingsCheck(settings)];
  return `DROP FUNCTION IF EXISTS ${added.join(", ")};
${changingFunctions(settings, sqlFor(s, userType, 8))}`;
}

/** SQL that replaces the functions which use what migration 10 adds by ones that work without. */
export function functionsBefore10(settings: SchemaSettings): string {
  return changingFunctions(settings, sqlFor(settings.schema, settings.userType, 10));
}

/** SQL that replaces the functions which use what migration 15 adds by ones that work without. */
export function functionsBefore15(settings: SchemaSettings): string {
  return `DROP FUNCTION IF EXISTS ${emitSignature(settings)};
${changingFunctions(settings, sqlFor(settings.schema, settings.userType, 15))}`;
}

function changingFunctions(settings: SchemaSettings, sql: Sql): string {
  return `${enqueue(settings, sql)}
${insertFunctions(sql)}
${reapExpiredLeases(settings, sql)}`;
}

/** The signatures of all functions. */
export function signatures(settings: SchemaSettings): {
  enqueue: string;
  /** For clients with the role enqueue. */
  inserts: string;
  /** Creates lanes for those clients. */
  lanes: string;
  emit: string;
  reapExpiredLeases: string;
  refuseFinished: string;
  /** Called by the other functions. */
  checks: string;
} {
  const { schema: s, userType } = settings;
  return {
    inserts: insertSignatures(settings).join(", "),
    lanes: laneSignature(settings),
    enqueue: `${s}.enqueue(text, json, text, integer, timestamptz, text, ${userType}, integer, timestamptz, text[], uuid, text)`,
    emit: emitSignature(settings),
    reapExpiredLeases: `${s}.expire_stale_jobs(integer)`,
    refuseFinished: `${s}.refuse_finished(uuid[])`,
    checks: checkSignatures(settings).join(", "),
  };
}

function every(settings: SchemaSettings): string {
  return Object.values(signatures(settings)).join(", ");
}

const fixed = (as: "DEFINER" | "INVOKER"): string =>
  `LANGUAGE plpgsql VOLATILE SECURITY ${as} SET search_path = pg_catalog, pg_temp`;
const ms = (time: string): string => `pg_catalog.round(extract(epoch FROM ${time}) * 1000)::bigint`;

/** Replaces the placeholders of a statement by SQL. */
function bind(text: string, values: readonly string[]): string {
  return text.replaceAll(/\$(\d+)/g, (_, number: string) => values[Number(number) - 1] as string);
}

function enqueue(settings: SchemaSettings, sql: Sql): string {
  const { schema: s, channel, userType } = settings;
  const texts = insertTexts(sql, "narrow");
  const one = (value: string): string => `ARRAY[${value}]`;
  const values = [
    "NULL",
    one("the_id"),
    one("enqueue.type"),
    one("the_queue"),
    one("the_priority"),
    one("enqueue.user_id::text"),
    one("enqueue.input::text"),
    one("the_bytes"),
    one("the_attempts"),
    one("the_run_at"),
    one("0"),
    one("the_expiry"),
    one("the_tags"),
    one("NULL"),
    one("NULL"),
    one("the_key"),
    one("CASE WHEN the_key IS NOT NULL THEN 'live' END"),
    one("0"),
    one("the_trace"),
  ];
  // If a name is both a column and a parameter, it means the column; parameters are written as enqueue.…
  return `CREATE OR REPLACE FUNCTION ${s}.enqueue(
  type text, input json DEFAULT '{}', queue text DEFAULT '${DEFAULTS.queue}', priority integer DEFAULT ${DEFAULTS.priority},
  run_at timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, user_id ${userType} DEFAULT NULL,
  max_attempts integer DEFAULT ${DEFAULTS.maxAttempts}, expires_at timestamptz DEFAULT NULL, tags text[] DEFAULT NULL, id uuid DEFAULT NULL,
  trace text DEFAULT NULL
) RETURNS uuid ${fixed("DEFINER")} AS $function$
#variable_conflict use_column
DECLARE
  the_now bigint := ${ms("clock_timestamp()")};
  the_queue text := coalesce(enqueue.queue, '${DEFAULTS.queue}');
  the_priority integer := coalesce(enqueue.priority, ${DEFAULTS.priority});
  the_attempts integer := coalesce(enqueue.max_attempts, ${DEFAULTS.maxAttempts});
  the_bytes integer := pg_catalog.octet_length(pg_catalog.convert_to(enqueue.input::text, 'UTF8'));
  the_id uuid := enqueue.id;
  -- A trace that is too long is dropped: the job is more important.
  the_trace text := CASE WHEN pg_catalog.octet_length(pg_catalog.convert_to(enqueue.trace, 'UTF8')) <= ${LIMITS.traceBytes} THEN enqueue.trace END;
  the_run_at bigint; the_expiry bigint; the_tags text; the_key text; the_holder uuid;
  field text; given text; max_length integer;
  is_new boolean; is_known boolean; is_lost boolean; is_checked boolean;
BEGIN
${checks(s)}
  -- Starts with the time, like every id, so that index pages fill in order.
  the_id := coalesce(the_id, pg_catalog.encode(pg_catalog.set_bit(pg_catalog.set_bit(overlay(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
    PLACING substring(pg_catalog.int8send(the_now) FROM 3) FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid);
  the_key := CASE WHEN enqueue.user_id IS NULL THEN enqueue.unique_key
    ELSE enqueue.user_id::text || pg_catalog.chr(${USER_SEPARATOR.charCodeAt(0)}) || enqueue.unique_key END;
  SELECT pg_catalog.array_to_json(pg_catalog.array_agg(d.tag ORDER BY d.ordinal))::text FROM (
    SELECT g.tag, pg_catalog.min(g.ordinal) AS ordinal FROM pg_catalog.unnest(enqueue.tags) WITH ORDINALITY AS g (tag, ordinal) GROUP BY g.tag) d INTO the_tags;
${lane(settings)}
  IF the_key IS NULL THEN
    ${bind(texts.plain(null), values)} INTO given, is_checked;
    is_new := given IS NULL;
  ELSE
    FOR trial IN 1..20 LOOP
      ${bind(texts.keyed(null), values)} INTO given, is_new, is_known, is_lost, is_checked;
      IF is_lost THEN
        RAISE EXCEPTION 'enqueue: job % was enqueued concurrently with another key; retry', the_id USING ERRCODE = '40001';
      END IF;
      EXIT WHEN is_new OR is_known;
      SELECT k.job FROM ${s}.keys k WHERE k.key = the_key INTO the_holder;
      IF the_holder IS NOT NULL THEN RETURN the_holder; END IF;
      -- The key was freed in between: try again.
    END LOOP;
    IF NOT (is_new OR is_known) THEN
      RAISE EXCEPTION 'enqueue: unique_key % changes hands too often; retry', enqueue.unique_key USING ERRCODE = '40001';
    END IF;
  END IF;
  -- Delivered when the transaction commits.
  IF is_new AND coalesce(the_run_at, 0) <= the_now THEN PERFORM pg_catalog.pg_notify('${channel}', 'sql work'); END IF;
  RETURN the_id;
END $function$;`;
}

/** The checks of the client, so that every stored job is valid. */
const checks = (s: string): string => `  FOR field, given, max_length IN
    VALUES ('type', coalesce(enqueue.type, ''), ${LIMITS.typeLength}), ('queue', the_queue, ${LIMITS.queueLength}),
      ('unique_key', enqueue.unique_key, ${LIMITS.keyLength}), ('user_id', enqueue.user_id::text, ${LIMITS.userLength})
    UNION ALL SELECT 'tags', coalesce(g.tag, ''), ${LIMITS.tagLength} FROM pg_catalog.unnest(enqueue.tags) AS g (tag)
  LOOP
    IF given = '' THEN
      RAISE EXCEPTION 'enqueue: % must not be empty', field USING ERRCODE = '22023';
    ELSIF pg_catalog.length(given) > max_length THEN
      RAISE EXCEPTION 'enqueue: % is % characters long; the limit is %', field, pg_catalog.length(given), max_length USING ERRCODE = '22023';
    ELSIF given ~ '${CONTROLS}' THEN
      RAISE EXCEPTION 'enqueue: % contains control characters', field USING ERRCODE = '22023';
    END IF;
  END LOOP;
  IF pg_catalog.cardinality(enqueue.tags) > ${LIMITS.tags} THEN
    RAISE EXCEPTION 'enqueue: % tags; the limit is ${LIMITS.tags}', pg_catalog.cardinality(enqueue.tags) USING ERRCODE = '22023';
  ELSIF the_priority NOT BETWEEN -${LIMITS.priority} AND ${LIMITS.priority} THEN
    RAISE EXCEPTION 'enqueue: priority % is not between -${LIMITS.priority} and ${LIMITS.priority}', the_priority USING ERRCODE = '22023';
  ELSIF the_attempts NOT BETWEEN 1 AND ${LIMITS.maxAttempts} THEN
    RAISE EXCEPTION 'enqueue: max_attempts % is not between 1 and ${LIMITS.maxAttempts}', the_attempts USING ERRCODE = '22023';
  ELSIF enqueue.input IS NULL THEN
    RAISE EXCEPTION 'enqueue: input must not be NULL' USING ERRCODE = '22023';
  ELSIF the_bytes > ${LIMITS.payloadBytes} THEN
    RAISE EXCEPTION 'enqueue: input is % bytes of JSON; the limit is ${LIMITS.payloadBytes}', the_bytes
      USING ERRCODE = '22023', HINT = 'Store it elsewhere and pass a reference.';
  ELSIF ${holdsNul("enqueue.input::text")} THEN
    RAISE EXCEPTION 'enqueue: input contains \\u0000, which PostgreSQL cannot store' USING ERRCODE = '22023';
  ELSIF NOT (coalesce(pg_catalog.isfinite(enqueue.run_at), true) AND coalesce(pg_catalog.isfinite(enqueue.expires_at), true)) THEN
    RAISE EXCEPTION 'enqueue: run_at and expires_at must be finite' USING ERRCODE = '22023';
  ELSIF the_queue = '*' THEN
    RAISE EXCEPTION 'enqueue: queue: * is not a valid queue name' USING ERRCODE = '22023';
  ELSIF ${s}.is_too_deep(enqueue.input::text) THEN
    RAISE EXCEPTION 'enqueue: input is nested deeper than ${LIMITS.payloadDepth} levels' USING ERRCODE = '22023';
  END IF;
  the_run_at := ${ms("enqueue.run_at")};
  the_expiry := ${ms("enqueue.expires_at")};
  IF pg_catalog.abs(the_run_at) > ${LAST_INSTANT_MS} OR pg_catalog.abs(the_expiry) > ${LAST_INSTANT_MS} THEN
    RAISE EXCEPTION 'enqueue: run_at and expires_at must be in the range of a JavaScript Date' USING ERRCODE = '22023';
  END IF;
  IF the_expiry <= greatest(the_now, the_run_at) THEN
    RAISE EXCEPTION 'enqueue: expires_at must be after run_at and in the future' USING ERRCODE = '22023';
  END IF;`;

/**
 * The caller's transaction writes the lane and locks it until the commit. So an existing lane is only updated if half
 * of the time until its deletion has passed.
 */
function lane({ schema: s }: SchemaSettings): string {
  return `  IF NOT EXISTS (SELECT FROM ${s}.lanes l WHERE l.queue = the_queue AND l.priority = the_priority
    AND l.used_at > the_now - ${LANE_UNUSED_MS / 2}) THEN
    INSERT INTO ${s}.lanes (queue, priority, paused, used_at) VALUES (the_queue, the_priority, false, the_now)
    ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at;
  END IF;`;
}

function reapExpiredLeases({ schema: s, channel }: SchemaSettings, sql: Sql): string {
  const position = ["the_queue", "the_priority", "the_due", "the_seq"];
  const step = bind(reapParts(sql), ["NULL", "(expire_stale_jobs.at_most - reaped_count)", ...position]);
  return `CREATE OR REPLACE FUNCTION ${s}.expire_stale_jobs(at_most integer DEFAULT NULL) RETURNS integer ${fixed("INVOKER")} AS $function$
#variable_conflict use_column
DECLARE
  reaped_count integer := 0; retried_count integer := 0; step_reaped integer; step_retried integer;
  the_queue text; the_priority smallint; the_due bigint; the_seq bigint;
BEGIN
  LOOP
    ${step}
    SELECT d.*, p.* FROM (SELECT pg_catalog.count(*), pg_catalog.count(*) FILTER (WHERE new_state = 'pending') FROM reaped) d
      LEFT JOIN resume_at p ON true INTO step_reaped, step_retried, ${position.join(", ")};
    reaped_count := reaped_count + step_reaped;
    retried_count := retried_count + step_retried;
    EXIT WHEN the_queue IS NULL OR reaped_count >= expire_stale_jobs.at_most;
  END LOOP;
  IF retried_count > 0 THEN PERFORM pg_catalog.pg_notify('${channel}', 'sql work'); END IF;
  IF reaped_count > retried_count THEN PERFORM pg_catalog.pg_notify('${channel}', 'sql finished'); END IF;
  RETURN reaped_count;
END $function$;`;
}
