import { TIES } from "../../../job/stored-step.js";
import type { Statement } from "../connection/db.js";
import { LEASED, NOW, rowsOf, type Sql } from "../connection/sql.js";
import { SHORT_LOCK_WAIT } from "./lock-retry.js";
import { END_OF_JOB, MISSING } from "./wake-notes.js";

/** The columns of a step, in the order of `readStep`. */
const STEP = `name, member, place, kind, state, fence, tries, topic, value::text, failure::text, started_at::float8, ended_at::float8, until::float8`;

export interface StepStatements {
  /** The steps of a job, with its wakes. */
  read: Statement;
  /** Locks the leases of steps and returns, by position: whether cancellation was requested, and the state and topic of the stored step. */
  hold: Statement;
  /** Stores steps whose leases are held. Returns a row for each held lease, and one for each stored step: `readSaved`. */
  save: Statement;
  /** The same in the caller's transaction. */
  saveInside: Statement;
  /** Returns stored steps, by position. */
  stored: Statement;
  /** Locks a lease in the caller's transaction, and returns whether its job is marked as one with steps. */
  lock: Statement;
  /** Marks the job of a lease as one with steps, if its row is not locked. */
  mark: Statement;
  markInside: Statement;
  /** Marks jobs as awaited, if their rows are not locked. */
  awaitJobs: Statement;
  /** Ends waits for events that are kept, and for jobs that have ended. Return the values by position; without a time: it is locked. */
  lookForEvents: Statement;
  lookForJobs: Statement;
  openChildren: Statement;
}

/**
 * A step is stored under a lock on its job's row that a claim cannot take at the same time, and the fence is compared under that
 * lock. So no step of an old lease is committed after a newer claim. Steps of one job do not wait for each other: only the first
 * one, which marks the job, takes a stronger lock.
 *
 * Waits look for their event or job after they are committed, in a statement of their own. A call that emits or ends it commits that,
 * and then looks for waits. The later of the two commits finds the other.
 */
