import { EXPIRED_ERROR, type State } from "../../../job/state.js";
import type { ReapedJob, PurgeRequest } from "../../../store.js";
import { ANY_TYPE, BLOCK, MAX_TYPES } from "../../list-plan.js";
import type { Row, Runner } from "../connection/db.js";
import { archiveSql } from "./archive-sql.js";
import { NOW, WAITING, type Sql } from "../connection/sql.js";
import { FINISHED } from "../schema/schema.js";
import { reapParts } from "./reap-sql.js";
import { recorded } from "./recording.js";
import { endedNotes, NOTES, readNotes } from "./wake-notes.js";

/** `notes` gets the numbers of notes about waits that have ended. */
export interface MaintenanceOperations {
  reapExpiredLeases(runner: Runner, limit: number, now: number | null, notes: string[]): Promise<ReapedJob[]>;
  expireOverdue(runner: Runner, limit: number, now: number | null, notes: string[]): Promise<ReapedJob[]>;
  purge(runner: Runner, request: PurgeRequest, now: number | null, notes: string[]): Promise<number>;
  purgeDue(runner: Runner, limit: number, now: number | null, notes: string[]): Promise<number>;
  tryAcquireDuty(runner: Runner, name: string, everyMs: number, now: number | null): Promise<boolean>;
  maintain(runner: Runner, now: number | null): Promise<void>;
  /** Rolls some of the changes up into the counters. Resolves to whether there are more. */
  rollUp(runner: Runner, now: number | null): Promise<boolean>;
}

// Changes are rolled up once they are too old for the throughput of the last minute.
const ROLLUP_AFTER_MS = 90_000;
export const LANE_UNUSED_MS = 86_400_000;
// Limits for one statement, so that none takes long, and for one call: more changes may arrive in a minute than one
// statement can process.
const MAX_ROLLED_UP = 50_000;
const MAX_KEYS = 5_000;
const MAX_TAGS = 2_000;
const MAX_STEPS = 2_000;
const MAX_MS = 5_000;

