import { eventTopic, jobTopic, TIES } from "../../../job/stored-step.js";
import type { Row, Runner, Statement } from "../connection/db.js";
import { LEASED, NOW, UUID, type Sql } from "../connection/sql.js";
import { END_OF_JOB, MISSING } from "./wake-notes.js";

/** Ends the waits of notes (see wake-notes.ts), and wakes jobs. All of them return how many jobs were woken. */
export interface WakeOperations {
  /**
   * Ends the waits of these notes, which have just been committed. A job whose row an open transaction has locked is left to `sweep`.
   */
  follow(runner: Runner, notes: readonly string[], now: number | null): Promise<number>;
  /** The same for the oldest notes, of all processes. */
  sweep(runner: Runner, now: number | null): Promise<number>;
  /** Ends up to `limit` waits without a note whose event or job has ended, by reading on from where the last call stopped. */
  repair(runner: Runner, limit: number, now: number | null): Promise<number>;
}

// Waits that one statement ends, and notes that it reads.
const MAX_WAITS = 5_000;
const MAX_NOTES = 500;
const MAX_ROUNDS = 50;
// Another session that looks after a note, or changes a job, is done after a few milliseconds.
const PAUSES_MS = [0, 2, 5, 10, 20, 40] as const;

/**
 * Two statements, each with a commit of its own:
 *
 * - `end`: topics become ended steps, and notes of the sets to look at. Each child of a set has its own row, so children that end at
 *   once do not wait for each other.
 * - `wake`: sets in which no step waits any more, or one has failed that wakes its job, make the job due, or mark it as one that must not
 *   park. Only the later of two commits sees that no step waits; to ask in the first statement would miss the last ones.
 *
 * Rows that another session has locked, or changed since the statement began, are skipped: an update by address does not find
 * those. Their notes stay.
 */