export function stepStatements(sql: Sql): StepStatements {
  const { s } = sql;
  // In subqueries, which hides their lengths from the planner: see leases.ts.
  const arrays = (types: readonly string[], first = 2): string =>
    rowsOf(types.map((type, at) => `(SELECT $${at + first}::${type}[])`).join(", "));
  const key = ["uuid", "integer", "text", "integer"];
  const given = arrays([...key, "integer", "text", "text", "integer", "text", "text", "text", "bigint", "text"]);
  const ofLease = `${s}.live WHERE id = r.id AND fence = r.fence AND state IN ${LEASED}`;
  const held = (isSet: string): string => `r AS MATERIALIZED (SELECT DISTINCT id, fence FROM w WHERE ${isSet}),
     first AS MATERIALIZED (
       SELECT l.* FROM r CROSS JOIN LATERAL (
         SELECT ctid AS address FROM ${ofLease} AND coalesce(ties & ${TIES.steps}, 0) = 0 FOR UPDATE SKIP LOCKED) l
     ), marked AS (
       -- A row that was changed since the statement began is not found by its address: its lease is not held.
       UPDATE ${s}.live SET ties = coalesce(ties, 0) | ${TIES.steps} WHERE ctid = ANY (ARRAY(SELECT address FROM first)) RETURNING id, fence, cancel_at
     ), held AS MATERIALIZED (
       SELECT id, fence, cancel_at FROM marked
       UNION ALL SELECT l.* FROM r CROSS JOIN LATERAL (
         SELECT id, fence, cancel_at FROM ${ofLease} AND (ties & ${TIES.steps}) <> 0 FOR KEY SHARE SKIP LOCKED) l
     )`;
  // A wait that is stored again keeps the time at which it ends, unless it waits for its own retry.
  const save = (lockWait: string, isSet: string): string => `WITH ${NOW}, ${lockWait} w AS MATERIALIZED (
       SELECT * FROM ${given} WITH ORDINALITY AS w (id, fence, name, member, place, kind, state, tries, topic, value, failure, for_ms, wake, ordinal)
     ), ${held(isSet)}, saved AS (
       INSERT INTO ${s}.steps (job, name, member, place, kind, state, fence, tries, topic, wake, started_at, ended_at, until, failure, value)
       SELECT w.id, w.name, w.member, w.place, w.kind, w.state, w.fence, w.tries, w.topic, w.wake, t.now,
         CASE WHEN w.state <> 'waiting' THEN t.now END, t.now + w.for_ms, w.failure::json, w.value::json
       FROM w JOIN held h ON h.id = w.id AND h.fence = w.fence, t
       ON CONFLICT (job, name, member) DO UPDATE SET kind = excluded.kind, state = excluded.state, fence = excluded.fence, tries = excluded.tries,
         topic = excluded.topic, wake = excluded.wake, ended_at = excluded.ended_at, failure = excluded.failure, value = excluded.value,
         until = CASE WHEN excluded.state = 'waiting' AND excluded.kind <> 'run' THEN steps.until ELSE excluded.until END
       WHERE steps.state = 'waiting'
       RETURNING job, name, member, place, started_at, ended_at, until
     )
     -- Matched by the caller: the planner expects few rows, and would compare each with each.
     SELECT id::text, fence, cancel_at IS NOT NULL, NULL::text, NULL::integer, NULL::integer, NULL::float8, NULL::float8, NULL::float8 FROM held
     UNION ALL SELECT job::text, NULL, NULL, name, member, place, started_at::float8, ended_at::float8, until::float8 FROM saved`;
  const ofKeys = `${arrays(["uuid", "text", "integer"])} WITH ORDINALITY AS w (id, name, member, ordinal)`;
  const step = (columns: string): string =>
    `SELECT ${columns} FROM ${s}.steps x WHERE x.job = w.id AND x.name = w.name AND x.member = w.member`;
  /** `ends`: a query of the waits `w` that have ended, with value and failure. The rows of steps are found first: see claim-sql.ts. */
  const look = (ends: string): string => `ends AS MATERIALIZED (${ends}), target AS MATERIALIZED (
       SELECT w.ordinal, l.address FROM ends w CROSS JOIN LATERAL (${step("x.ctid AS address")} AND x.state = 'waiting' FOR UPDATE) l
     ), ended AS (
       UPDATE ${s}.steps x SET state = CASE WHEN w.is_done THEN 'done' ELSE 'failed' END, value = w.value, failure = w.failure, ended_at = (SELECT now FROM t)
       FROM ends w WHERE x.ctid = ANY (ARRAY(SELECT address FROM target)) AND x.job = w.id AND x.name = w.name AND x.member = w.member
       RETURNING w.ordinal
     )`;
  const looked = `SELECT (w.ordinal - 1)::integer, w.value::text, w.failure::text, (SELECT now FROM t)::float8 FROM ends w WHERE w.ordinal = ANY (ARRAY(SELECT ordinal FROM ended))
    UNION ALL SELECT (w.ordinal - 1)::integer, NULL, NULL, NULL FROM target w WHERE NOT w.ordinal = ANY (ARRAY(SELECT ordinal FROM ended))`;
  const waits = `${arrays(["uuid", "text", "integer", "text"])} WITH ORDINALITY AS w (id, name, member, of, ordinal)`;
  const children = `${arrays(["uuid", "text", "integer", "uuid"])} WITH ORDINALITY AS w (id, name, member, child, ordinal)`;
  const lease = `${s}.live WHERE id = $1::uuid AND fence = $2 AND state IN ${LEASED}`;
  const setHasSteps = `UPDATE ${s}.live SET ties = coalesce(ties, 0) | ${TIES.steps}`;
  return {
    read: sql.statement(
      "steps",
      // One statement, so one snapshot: a wake that is counted is a wait that is seen as ended.
      `SELECT ${STEP}, j.wakes FROM (
         SELECT coalesce(ties, 0) / ${TIES.wake} AS wakes FROM ${s}.live WHERE id = $1::uuid
         UNION ALL SELECT coalesce(ties, 0) / ${TIES.wake} FROM ${s}.archive WHERE id = $1::uuid) j
       LEFT JOIN ${s}.steps ON job = $1::uuid ORDER BY place, member`,
    ),
    hold: sql.statement(
      "hold_leases",
      `WITH ${SHORT_LOCK_WAIT}, w AS MATERIALIZED (SELECT * FROM ${arrays(key, 1)} WITH ORDINALITY AS w (id, fence, name, member, ordinal)),
       ${held("(SELECT true FROM lock_wait)")}
       SELECT (w.ordinal - 1)::integer, h.cancel_at IS NOT NULL, x.state, x.topic FROM w JOIN held h ON h.id = w.id AND h.fence = w.fence
       LEFT JOIN LATERAL (${step("x.state, x.topic")}) x ON true`,
    ),
    save: sql.statement("save_steps", save(`${SHORT_LOCK_WAIT},`, "(SELECT true FROM lock_wait)")),
    saveInside: sql.statement("save_step_inside", save("", "true")),
    stored: sql.statement(
      "stored_steps",
      `SELECT (w.ordinal - 1)::integer, x.* FROM ${ofKeys.replaceAll(/\$(\d)/g, (_, n: string) => `$${Number(n) - 1}`)} CROSS JOIN LATERAL (${step(STEP)}) x`,
    ),
    lock: sql.statement("lock_step_lease", `SELECT (ties & ${TIES.steps}) <> 0 FROM ${lease} FOR KEY SHARE`),
    mark: sql.statement(
      "mark_with_steps",
      `${setHasSteps} WHERE ctid = ANY (ARRAY(SELECT ctid FROM ${lease} AND coalesce(ties & ${TIES.steps}, 0) = 0 FOR UPDATE SKIP LOCKED))`,
    ),
    markInside: sql.statement("mark_with_steps_inside", `${setHasSteps} WHERE id = $1::uuid`),
    awaitJobs: sql.statement(
      "await_jobs",
      `UPDATE ${s}.live SET ties = coalesce(ties, 0) | ${TIES.awaited} WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.live WHERE id = ANY (ARRAY(SELECT pg_catalog.unnest($1::uuid[]))) AND coalesce(ties & ${TIES.awaited}, 0) = 0 FOR UPDATE SKIP LOCKED))`,
    ),
    lookForEvents: sql.statement(
      "look_for_events",
      `WITH ${NOW}, ${look(`SELECT w.*, e.payload AS value, NULL::json AS failure, true AS is_done FROM ${waits}
         CROSS JOIN LATERAL (SELECT e.payload FROM ${s}.events e WHERE e.name = w.of AND e.keep_until > (SELECT now FROM t)) e`)}
       ${looked}`,
    ),
    // Neither live nor finished: the job is gone. A live one that could not be marked is locked.
    lookForJobs: sql.statement(
      "look_for_jobs",
      `WITH ${NOW}, c AS MATERIALIZED (
         SELECT w.*, l.id IS NOT NULL AS is_live, coalesce(l.ties & ${TIES.awaited}, 0) = 0 AS is_unmarked FROM ${children}
         LEFT JOIN LATERAL (SELECT l.id, l.ties FROM ${s}.live l WHERE l.id = w.child) l ON true
       ), ${look(`SELECT c.*, ${END_OF_JOB.value} AS value, CASE WHEN x.id IS NULL THEN ${MISSING} ELSE ${END_OF_JOB.failure} END AS failure,
           coalesce(x.state = 'completed', false) AS is_done
         FROM c LEFT JOIN LATERAL (SELECT a.* FROM ${s}.archive a WHERE a.id = c.child) x ON true WHERE NOT c.is_live`)}
       ${looked} UNION ALL SELECT (c.ordinal - 1)::integer, NULL, NULL, NULL FROM c WHERE c.is_live AND c.is_unmarked`,
    ),
    openChildren: sql.statement(
      "open_children",
      `SELECT pg_catalog.substr(topic, 5) FROM ${s}.steps WHERE job = ANY ($1::uuid[]) AND state = 'waiting' AND kind = 'job' LIMIT $2::bigint`,
    ),
  };
}