export function maintenanceOperations(sql: Sql): MaintenanceOperations {
  const { s } = sql;
  const archive = archiveSql(sql);
  const stale = sql.statement(
    "reap_expired_leases",
    `${reapParts(sql)} SELECT id::text, type, queue, used::integer, new_state, NULL::float8, NULL::float8 FROM reaped
     UNION ALL SELECT NULL, NULL, queue, priority, NULL, due_at::float8, seq::float8 FROM resume_at
     UNION ALL SELECT NULL, ${NOTES}, NULL, NULL, NULL, NULL, NULL`,
  );
  const expired = sql.statement(
    "expire_overdue",
    `WITH ${NOW}, gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.live WHERE expires_at <= (SELECT now FROM t) AND state IN ${WAITING}
         ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING *
     ), kept AS (${archive.insert("gone g", {
       state: "'dead'",
       updated_at: "(SELECT now FROM t)",
       error: `'${EXPIRED_ERROR.message}'`,
       error_code: `'${EXPIRED_ERROR.code}'`,
       error_at: "(SELECT now FROM t)",
       fingerprint: "NULL::text",
     })}), freed_keys AS (${archive.freeKeys}), ${recorded(sql).of("kept")} deltas AS (${archive.deltas}), ${endedNotes(sql, "kept")}
     SELECT id::text, type, queue, attempt, 'dead' FROM gone UNION ALL SELECT NULL, ${NOTES}, NULL, NULL, NULL`,
  );
  // Jobs without a purge time of their own. Ordered by `purge_at` too, which is NULL: the order of the index.
  const plain = (order: string): string => `${s}.archive WHERE state = $2 AND purge_at IS NULL ${order}`;
  // If jobs with a time of their own exist, the counters are too high, and the others are counted: as many as matter.
  const purge = sql.statement(
    "purge",
    `WITH ${NOW}, total AS MATERIALIZED (
       SELECT coalesce(pg_catalog.sum(n), 0) AS n FROM (
         SELECT n FROM ${s}.counts WHERE state = $2 UNION ALL SELECT n FROM ${s}.deltas WHERE state = $2) c
     ), surplus AS MATERIALIZED (
       SELECT greatest(0, CASE WHEN total.n <= $4::bigint OR (SELECT purge_at FROM ${s}.archive WHERE state = $2 ORDER BY purge_at, finished_at LIMIT 1) IS NULL
         THEN total.n ELSE (SELECT pg_catalog.count(*) FROM (SELECT 1 FROM ${plain("ORDER BY purge_at, finished_at")} LIMIT $4::bigint + $5::bigint) p) END - $4::bigint) AS n
       FROM total
     ), gone AS (
       DELETE FROM ${s}.archive WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${plain("AND finished_at < coalesce($3::bigint, (SELECT now FROM t) + 1)")}
         ORDER BY purge_at, finished_at, seq LIMIT CASE WHEN $4::bigint IS NULL THEN $5::bigint ELSE least($5::bigint, (SELECT n FROM surplus)) END
         FOR UPDATE SKIP LOCKED)) RETURNING id, seq, queue, type, state, key, tags, parent, ties
     ), ${archive.deleteRelated("gone", "own keys")}
     SELECT pg_catalog.count(*)::float8, ${NOTES} FROM gone`,
  );
  // By state, as the index is.
  const purgeDue = sql.statement(
    "purge_due",
    `WITH ${NOW}, gone AS (
       DELETE FROM ${s}.archive WHERE ctid = ANY (ARRAY(
         SELECT d.address FROM pg_catalog.unnest(ARRAY[${FINISHED}]) AS f (state) CROSS JOIN LATERAL (
           SELECT a.ctid AS address, a.purge_at FROM ${s}.archive a WHERE a.state = f.state AND a.purge_at <= (SELECT now FROM t)
           ORDER BY a.purge_at LIMIT $2::bigint FOR UPDATE SKIP LOCKED
         ) d ORDER BY d.purge_at LIMIT $2::bigint)) RETURNING id, seq, queue, type, state, key, tags, parent, ties
     ), ${archive.deleteRelated("gone", "own keys")}
     SELECT pg_catalog.count(*)::float8, ${NOTES} FROM gone`,
  );
  // A time in the future means that another process read the clock later, or that the clock was set back.
  const acquireDuty = sql.statement(
    "acquire_duty",
    `WITH ${NOW} INSERT INTO ${s}.turns (name, at) SELECT $2, now FROM t
     ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE turns.at <= excluded.at - $3::bigint OR turns.at > excluded.at + $3::bigint RETURNING 1`,
  );
  const rollUp = sql.statement(
    "roll_up",
    `WITH ${NOW}, old AS (
       DELETE FROM ${s}.deltas WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.deltas WHERE at < (SELECT now FROM t) - ${ROLLUP_AFTER_MS} LIMIT ${MAX_ROLLED_UP} FOR UPDATE SKIP LOCKED)) RETURNING *
     ), counted AS (
       INSERT INTO ${s}.counts (queue, type, state, n) SELECT queue, type, state, pg_catalog.sum(n) FROM old GROUP BY queue, type, state HAVING pg_catalog.sum(n) <> 0
       ORDER BY queue, type, state
       ON CONFLICT (queue, type, state) DO UPDATE SET n = counts.n + excluded.n
     ), ends AS MATERIALIZED (
       SELECT least((SELECT pg_catalog.min(seq) FROM ${s}.live), (SELECT pg_catalog.min(seq) FROM ${s}.archive)) AS first,
         greatest((SELECT pg_catalog.max(seq) FROM ${s}.live), (SELECT pg_catalog.max(seq) FROM ${s}.archive), -1) AS last
     ), blocks AS (
       SELECT b.block, o.type, pg_catalog.min(coalesce(o.oldest, o.at)) AS oldest, pg_catalog.max(coalesce(o.newest, o.at)) AS newest
       FROM old o, ends e, pg_catalog.generate_series(greatest(o.first_seq, e.first) / ${BLOCK}, least(o.last_seq, e.last) / ${BLOCK}) AS b (block)
       GROUP BY b.block, o.type
     ), named AS (
       SELECT n.block, n.oldest, n.newest, CASE WHEN EXISTS (SELECT 1 FROM ${s}.ages a WHERE a.block = n.block AND a.type = n.type)
         OR (SELECT pg_catalog.count(*) FROM ${s}.ages a WHERE a.block = n.block) + pg_catalog.row_number() OVER (PARTITION BY n.block ORDER BY n.type) <= ${MAX_TYPES}
         THEN n.type ELSE '${ANY_TYPE}' END AS type
       FROM blocks n
     ), aged AS (
       INSERT INTO ${s}.ages (block, type, oldest, newest)
       SELECT block, type, pg_catalog.min(oldest), pg_catalog.max(newest) FROM named GROUP BY block, type ORDER BY block, type
       ON CONFLICT (block, type) DO UPDATE SET oldest = least(ages.oldest, excluded.oldest), newest = greatest(ages.newest, excluded.newest)
     )
     SELECT pg_catalog.count(*)::float8 FROM old`,
  );
  const deleteAges = sql.statement(
    "delete_ages",
    `DELETE FROM ${s}.ages WHERE block < least((SELECT pg_catalog.min(seq) FROM ${s}.live), (SELECT pg_catalog.min(seq) FROM ${s}.archive)) / ${BLOCK}`,
  );
  const deleteExpiredKeys = sql.statement(
    "delete_expired_keys",
    `WITH ${NOW}, past AS (
       DELETE FROM ${s}.keys WHERE key = ANY (ARRAY(
         SELECT key FROM ${s}.keys WHERE until <= (SELECT now FROM t) LIMIT ${MAX_KEYS} FOR UPDATE SKIP LOCKED)) RETURNING 1
     )
     SELECT pg_catalog.count(*)::float8 FROM past`,
  );
  // Processes of the previous version do not delete the entries of children. Scalar subqueries: see `staleKeys`.
  const sweepTags = sql.statement(
    "sweep_tags",
    `WITH part AS MATERIALIZED (
       SELECT tag, seq FROM ${s}.tags WHERE (tag, seq) > ($1::text, $2::bigint) ORDER BY tag, seq LIMIT ${MAX_TAGS}
     ), swept AS (
       DELETE FROM ${s}.tags g USING part WHERE g.tag = part.tag AND g.seq = part.seq
         AND (SELECT 1 FROM ${s}.live l WHERE l.seq = part.seq LIMIT 1) IS NULL
         AND (SELECT 1 FROM ${s}.archive a WHERE a.seq = part.seq LIMIT 1) IS NULL
     )
     SELECT tag, seq::text FROM part OFFSET ${MAX_TAGS - 1}`,
  );
  // Processes of the previous version delete jobs without their steps.
  const sweepSteps = sql.statement(
    "sweep_steps",
    `WITH part AS MATERIALIZED (
       SELECT job FROM ${s}.steps WHERE job > $1::uuid ORDER BY job LIMIT ${MAX_STEPS}
     ), orphans AS MATERIALIZED (
       SELECT d.job FROM (SELECT DISTINCT job FROM part) d WHERE (SELECT 1 FROM ${s}.live l WHERE l.id = d.job) IS NULL
         AND (SELECT 1 FROM ${s}.archive a WHERE a.id = d.job) IS NULL
     ), swept AS (
       DELETE FROM ${s}.steps WHERE job = ANY (ARRAY(SELECT job FROM orphans))
     )
     SELECT job::text FROM part OFFSET ${MAX_STEPS - 1}`,
  );
  // A lane that was used far in the future would never be deleted. It is not deleted now, because processes that know
  // it still rely on it.
  const resetFutureLanes = sql.statement(
    "reset_future_lanes",
    `WITH ${NOW} UPDATE ${s}.lanes SET used_at = (SELECT now FROM t) WHERE used_at > (SELECT now FROM t) + ${LANE_UNUSED_MS}`,
  );
  const pruneLanes = sql.statement(
    "prune_lanes",
    `WITH ${NOW} DELETE FROM ${s}.lanes l WHERE NOT paused AND used_at < (SELECT now FROM t) - ${LANE_UNUSED_MS}
       AND NOT EXISTS (SELECT 1 FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority)`,
  );

  /** Where the next steps of the sweeps start. */
  let sweptTo: Row = SWEEP_START;
  let stepsSweptTo = FIRST_ID;

  return {
    async reapExpiredLeases(runner, limit, now, notes) {
      const reaped: ReapedJob[] = [];
      let from: Row | undefined = [];
      // Each step is a separate statement, so that claims can run in between.
      do {
        const [, , queue, priority, , dueAt, seq]: Row = from;
        const rows = await runner.run(stale, [now, limit - reaped.length, queue, priority, dueAt, seq]);
        notes.push(...notesIn(rows));
        from = rows.find(([id, , queue]) => id === null && queue !== null);
        reaped.push(...rows.filter(([id]) => id !== null).map(readReaped));
      } while (from !== undefined && reaped.length < limit);
      return reaped;
    },
    async expireOverdue(runner, limit, now, notes) {
      const rows = await runner.run(expired, [now, limit]);
      notes.push(...notesIn(rows));
      return rows.filter(([id]) => id !== null).map(readReaped);
    },
    async purge(runner, { state, before, keep, limit }, now, notes) {
      const [row] = await runner.run(purge, [now, state, before, keep, limit]);
      notes.push(...readNotes(row?.[1]));
      return (row?.[0] as number | undefined) ?? 0;
    },
    async purgeDue(runner, limit, now, notes) {
      const [row] = await runner.run(purgeDue, [now, limit]);
      notes.push(...readNotes(row?.[1]));
      return (row?.[0] as number | undefined) ?? 0;
    },
    tryAcquireDuty: async (runner, name, everyMs, now) =>
      (await runner.run(acquireDuty, [now, name, Math.round(everyMs)])).length > 0,
    async rollUp(runner, now) {
      const [row] = await runner.run(rollUp, [now]);
      return (row?.[0] as number) >= MAX_ROLLED_UP;
    },
    async maintain(runner, now) {
      const deadline = performance.now() + MAX_MS;
      let left = [
        { statement: rollUp, maxRows: MAX_ROLLED_UP },
        { statement: deleteExpiredKeys, maxRows: MAX_KEYS },
      ];
      // Alternating, so that neither waits until the other is finished.
      do {
        const unfinished: typeof left = [];
        for (const part of left) {
          const [row] = await runner.run(part.statement, [now]);
          if ((row?.[0] as number) >= part.maxRows) unfinished.push(part);
        }
        left = unfinished;
      } while (left.length > 0 && performance.now() < deadline);
      await runner.run(deleteAges, []);
      sweptTo = (await runner.run(sweepTags, sweptTo))[0] ?? SWEEP_START;
      stepsSweptTo = ((await runner.run(sweepSteps, [stepsSweptTo]))[0]?.[0] as string | undefined) ?? FIRST_ID;
      await runner.run(resetFutureLanes, [now]);
      await runner.run(pruneLanes, [now]);
    },
  };
}

/** The numbers of notes in the row without an id and a queue. */
function notesIn(rows: readonly Row[]): string[] {
  return readNotes(rows.find(([id, , queue]) => id === null && queue === null)?.[1]);
}

// No tag is empty.
const SWEEP_START: Row = ["", "0"];
const FIRST_ID = "00000000-0000-0000-0000-000000000000";

function readReaped([id, type, queue, attempt, to]: Row): ReapedJob {
  return {
    id: id as string,
    type: type as string,
    queue: queue as string,
    attempt: attempt as number,
    to: to as State,
  };
}
