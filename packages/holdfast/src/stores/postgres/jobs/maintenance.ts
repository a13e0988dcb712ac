import { EXPIRED_ERROR, type State } from "../../../job/state.js";
import type { ReapedJob, PurgeRequest } from "../../../store.js";
import { ANY_TYPE, BLOCK, MAX_TYPES } from "../../list-plan.js";
import type { Row, Runner } from "../connection/db.js";
import { movesFor } from "./archive-sql.js";
import { NOW, WAITING, type Sql } from "../connection/sql.js";
import { staleParts } from "./stale.js";

export interface UpkeepOperations {
  reapExpiredLeases(runner: Runner, limit: number, now: number | null): Promise<ReapedJob[]>;
  expireOverdue(runner: Runner, limit: number, now: number | null): Promise<ReapedJob[]>;
  purge(runner: Runner, request: PurgeRequest, now: number | null): Promise<number>;
  tryAcquireDuty(runner: Runner, name: string, everyMs: number, now: number | null): Promise<boolean>;
  tidy(runner: Runner, now: number | null): Promise<void>;
  /** Folds some of the changes into the counters. Answers whether there are more. */
  fold(runner: Runner, now: number | null): Promise<boolean>;
}

// Counts are folded once they no longer tell what ended in the last minute.
const FOLD_AFTER_MS = 90_000;
export const LANE_UNUSED_MS = 86_400_000;
// What one statement folds or forgets, so that none is long; and how long one call goes on with them. More may come in a
// minute than one statement takes.
const FOLDED_AT_ONCE = 50_000;
const KEYS_AT_ONCE = 5_000;
const TIDY_MS = 5_000;

