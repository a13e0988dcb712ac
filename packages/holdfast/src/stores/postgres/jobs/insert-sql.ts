import { LIMITS } from "../../../defaults.js";
import { jsonBytes } from "../../../job/json.js";
import { TIES } from "../../../job/stored-step.js";
import type { NewJob } from "../../../store.js";
import { once, orNull, rowsOf, textArray, type Sql } from "../connection/sql.js";
import { storedScope } from "../../stored-values.js";
import { recorded, type Recording } from "./recording.js";
import { tagEntries } from "./tag-entries.js";

/**
 * Which columns a batch has: `wide` ones also have parents and settings, `tied` ones also have ties. Most jobs have none of them, and
 * their statements do not mention them.
 */
export type Width = "narrow" | "wide" | "tied";
/** How many values a batch has, including the time. */
export const BATCH_VALUES: Readonly<Record<Width, number>> = { narrow: 19, wide: 21, tied: 22 };
/** How many values a single job has, including the time. */
export const SINGLE_VALUES: Readonly<Record<Width, number>> = { narrow: 13, wide: 14, tied: 14 };

/**
 * The SQL of inserts, for the store and for the SQL functions. The inserts fail with {@link FINISHED_MEANWHILE} if the id of a new
 * job belongs to a finished one.
 */
export interface InsertTexts {
  /** Jobs without keys. Returns the ids that are new, comma-separated, or NULL if all are. `lockWait` as below. */
  plain(lockWait: string | null): string;
  /** The same for jobs that are probably all new. It does not look for existing ids; one fails the statement. */
  fast(lockWait: string): string;
  /**
   * The same for one job without tags, schedule, parent or large input, with scalar values instead of arrays: the general
   * statement takes a quarter longer. The values are those of {@link singleOf}.
   */
  single(lockWait: string): string;
  /**
   * Jobs with keys. Returns for each whether it is new, and whether its id already exists. `lockWait` is a part
   * `lock_wait` that sets the lock timeout and has the previous one as `before`; null: the timeout is not changed.
   *
   * If a job's key is free but another transaction has just inserted its id, the key must not stay behind: the statement
   * fails with a division by zero or, without `lockWait`, reports it in the column `lost`.
   */
  keyed(lockWait: string | null): string;
  /**
   * Rewrites a waiting job with the values of a batch of one. The four values after those of the batch are its id, and its
   * previous queue, type and state.
   */
  rewrite: string;
}

/** The error code of the function `refuse_finished`. */
export const FINISHED_MEANWHILE = "HF001";

/**
 * A job that was inserted, claimed and settled after a statement took its snapshot is in neither table for that
 * statement, which would insert it again. A VOLATILE function has its own, newer snapshot. It runs after the insert,
 * because from then on no other transaction can insert the id.
 */
export function refuseFinished(s: string): string {
  return `CREATE OR REPLACE FUNCTION ${s}.refuse_finished(ids uuid[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY INVOKER SET search_path = pg_catalog, pg_temp AS $function$
DECLARE
  known uuid[];
BEGIN
  SELECT pg_catalog.array_agg(a.id) FROM ${s}.archive a WHERE a.id = ANY (ids) INTO known;
  IF known IS NOT NULL THEN
    RAISE EXCEPTION 'enqueue: job % was enqueued and finished concurrently; retry', known[1] USING ERRCODE = '${FINISHED_MEANWHILE}';
  END IF;
  RETURN true;
END $function$;`;
}

/**
 * The keys among `keys` that may be taken from their holder: their period has ended, or their job is deleted. Scalar
 * subqueries instead of EXISTS: for that, a plan that was made while the tables were small may read the whole tables.
 */
export function staleKeys(s: string, keys: string): string {
  return `stale AS MATERIALIZED (
    SELECT k.key, k.job, k.until FROM ${s}.keys k WHERE k.key = ANY (ARRAY(${keys})) AND (k.until <= (SELECT now FROM t)
      OR (k.scope <> 'ever' AND (SELECT 1 FROM ${s}.live l WHERE l.id = k.job) IS NULL
        AND (SELECT 1 FROM ${s}.archive a WHERE a.id = k.job) IS NULL)))`;
}

/**
 * Whether the key is still stale when its row is locked. That may be a newer version of the row, with a job that the
 * statement's snapshot does not contain. So the job is not looked up again; it must be the one that was found to be
 * deleted.
 */
export function isStale(key: string, seen: string): string {
  const sameUntil = `(${key}.until = ${seen}.until OR (${key}.until IS NULL AND ${seen}.until IS NULL))`;
  return `(${key}.until <= (SELECT now FROM t) OR (${key}.job = ${seen}.job AND ${sameUntil}))`;
}

