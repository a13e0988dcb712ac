import { LIMITS } from "../../../defaults.js";
import { InvalidOptionError } from "../../../errors.js";
import { jsonBytes } from "../../../job/json.js";
import { isState, type State } from "../../../job/state.js";
import type { ChangeScope, JobUpdate, UpdateConflict, UpdateResult } from "../../../store.js";
import type { Runner } from "../connection/db.js";
import { LEASED, NOW, orNull, rowsOf, WAITING, type Sql } from "../connection/sql.js";
import { FRESH_MS } from "../schema/lane-functions.js";
import { findExisting, wantedJobs } from "./changes.js";
import { holdsNul, NUL_IN_INPUT } from "./insert.js";
import { retryWhileLocked, SHORT_LOCK_WAIT } from "./lock-retry.js";

/** Changes waiting jobs. Like the other changes, it runs again for jobs that another session has locked. */
export type UpdateOperation = (
  runner: Runner,
  updates: readonly JobUpdate[],
  scope: ChangeScope,
  now: number | null,
) => Promise<UpdateResult[]>;

/**
 * The parts of the statement:
 *
 * - `u`: the updates. NULL means that a value stays, except for `expires_at`.
 * - `target`: the live jobs among them, locked, as they were, each with what contradicts its update; `changed`: those that wait
 *   and have no conflict, with their new values.
 * - `moved`: those that changed their lane. `lanes` gets the new ones, and `deltas` the changes of the counters. Claims find a
 *   lane that gained its first job by a row of `deltas` for pending jobs (live-lanes.ts), so there is one in any case.
 * - The tables of tags and large inputs: rows that stay are not touched, because one statement cannot delete and insert them.
 */