export function wakeOperations(sql: Sql): WakeOperations {
  const { s } = sql;
  const left = `(SELECT k.n FROM ${s}.wakes k WHERE k.n = ANY (ARRAY(SELECT pg_catalog.unnest($2::bigint[]))) EXCEPT ALL SELECT n FROM off)`;
  const endText = (which: string, remaining: string): string => `WITH ${NOW}, note AS MATERIALIZED (
       SELECT n, topic, value, failure FROM ${s}.wakes WHERE ${which} AND topic IS NOT NULL ORDER BY n LIMIT ${MAX_NOTES} FOR UPDATE SKIP LOCKED
     ), seen AS MATERIALIZED (
       SELECT d.address, d.topic FROM (SELECT DISTINCT topic FROM note) o CROSS JOIN LATERAL (
         SELECT w.ctid AS address, w.topic FROM ${s}.steps w WHERE w.topic = o.topic AND w.state = 'waiting' LIMIT ${MAX_WAITS}
       ) d LIMIT ${MAX_WAITS}
     ), target AS MATERIALIZED (
       SELECT ctid AS address, topic FROM ${s}.steps WHERE ctid = ANY (ARRAY(SELECT address FROM seen)) AND state = 'waiting' FOR UPDATE SKIP LOCKED
     ), ended AS (
       UPDATE ${s}.steps w SET state = CASE WHEN e.is_done THEN 'done' ELSE 'failed' END, value = e.value, failure = e.failure, ended_at = (SELECT now FROM t)
       FROM (SELECT DISTINCT ON (topic) topic, value, failure, failure IS NULL AS is_done FROM note ORDER BY topic, n) e
       WHERE w.ctid = ANY (ARRAY(SELECT address FROM target)) AND e.topic = w.topic
       RETURNING w.job, w.name, w.wake = 'failure' AND NOT e.is_done AS failed
     ), sets AS (
       INSERT INTO ${s}.wakes (job, name, failed) SELECT job, name, pg_catalog.bool_or(failed) FROM ended GROUP BY job, name RETURNING n
     ), unfinished AS MATERIALIZED (
       SELECT c.topic FROM (SELECT topic, 1 AS n FROM seen UNION ALL SELECT topic, -1 FROM target) c GROUP BY c.topic HAVING pg_catalog.sum(c.n) > 0
     ), off AS (
       DELETE FROM ${s}.wakes WHERE n = ANY (ARRAY(
         SELECT n FROM note WHERE (SELECT pg_catalog.count(*) FROM seen) < ${MAX_WAITS} AND NOT topic = ANY (ARRAY(SELECT topic FROM unfinished)))) RETURNING n
     )
     SELECT 'set', n::text FROM sets UNION ALL ${remaining}`;
  const wakeText = (which: string, remaining: string): string => `WITH ${NOW}, note AS MATERIALIZED (
       SELECT n, job, name, failed FROM ${s}.wakes WHERE ${which} AND topic IS NULL ORDER BY n LIMIT ${MAX_NOTES} FOR UPDATE SKIP LOCKED
     ), ready AS MATERIALIZED (
       SELECT DISTINCT o.job FROM note o
       WHERE o.failed OR (SELECT 1 FROM ${s}.steps w WHERE w.job = o.job AND w.name = o.name AND w.state = 'waiting' LIMIT 1) IS NULL
     ), target AS MATERIALIZED (
       SELECT ctid AS address, id, state IN ${LEASED} AS is_leased, state = 'pending' AND due_at > greatest(run_at, (SELECT now FROM t)) AS is_parked
       FROM ${s}.live WHERE id = ANY (ARRAY(SELECT job FROM ready)) FOR UPDATE SKIP LOCKED
     ), woken AS (
       UPDATE ${s}.live SET due_at = greatest(run_at, (SELECT now FROM t)), updated_at = (SELECT now FROM t)
       WHERE ctid = ANY (ARRAY(SELECT address FROM target WHERE is_parked)) RETURNING id
     ), marked AS (
       UPDATE ${s}.live SET ties = coalesce(ties, 0) + ${TIES.wake} WHERE ctid = ANY (ARRAY(SELECT address FROM target WHERE is_leased)) RETURNING id
     ), done AS MATERIALIZED (
       SELECT id FROM woken UNION ALL SELECT id FROM marked UNION ALL SELECT id FROM target WHERE NOT is_parked AND NOT is_leased
     ), off AS (
       DELETE FROM ${s}.wakes WHERE n = ANY (ARRAY(
         SELECT o.n FROM note o WHERE NOT o.job = ANY (ARRAY(SELECT job FROM ready)) OR o.job = ANY (ARRAY(SELECT id FROM done))
           OR (SELECT 1 FROM ${s}.live l WHERE l.id = o.job) IS NULL)) RETURNING n
     )
     SELECT 'woken', pg_catalog.count(*)::text FROM woken UNION ALL ${remaining}`;
  const these = "n = ANY (ARRAY(SELECT pg_catalog.unnest($2::bigint[])))";
  const oldest = "n > $2::bigint";
  const remaining = `SELECT 'left', l.n::text FROM ${left} l`;
  const done = "SELECT 'done', pg_catalog.count(*)::text FROM off";
  const endThese = sql.statement("end_waits", endText(these, remaining));
  const wakeThese = sql.statement("wake_jobs", wakeText(these, remaining));
  const endOldest = sql.statement("end_oldest_waits", endText(oldest, done));
  const wakeOldest = sql.statement("wake_oldest_jobs", wakeText(oldest, done));

  // Topics of waiting steps, each found by one index lookup. A reopened step waits for the next run of its handler, although its job
  // has ended.
  const next = (after: string): string =>
    `(SELECT w.topic FROM ${s}.steps w WHERE w.topic > ${after} AND w.state = 'waiting' AND w.topic IS NOT NULL ORDER BY w.topic LIMIT 1)`;
  const isOf = (kind: string): string => `pg_catalog.starts_with(p.topic, '${kind}')`;
  const [event, job] = [eventTopic(""), jobTopic("")];
  const nameIn = (kind: string): string => `pg_catalog.substr(p.topic, ${kind.length + 1})`;
  const walk = sql.statement(
    "repair_waits",
    `WITH RECURSIVE ${NOW}, topics AS (
       SELECT ${next("$2::text")} AS topic, 1 AS place
       UNION ALL SELECT ${next("p.topic")}, p.place + 1 FROM topics p WHERE p.topic IS NOT NULL AND p.place < $3::integer
     ), part AS MATERIALIZED (
       SELECT p.topic, CASE WHEN ${isOf(job)} AND ${nameIn(job)} ~ '${UUID}' THEN ${nameIn(job)}::uuid END AS job FROM topics p WHERE p.topic IS NOT NULL
     ), ends AS MATERIALIZED (
       SELECT p.topic, e.payload AS value, NULL::json AS failure FROM part p JOIN ${s}.events e ON e.name = ${nameIn(event)}
       WHERE ${isOf(event)} AND e.keep_until > (SELECT now FROM t)
       UNION ALL
       SELECT p.topic, ${END_OF_JOB.value}, CASE WHEN x.id IS NULL THEN ${MISSING} ELSE ${END_OF_JOB.failure} END
       FROM part p LEFT JOIN LATERAL (SELECT a.* FROM ${s}.archive a WHERE a.id = p.job) x ON true
       WHERE ${isOf(job)} AND (SELECT 1 FROM ${s}.live l WHERE l.id = p.job) IS NULL
         AND (SELECT 1 FROM ${s}.steps w WHERE w.topic = p.topic AND w.state = 'waiting' AND w.ended_at IS NULL LIMIT 1) IS NOT NULL
     ), notes AS (
       INSERT INTO ${s}.wakes (topic, value, failure) SELECT topic, value, failure FROM ends RETURNING n
     )
     SELECT 'note', n::text FROM notes UNION ALL SELECT 'at', topic FROM topics WHERE place = $3::integer AND topic IS NOT NULL`,
  );
  /** The topic at which the last call of `repair` stopped. */
  let repairedTo = "";

  const numbersOf = (rows: readonly Row[], kind: string): string[] =>
    rows.filter(([is]) => is === kind).map(([, n]) => n as string);
  const sumOf = (rows: readonly Row[], kind: string): number =>
    numbersOf(rows, kind).reduce((sum, n) => sum + Number(n), 0);

  /** Runs a statement until no note is left, or those that are left stay locked. */
  async function untilDone(
    runner: Runner,
    statement: Statement,
    notes: readonly string[],
    now: number | null,
    each: (rows: readonly Row[]) => void,
  ): Promise<void> {
    for (let at = 0; at < notes.length; at += MAX_NOTES) {
      let open = notes.slice(at, at + MAX_NOTES);
      for (let locked = 0; open.length > 0 && locked < PAUSES_MS.length;) {
        if (locked > 0) await pause(PAUSES_MS[locked] ?? 0);
        const rows = await runner.run(statement, [now, open]);
        each(rows);
        const remains = numbersOf(rows, "left");
        // More waits than one statement ends are no reason to pause.
        if (remains.length === open.length && numbersOf(rows, "set").length === 0) locked++;
        open = remains;
      }
    }
  }

  async function follow(runner: Runner, notes: readonly string[], now: number | null): Promise<number> {
    if (notes.length === 0) return 0;
    const sets: string[] = [];
    let woken = 0;
    await untilDone(runner, endThese, notes, now, (rows) => void sets.push(...numbersOf(rows, "set")));
    await untilDone(runner, wakeThese, sets, now, (rows) => void (woken += sumOf(rows, "woken")));
    return woken;
  }

  async function sweep(runner: Runner, now: number | null): Promise<number> {
    let woken = 0;
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const ended = await runner.run(endOldest, [now, 0]);
      const made = await runner.run(wakeOldest, [now, 0]);
      woken += sumOf(made, "woken");
      const isFull = [ended, made].some((rows) => sumOf(rows, "done") >= MAX_NOTES);
      if (!isFull && numbersOf(ended, "set").length < MAX_NOTES) break;
    }
    return woken;
  }

  return {
    follow,
    sweep,
    async repair(runner, limit, now) {
      const rows = await runner.run(walk, [now, repairedTo, limit]);
      repairedTo = numbersOf(rows, "at")[0] ?? "";
      return follow(runner, numbersOf(rows, "note"), now);
    },
  };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}