export function insertTexts(sql: Sql, width: Width, recording: Recording = recorded(sql)): InsertTexts {
  const { s, user, hasJobSettings, hasFollowing } = sql;
  const NOW = recording.now;
  const newJobs = { state: "'pending'" };
  const isWide = width !== "narrow";
  /** SQL for wide and tied batches only, and for tied ones only. */
  const wide = (text: string): string => (isWide ? text : "");
  const tied = (text: string): string => (width === "tied" ? text : "");
  const after = (place: number): string => `$${BATCH_VALUES[width] + place}`;
  // A column that has the same value in every row has a single element.
  const first = (place: number, type: string): string => `($${place}::${type}[])[1]`;
  const given = `given AS MATERIALIZED (
    SELECT u.id, coalesce(u.type, ${first(3, "text")}) AS type, coalesce(u.queue, ${first(4, "text")}) AS queue,
      coalesce(u.priority, ${first(5, "smallint")}) AS priority, u.user_id, u.input,
      coalesce(u.input_bytes, ${first(8, "integer")}) AS input_bytes, coalesce(u.max_attempts, ${first(9, "integer")}) AS max_attempts,
      u.expires_at, u.tags, u.schedule, u.slot, u.key, u.key_scope, coalesce(u.period_ms, ${first(18, "bigint")}) AS period_ms, u.trace${wide(", u.parent, u.settings")}${tied(", u.ties")}, u.ordinal,
      t.now, coalesce(u.run_at, t.now) + coalesce(u.delay_ms, ${first(11, "bigint")}) AS due
    FROM ${rowsOf(`$2::uuid[], $3::text[], $4::text[], $5::smallint[], $6::text[], $7::text[], $8::integer[], $9::integer[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[], $14::text[], $15::bigint[], $16::text[], $17::text[], $18::bigint[], $19::text[]${wide(", $20::text[], $21::text[]")}${tied(", $22::smallint[]")}`)}
      WITH ORDINALITY AS u (id, type, queue, priority, user_id, input, input_bytes, max_attempts,
      run_at, delay_ms, expires_at, tags, schedule, slot, key, key_scope, period_ms, trace${wide(", parent, settings")}${tied(", ties")}, ordinal), t)`;
  const ofWide = `SELECT pg_catalog.unnest(${tagEntries("i")}), i.seq, i.id FROM inserted i WHERE i.tags IS NOT NULL OR i.parent IS NOT NULL`;
  // Not `excluded.input`: that needs SELECT on all inputs, which a role that only enqueues need not have.
  const rows = (from: string, { onConflict = "ON CONFLICT (id) DO NOTHING" } = {}): string => `inserted AS (
    INSERT INTO ${s}.live (id, type, queue, priority, state, user_id, input, input_bytes, attempt, max_attempts, losses, releases,
      fence, run_at, due_at, expires_at, created_at, updated_at, key, key_scope, tags, schedule, slot, trace${wide(", parent, settings")}${tied(", ties")})
    SELECT g.id, g.type, g.queue, g.priority, 'pending', g.user_id::${user},
      CASE WHEN g.input_bytes <= ${LIMITS.inlineInputBytes} THEN g.input::json END, g.input_bytes, 0, g.max_attempts, 0, 0,
      0, g.due, g.due, g.expires_at, g.now, g.now, g.key, g.key_scope,
      CASE WHEN g.tags IS NOT NULL THEN ARRAY(SELECT pg_catalog.json_array_elements_text(g.tags::json)) END, g.schedule, g.slot, g.trace
      ${wide(", g.parent::uuid, g.settings::json")}${tied(", g.ties")}
    FROM ${from} g ORDER BY g.ordinal
    ${onConflict} RETURNING id, seq, queue, type, tags${wide(", parent")}
  ), large_inputs AS (
    INSERT INTO ${s}.inputs (job, input)
    SELECT g.id, g.input::json FROM given g
    WHERE g.input_bytes > ${LIMITS.inlineInputBytes} AND g.id = ANY (ARRAY(SELECT id FROM inserted))
    ON CONFLICT (job) DO UPDATE SET input = (SELECT g.input::json FROM given g WHERE g.id = inputs.job)
  ), tags AS (
    INSERT INTO ${s}.tags (tag, seq, job) ${isWide ? ofWide : "SELECT pg_catalog.unnest(tags), seq, id FROM inserted WHERE tags IS NOT NULL"}
  ), ${recording.of("inserted", newJobs)} deltas AS (
    INSERT INTO ${s}.deltas (at, queue, type, state, n, ended, first_seq, last_seq)
    SELECT t.now, queue, type, 'pending', pg_catalog.count(*), false, pg_catalog.min(seq), pg_catalog.max(seq) FROM inserted, t GROUP BY t.now, queue, type
  )`;
  // By `= ANY` and not by a join: a plan that was made while the tables were small would read all of them later. Both
  // tables in one snapshot: a job that is finishing is in exactly one of them. ON CONFLICT alone would miss it once it
  // has left the live table.
  const known = `known AS MATERIALIZED (SELECT id FROM ${s}.archive WHERE id = ANY ($2::uuid[])
    UNION ALL SELECT id FROM ${s}.live WHERE id = ANY ($2::uuid[]))`;
  const isNew = "NOT g.id = ANY (ARRAY(SELECT id FROM known))";
  const lost = "g.id = ANY (ARRAY(SELECT job FROM taken)) AND NOT g.id = ANY (ARRAY(SELECT id FROM inserted))";
  const checked = `${s}.refuse_finished(ARRAY(SELECT id FROM inserted)) AS checked`;
  const plain = (lockWait: string | null, before: string, from: string, written: string): string =>
    `WITH ${lockWait === null ? "" : `${lockWait}, `}${NOW}, ${given}, ${before}
     fresh AS (SELECT g.* FROM ${from}), ${written}
     SELECT CASE WHEN pg_catalog.count(*) < pg_catalog.cardinality($2::uuid[]) THEN coalesce(pg_catalog.string_agg(id::text, ','), '') END AS fresh, ${checked} FROM inserted`;
  return {
    rewrite: `WITH ${NOW}, ${given}, rewritten AS (
       UPDATE ${s}.live SET type = g.type, queue = g.queue, priority = g.priority, state = 'pending', user_id = g.user_id::${user},
         input = CASE WHEN g.input_bytes <= ${LIMITS.inlineInputBytes} THEN g.input::json END, input_bytes = g.input_bytes,
         attempt = 0, max_attempts = g.max_attempts, losses = 0, releases = 0, run_at = g.due, due_at = g.due,
         expires_at = g.expires_at, updated_at = g.now, key_scope = g.key_scope, schedule = g.schedule, slot = g.slot, trace = g.trace,
         ${hasJobSettings ? `parent = ${isWide ? "g.parent::uuid" : "NULL"}, settings = ${isWide ? "g.settings::json" : "NULL"}, progress_data = NULL,` : ""}
         tags = CASE WHEN g.tags IS NOT NULL THEN ARRAY(SELECT pg_catalog.json_array_elements_text(g.tags::json)) END,
         error = NULL, error_code = NULL, error_at = NULL, ${hasFollowing ? "fingerprint = NULL," : ""} claimed_at = NULL, started_at = NULL,
         progress = NULL, progress_note = NULL
       FROM given g WHERE live.id = ${after(1)}::uuid RETURNING live.id, live.seq, live.tags, live.created_at
     ), retaken AS (
       INSERT INTO ${s}.keys (key, job, scope, until)
       SELECT key, ${after(1)}::uuid, key_scope, CASE WHEN key_scope = 'period' THEN now + period_ms END FROM given
       ON CONFLICT (key) DO UPDATE SET job = excluded.job, scope = excluded.scope, until = excluded.until
     ), ${recording.of("(SELECT r.id, g.queue, g.type FROM given g, rewritten r)", newJobs)} deltas AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended, first_seq, last_seq, oldest, newest)
       SELECT now, ${after(2)}::text, ${after(3)}::text, ${after(4)}::text, -1, false, NULL, NULL, NULL, NULL FROM t
       UNION ALL SELECT now, queue, type, 'pending', 1, false, seq, seq, created_at, created_at FROM given, rewritten
     )
     SELECT 1 FROM rewritten`,
    plain: (lockWait) =>
      plain(lockWait, `${known},`, `given g ${lockWait === null ? "" : ", lock_wait"} WHERE ${isNew}`, rows("fresh")),
    fast: (lockWait) => plain(lockWait, "", "given g, lock_wait", rows("fresh", { onConflict: "" })),
    single: (lockWait) => `WITH ${lockWait}, ${NOW}, inserted AS (
       INSERT INTO ${s}.live (id, type, queue, priority, state, user_id, input, input_bytes, attempt, max_attempts, losses, releases,
         fence, run_at, due_at, expires_at, created_at, updated_at, trace${wide(", settings")})
       SELECT $2::uuid, $3::text, $4::text, $5::smallint, 'pending', $6::text::${user}, $7::json, $8::integer, 0, $9::integer, 0, 0,
         0, coalesce($10::bigint, now) + $11::bigint, coalesce($10::bigint, now) + $11::bigint, $12::bigint, now, now, $13::text${wide(", $14::json")}
       FROM t, lock_wait RETURNING id, seq${recording.only(", queue, type")}
     ), ${recording.of("inserted", newJobs)} deltas AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended, first_seq, last_seq)
       SELECT now, $4::text, $3::text, 'pending', 1, false, seq, seq FROM t, inserted
     )
     SELECT NULL AS fresh, ${checked}`,
    // A held key is not touched: a lock on its row would block the end of its job until the caller's transaction ends.
    keyed: (lockWait) => `WITH ${lockWait === null ? "" : `${lockWait}, `}${NOW}, ${given}, ${known},
     fresh AS MATERIALIZED (
       SELECT g.*, CASE WHEN key_scope = 'period' THEN now + period_ms END AS until FROM given g ${lockWait === null ? "" : ", lock_wait"}
       WHERE ${isNew}
     ),
     ${staleKeys(s, "SELECT key FROM fresh")},
     taken_over AS (
       UPDATE ${s}.keys k SET job = f.id, scope = f.key_scope, until = f.until FROM fresh f, stale o
       WHERE k.key = ANY (ARRAY(SELECT key FROM stale)) AND k.key = f.key AND o.key = f.key AND ${isStale("k", "o")} RETURNING k.job
     ), added AS (
       INSERT INTO ${s}.keys (key, job, scope, until) SELECT key, id, key_scope, until FROM fresh ORDER BY key
       ON CONFLICT (key) DO NOTHING RETURNING job
     ), taken AS (SELECT job FROM taken_over UNION ALL SELECT job FROM added),
     mine AS (SELECT f.* FROM fresh f WHERE f.id = ANY (ARRAY(SELECT job FROM taken))),
     ${rows("mine")}
     SELECT g.id::text AS id, g.id = ANY (ARRAY(SELECT id FROM inserted)) AS inserted,
       NOT g.id = ANY (ARRAY(SELECT id FROM fresh)) AS known, ${lockWait === null ? `${lost} AS lost` : `before, 1 / CASE WHEN ${lost} THEN 0 ELSE 1 END`}, c.checked
     FROM given g, (SELECT ${checked}) c ${lockWait === null ? "" : ", lock_wait"}`,
  };
}

export function widthOf(jobs: readonly NewJob[]): Width {
  if (jobs.some(({ awaited }) => awaited === true)) return "tied";
  return jobs.some(({ parent, settings }) => parent !== null || settings !== null) ? "wide" : "narrow";
}

/** The values of a batch, one array for each column. */
export function columnsOf(jobs: readonly NewJob[], now: number | null, width: Width): unknown[] {
  const narrow = [
    now,
    `{${jobs.map((job) => job.id).join(",")}}`,
    once(jobs, (job) => job.type),
    once(jobs, (job) => job.queue),
    once(jobs, (job) => job.priority),
    orNull(jobs, (job) => job.user),
    textArray(jobs.map((job) => job.input)),
    once(jobs, (job) => jsonBytes(job.input)),
    once(jobs, (job) => job.maxAttempts),
    orNull(jobs, (job) => job.runAt),
    once(jobs, (job) => job.delayMs),
    orNull(jobs, (job) => job.expiresAt),
    orNull(jobs, (job) => (job.tags.length === 0 ? null : JSON.stringify(job.tags))),
    orNull(jobs, (job) => job.schedule?.name ?? null),
    orNull(jobs, (job) => job.schedule?.slot ?? null),
    orNull(jobs, (job) => job.unique?.key ?? null),
    orNull(jobs, (job) => (job.unique === null ? null : storedScope(job.unique.scope))),
    once(jobs, (job) => job.unique?.periodMs ?? 0),
    orNull(jobs, (job) => job.trace),
  ];
  if (width === "narrow") return narrow;
  const wide = [...narrow, orNull(jobs, (job) => job.parent), orNull(jobs, (job) => settingsText(job))];
  if (width === "wide") return wide;
  return [...wide, jobs.map(({ awaited }) => (awaited === true ? TIES.awaited : null))];
}

function settingsText({ settings }: NewJob): string | null {
  return settings === null ? null : JSON.stringify(settings);
}

/** The values for `single`; null if it cannot write this job. */
export function singleOf(job: NewJob, now: number | null, width: Width): unknown[] | null {
  const bytes = jsonBytes(job.input);
  const isSimple = job.tags.length === 0 && job.schedule === null && job.parent === null && job.awaited !== true;
  if (!isSimple || bytes > LIMITS.inlineInputBytes) return null;
  const { id, type, queue, priority, user, input, maxAttempts, runAt, delayMs, expiresAt, trace } = job;
  const narrow = [now, id, type, queue, priority, user, input, bytes, maxAttempts, runAt, delayMs, expiresAt, trace];
  return width === "narrow" ? narrow : [...narrow, settingsText(job)];
}