export function upkeepOperations(sql: Sql): UpkeepOperations {
  const { s } = sql;
  const moves = movesFor(sql);
  const stale = sql.statement(
    "expire_stale",
    `${staleParts(sql)} SELECT id::text, type, queue, used::integer, goal, NULL::float8, NULL::float8 FROM laid_down
     UNION ALL SELECT NULL, NULL, queue, priority, NULL, due_at::float8, seq::float8 FROM last`,
  );
  const expired = sql.statement(
    "expire_waiting",
    `WITH ${NOW}, gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.live WHERE expires_at <= (SELECT now FROM t) AND state IN ${WAITING}
         ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING *
     ), kept AS (${moves.archive("gone g", {
       state: "'dead'",
       updated_at: "(SELECT now FROM t)",
       error: `'${EXPIRED_ERROR.message}'`,
       error_code: `'${EXPIRED_ERROR.code}'`,
       error_at: "(SELECT now FROM t)",
     })}), freed AS (${moves.free}), counted AS (${moves.count})
     SELECT id::text, type, queue, attempt, 'dead' FROM gone`,
  );
  const purge = sql.statement(
    "purge",
    `WITH ${NOW}, total AS (
       SELECT coalesce(pg_catalog.sum(n), 0) AS n FROM (
         SELECT n FROM ${s}.counts WHERE state = $2 UNION ALL SELECT n FROM ${s}.deltas WHERE state = $2) c
     ), gone AS (
       DELETE FROM ${s}.archive WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.archive WHERE state = $2 AND finished_at < coalesce($3::bigint, (SELECT now FROM t) + 1)
         ORDER BY finished_at, seq LIMIT CASE WHEN $4::bigint IS NULL THEN $5::bigint ELSE least($5::bigint, greatest(0, (SELECT n FROM total) - $4::bigint)) END
         FOR UPDATE SKIP LOCKED)) RETURNING id, seq, queue, type, state, key, tags
     ), ${moves.deleteBeside("gone", "own keys")}
     SELECT pg_catalog.count(*)::float8 FROM gone`,
  );
  // One that lies ahead of us was taken this moment by somebody who read the clock later, or before the clock was set back.
  const turn = sql.statement(
    "tryAcquireDuty",
    `WITH ${NOW} INSERT INTO ${s}.turns (name, at) SELECT $2, now FROM t
     ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE turns.at <= excluded.at - $3::bigint OR turns.at > excluded.at + $3::bigint RETURNING 1`,
  );
  const fold = sql.statement(
    "fold",
    `WITH ${NOW}, old AS (
       DELETE FROM ${s}.deltas WHERE ctid = ANY (ARRAY(
         SELECT ctid FROM ${s}.deltas WHERE at < (SELECT now FROM t) - ${FOLD_AFTER_MS} LIMIT ${FOLDED_AT_ONCE} FOR UPDATE SKIP LOCKED)) RETURNING *
     ), folded AS (
       INSERT INTO ${s}.counts (queue, type, state, n) SELECT queue, type, state, pg_catalog.sum(n) FROM old GROUP BY queue, type, state HAVING pg_catalog.sum(n) <> 0
       ORDER BY queue, type, state
       ON CONFLICT (queue, type, state) DO UPDATE SET n = counts.n + excluded.n
     ), ends AS MATERIALIZED (
       SELECT least((SELECT pg_catalog.min(seq) FROM ${s}.live), (SELECT pg_catalog.min(seq) FROM ${s}.archive)) AS first,
         greatest((SELECT pg_catalog.max(seq) FROM ${s}.live), (SELECT pg_catalog.max(seq) FROM ${s}.archive), -1) AS last
     ), told AS (
       SELECT b.block, o.type, pg_catalog.min(coalesce(o.oldest, o.at)) AS oldest, pg_catalog.max(coalesce(o.newest, o.at)) AS newest
       FROM old o, ends e, pg_catalog.generate_series(greatest(o.first_seq, e.first) / ${BLOCK}, least(o.last_seq, e.last) / ${BLOCK}) AS b (block)
       GROUP BY b.block, o.type
     ), named AS (
       SELECT n.block, n.oldest, n.newest, CASE WHEN EXISTS (SELECT 1 FROM ${s}.ages a WHERE a.block = n.block AND a.type = n.type)
         OR (SELECT pg_catalog.count(*) FROM ${s}.ages a WHERE a.block = n.block) + pg_catalog.row_number() OVER (PARTITION BY n.block ORDER BY n.type) <= ${MAX_TYPES}
         THEN n.type ELSE '${ANY_TYPE}' END AS type
       FROM told n
     ), aged AS (
       INSERT INTO ${s}.ages (block, type, oldest, newest)
       SELECT block, type, pg_catalog.min(oldest), pg_catalog.max(newest) FROM named GROUP BY block, type ORDER BY block, type
       ON CONFLICT (block, type) DO UPDATE SET oldest = least(ages.oldest, excluded.oldest), newest = greatest(ages.newest, excluded.newest)
     )
     SELECT pg_catalog.count(*)::float8 FROM old`,
  );
  const forgetAges = sql.statement(
    "forget_ages",
    `DELETE FROM ${s}.ages WHERE block < least((SELECT pg_catalog.min(seq) FROM ${s}.live), (SELECT pg_catalog.min(seq) FROM ${s}.archive)) / ${BLOCK}`,
  );
  const forgetKeys = sql.statement(
    "forget_keys",
    `WITH ${NOW}, past AS (
       DELETE FROM ${s}.keys WHERE key = ANY (ARRAY(
         SELECT key FROM ${s}.keys WHERE until <= (SELECT now FROM t) LIMIT ${KEYS_AT_ONCE} FOR UPDATE SKIP LOCKED)) RETURNING 1
     )
     SELECT pg_catalog.count(*)::float8 FROM past`,
  );
  // Far ahead of the clock it would never be forgotten. Processes that know it still count on it: so it is not deleted at once.
  const calmLanes = sql.statement(
    "calm_lanes",
    `WITH ${NOW} UPDATE ${s}.lanes SET used_at = (SELECT now FROM t) WHERE used_at > (SELECT now FROM t) + ${LANE_UNUSED_MS}`,
  );
  const pruneLanes = sql.statement(
    "prune_lanes",
    `WITH ${NOW} DELETE FROM ${s}.lanes l WHERE NOT paused AND used_at < (SELECT now FROM t) - ${LANE_UNUSED_MS}
       AND NOT EXISTS (SELECT 1 FROM ${s}.live j WHERE j.queue = l.queue AND j.priority = l.priority)`,
  );

  return {
    async reapExpiredLeases(runner, limit, now) {
      const laidDown: ReapedJob[] = [];
      let from: Row | undefined = [];
      // Each step is a statement of its own, so that claims get in between.
      do {
        const [, , queue, priority, , dueAt, seq]: Row = from;
        const rows = await runner.run(stale, [now, limit - laidDown.length, queue, priority, dueAt, seq]);
        from = rows.find(([id]) => id === null);
        laidDown.push(...rows.filter(([id]) => id !== null).map(readLaidDown));
      } while (from !== undefined && laidDown.length < limit);
      return laidDown;
    },
    expireOverdue: async (runner, limit, now) => (await runner.run(expired, [now, limit])).map(readLaidDown),
    async purge(runner, { state, before, keep, limit }, now) {
      const [row] = await runner.run(purge, [now, state, before, keep, limit]);
      return (row?.[0] as number | undefined) ?? 0;
    },
    tryAcquireDuty: async (runner, name, everyMs, now) =>
      (await runner.run(turn, [now, name, Math.round(everyMs)])).length > 0,
    async fold(runner, now) {
      const [row] = await runner.run(fold, [now]);
      return (row?.[0] as number) >= FOLDED_AT_ONCE;
    },
    async tidy(runner, now) {
      const deadline = performance.now() + TIDY_MS;
      let left = [
        { statement: fold, most: FOLDED_AT_ONCE },
        { statement: forgetKeys, most: KEYS_AT_ONCE },
      ];
      // By turns, so that neither waits for the other to be through.
      do {
        const unfinished: typeof left = [];
        for (const part of left) {
          const [row] = await runner.run(part.statement, [now]);
          if ((row?.[0] as number) >= part.most) unfinished.push(part);
        }
        left = unfinished;
      } while (left.length > 0 && performance.now() < deadline);
      await runner.run(forgetAges, []);
      await runner.run(calmLanes, [now]);
      await runner.run(pruneLanes, [now]);
    },
  };
}

function readLaidDown([id, type, queue, attempt, to]: Row): ReapedJob {
  return {
    id: id as string,
    type: type as string,
    queue: queue as string,
    attempt: attempt as number,
    to: to as State,
  };
}