export function updateOperation(sql: Sql): UpdateOperation {
  const { s } = sql;
  const isSmall = `u.input_bytes <= ${LIMITS.inlineInputBytes}`;
  const due = "coalesce(u.run_at, (SELECT now FROM t)) + u.delay_ms";
  const isChanged = "u.id = ANY (ARRAY(SELECT id FROM changed))";
  const existing = findExisting(sql);
  const statement = sql.statement(
    "update",
    `WITH ${NOW}, ${SHORT_LOCK_WAIT}, u AS MATERIALIZED (
       SELECT * FROM ${rowsOf("$2::uuid[], $5::text[], $6::smallint[], $7::text[], $8::integer[], $9::text[], $10::integer[], $11::boolean[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[]")}
         AS u (id, queue, priority, input, input_bytes, tags, max_attempts, sets_expiry, expires_at, run_at, delay_ms, input_type)
     ), locked AS MATERIALIZED (
       SELECT ctid AS address, id, type, state, queue, priority, tags, attempt, expires_at, due_at
       FROM ${wantedJobs(sql, "live")} FOR UPDATE SKIP LOCKED
     ), target AS MATERIALIZED (
       SELECT l.*, CASE WHEN u.input_type <> l.type THEN 'type' WHEN u.max_attempts <= l.attempt THEN 'attempts'
         WHEN (u.sets_expiry OR u.delay_ms IS NOT NULL) AND CASE WHEN u.sets_expiry THEN u.expires_at ELSE l.expires_at END
           <= coalesce(${due}, l.due_at) THEN 'expiry' END AS conflict
       FROM locked l JOIN u ON u.id = l.id
     ), changed AS (
       UPDATE ${s}.live g SET queue = coalesce(u.queue, g.queue), priority = coalesce(u.priority, g.priority),
         input = CASE WHEN u.input IS NULL THEN g.input WHEN ${isSmall} THEN u.input::json END,
         input_bytes = coalesce(u.input_bytes, g.input_bytes),
         tags = CASE WHEN u.tags IS NULL THEN g.tags WHEN u.tags <> '[]' THEN ARRAY(SELECT pg_catalog.json_array_elements_text(u.tags::json)) END,
         max_attempts = coalesce(u.max_attempts, g.max_attempts),
         expires_at = CASE WHEN u.sets_expiry THEN u.expires_at ELSE g.expires_at END,
         run_at = coalesce(${due}, g.run_at), due_at = coalesce(${due}, g.due_at), updated_at = (SELECT now FROM t)
       FROM u WHERE g.ctid = ANY (ARRAY(SELECT address FROM target WHERE state IN ${WAITING} AND conflict IS NULL)) AND u.id = g.id
       RETURNING g.id, g.seq, g.queue, g.priority, g.type, g.state, g.tags
     ), moved AS MATERIALIZED (
       SELECT c.queue, c.priority, c.type, c.state, o.queue AS old_queue FROM changed c JOIN target o ON o.id = c.id
       WHERE o.queue <> c.queue OR o.priority <> c.priority
     ), lanes AS (
       INSERT INTO ${s}.lanes (queue, priority, paused, used_at)
       SELECT DISTINCT m.queue, m.priority, false, t.now FROM moved m, t
       WHERE NOT EXISTS (SELECT 1 FROM ${s}.lanes l WHERE l.queue = m.queue AND l.priority = m.priority AND l.used_at >= t.now - ${FRESH_MS})
       ORDER BY 1, 2 ON CONFLICT (queue, priority) DO UPDATE SET used_at = excluded.used_at
     ), deltas AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, old_queue, type, state, -pg_catalog.count(*), false FROM moved, t GROUP BY now, old_queue, type, state
       UNION ALL SELECT now, queue, type, state, pg_catalog.count(*), false FROM moved, t GROUP BY now, queue, type, state
       UNION ALL SELECT now, queue, type, 'pending', v.n, false
         FROM (SELECT DISTINCT queue, type FROM moved WHERE state = 'failed') f, t, (VALUES (1), (-1)) AS v (n)
     ), dropped_tags AS (
       DELETE FROM ${s}.tags g USING (
         SELECT pg_catalog.unnest(o.tags) AS tag, c.seq, c.tags AS new_tags FROM changed c JOIN target o ON o.id = c.id WHERE o.tags IS NOT NULL
       ) x WHERE g.tag = x.tag AND g.seq = x.seq AND NOT (x.tag = ANY (coalesce(x.new_tags, '{}')))
     ), added_tags AS (
       INSERT INTO ${s}.tags (tag, seq, job) SELECT x.tag, x.seq, x.id FROM (
         SELECT pg_catalog.unnest(c.tags) AS tag, c.seq, c.id, o.tags AS old_tags FROM changed c JOIN target o ON o.id = c.id WHERE c.tags IS NOT NULL
       ) x WHERE NOT (x.tag = ANY (coalesce(x.old_tags, '{}'))) ON CONFLICT (tag, seq) DO NOTHING
     ), large_inputs AS (
       INSERT INTO ${s}.inputs (job, input) SELECT u.id, u.input::json FROM u WHERE NOT ${isSmall} AND ${isChanged}
       ON CONFLICT (job) DO UPDATE SET input = excluded.input
     ), dropped_inputs AS (
       DELETE FROM ${s}.inputs WHERE job = ANY (ARRAY(SELECT u.id FROM u WHERE ${isSmall} AND ${isChanged}))
     )
     SELECT id::text, 'updated' FROM changed UNION ALL SELECT id::text, state FROM target WHERE state IN ${LEASED}
     UNION ALL SELECT id::text, '${CONFLICT}' || conflict FROM target WHERE state IN ${WAITING} AND conflict IS NOT NULL
     UNION ALL SELECT id::text, state FROM ${wantedJobs(sql, "archive")}`,
  );

  /** Updates of different jobs. */
  async function updateOnce(
    runner: Runner,
    updates: readonly JobUpdate[],
    scope: ChangeScope,
    now: number | null,
  ): Promise<UpdateResult[]> {
    const { user = null, states = null } = scope;
    const byId = new Map(updates.map((update) => [update.id, update]));
    const results = await retryWhileLocked<"updated" | State | `${typeof CONFLICT}${UpdateConflict}`>(
      [...byId.keys()],
      {
        run: (open) => {
          const rows = open.map((id) => byId.get(id) as JobUpdate);
          return runner.run(statement, [now, open, user, states, ...columnsOf(rows)]);
        },
        findExisting: (open) => runner.run(existing, [open, user, states]),
      },
    );
    return results.map((result): UpdateResult => {
      if (result === "updated" || result === "missing") return { status: result };
      return isState(result)
        ? { status: "not-waiting", state: result }
        : { status: "conflict", reason: result.slice(CONFLICT.length) as UpdateConflict };
    });
  }

  return async (runner, updates, scope, now) => {
    if (updates.some(({ input }) => input !== undefined && holdsNul(input))) {
      throw new InvalidOptionError("input", NUL_IN_INPUT);
    }
    const results: UpdateResult[] = [];
    for (const round of roundsOf(updates)) results.push(...(await updateOnce(runner, round, scope, now)));
    return results;
  };
}

const MAX_ROWS = 1_000;
const CONFLICT = "conflict ";

/** Splits updates, in order, so that each part has a job at most once. */
function roundsOf(updates: readonly JobUpdate[]): JobUpdate[][] {
  const rounds: JobUpdate[][] = [];
  let ids = new Set<string>();
  for (const update of updates) {
    if (rounds.length === 0 || ids.has(update.id) || ids.size >= MAX_ROWS) {
      rounds.push([]);
      ids = new Set();
    }
    ids.add(update.id);
    rounds.at(-1)?.push(update);
  }
  return rounds;
}

function columnsOf(updates: readonly JobUpdate[]): unknown[] {
  return [
    orNull(updates, ({ queue }) => queue ?? null),
    orNull(updates, ({ priority }) => priority ?? null),
    orNull(updates, ({ input }) => input ?? null),
    orNull(updates, ({ input }) => (input === undefined ? null : jsonBytes(input))),
    orNull(updates, ({ tags }) => (tags === undefined ? null : JSON.stringify(tags))),
    orNull(updates, ({ maxAttempts }) => maxAttempts ?? null),
    updates.map(({ expiresAt }) => expiresAt !== undefined),
    orNull(updates, ({ expiresAt }) => expiresAt ?? null),
    orNull(updates, ({ due }) => due?.runAt ?? null),
    orNull(updates, ({ due }) => due?.delayMs ?? null),
    orNull(updates, ({ inputType }) => inputType ?? null),
  ];
}
