import { isFinished, type State } from "../../../job/state.js";
import { PARKED_AT, TIES } from "../../../job/stored-step.js";
import type { Outcome } from "../../../store.js";
import type { Row } from "../connection/db.js";
import { LEASED, orNull, rowsOf, type Sql } from "../connection/sql.js";
import { FINISHED } from "../schema/schema.js";
import { archiveSql, purgeTime } from "./archive-sql.js";
import { stateStatement, type StateStatement } from "./recording.js";
import { endedNotes, NOTES, readNotes } from "./wake-notes.js";

/**
 * Settles leases of one fence, whatever their outcomes are and whether their jobs have ties. The statements for jobs without ties
 * are faster, and each of them handles one kind of outcome. Values 1 to 14 are those of the other statements. The parts:
 *
 * - `target`: the jobs, locked; `decided`: what happens to each. `awake`: it is not parked, because a wait has ended since its steps were read.
 * - `waiting`, `gone` and `kept`, `dropped`: jobs that wait again, that are moved to the archive, and that are deleted.
 * - `done`: all of them, with their old and new states. `reopened` and `deleted_steps`: see `Outcome.reopen`.
 */
export function tiedStatement(
  sql: Sql,
  parts: { outcomes: string; error: Readonly<Record<string, string>> },
): StateStatement {
  const { s } = sql;
  const archive = archiveSql(sql);
  const { outcomes, error } = parts;
  const inAction = (condition: string): string => `ARRAY(SELECT address FROM decided WHERE action ${condition})`;
  const idsOf = (from: string): string => `ARRAY(SELECT id FROM ${from})`;
  return stateStatement(
    sql,
    "settle_tied",
    (recording) => `WITH ${recording.now}, ${outcomes}, p AS MATERIALIZED (
       SELECT * FROM ${rowsOf("$2::uuid[], $15::boolean[], $16::boolean[], $17::bigint[], $18::text[], $19::bigint[]")} AS p (id, keep, parks, until, reopen, wakes)
     ), target AS MATERIALIZED (
       SELECT ctid AS address, id, queue, type, state, cancel_at, ties FROM ${s}.live
       WHERE id = ANY ($2::uuid[]) AND fence = $3 AND state IN ${LEASED} FOR UPDATE SKIP LOCKED
     ), ending AS MATERIALIZED (
       SELECT g.*, o.new_state AS wanted, p.keep, p.parks, p.until, p.reopen, p.wakes,
         CASE WHEN g.cancel_at IS NOT NULL AND o.new_state <> 'completed' THEN 'cancelled' ELSE o.new_state END AS new_state
       FROM target g JOIN o ON o.id = g.id JOIN p ON p.id = g.id
     ), decided AS MATERIALIZED (
       SELECT e.*, CASE WHEN new_state = 'pending' AND parks AND coalesce(ties, 0) / ${TIES.wake} <> wakes THEN 'awake'
         WHEN NOT new_state IN (${FINISHED}) THEN 'wait' WHEN keep OR new_state <> wanted THEN 'keep' ELSE 'drop' END AS action
       FROM ending e
     ), waiting AS (
       UPDATE ${s}.live g SET state = o.new_state,
         due_at = CASE WHEN p.parks THEN greatest((SELECT now FROM t), coalesce(p.until, ${PARKED_AT})) ELSE (SELECT now FROM t) + o.delay_ms END,
         run_at = (SELECT now FROM t) + CASE WHEN p.parks THEN 0 ELSE o.delay_ms END,
         expires_at = CASE WHEN NOT p.parks THEN g.expires_at END,
         attempt = o.attempt, releases = o.releases, started_at = coalesce(g.started_at, o.started_at), worker = NULL,
         updated_at = (SELECT now FROM t), error = ${error["error"]}, error_code = ${error["error_code"]}, fingerprint = ${error["fingerprint"]},
         error_at = CASE WHEN o.new_state = 'failed' AND o.message IS NULL AND g.error IS NULL THEN (SELECT now FROM t) ELSE ${error["error_at"]} END
       FROM o JOIN p ON p.id = o.id WHERE g.ctid = ANY (${inAction("= 'wait'")}) AND o.id = g.id
       RETURNING g.id
     ), gone AS (
       DELETE FROM ${s}.live WHERE ctid = ANY (${inAction("IN ('keep', 'drop')")}) RETURNING *
     ), kept AS (${archive.insert("gone g JOIN o ON o.id = g.id JOIN decided d ON d.id = g.id AND d.action = 'keep'", {
       state: "d.new_state",
       purge_at: `CASE WHEN o.purge_ms IS NOT NULL AND o.new_state = d.new_state THEN (SELECT now FROM t) + o.purge_ms ELSE ${purgeTime("d.new_state")} END`,
       output: "CASE WHEN o.new_state = 'completed' THEN o.output::json END",
       attempt: "o.attempt",
       releases: "o.releases",
       updated_at: "(SELECT now FROM t)",
       started_at: "coalesce(g.started_at, o.started_at)",
       ties: "g.ties",
       ...error,
     })}), dropped AS MATERIALIZED (
       SELECT g.*, o.output::json AS output, ${error["error"]} AS last_error, ${error["error_code"]} AS last_code, d.new_state
       FROM gone g JOIN o ON o.id = g.id JOIN decided d ON d.id = g.id AND d.action = 'drop'
     ), done AS MATERIALIZED (
       SELECT d.id, d.queue, d.type, d.state AS old_state, d.new_state AS state, d.reopen, d.action FROM decided d
       WHERE d.id = ANY (${idsOf("waiting")}) OR d.id = ANY (${idsOf("kept")}) OR d.id = ANY (${idsOf("dropped")})
     ), ended AS MATERIALIZED (
       SELECT id, state, ties, output, error, error_code FROM kept
       UNION ALL SELECT id, new_state, ties, output, last_error, last_code FROM dropped
     ), ${endedNotes(sql, "ended")},
     -- Rows are found first: joined, the planner may read all steps.
     named AS MATERIALIZED (
       SELECT r.address, r.kind FROM done d CROSS JOIN LATERAL pg_catalog.json_array_elements_text(d.reopen::json) AS n (name)
       CROSS JOIN LATERAL (SELECT ctid AS address, kind FROM ${s}.steps WHERE job = d.id AND name = n.name AND state = 'failed') r
       WHERE d.action <> 'drop'
     ), reopened AS (
       UPDATE ${s}.steps SET state = 'waiting', failure = NULL WHERE ctid = ANY (ARRAY(SELECT address FROM named WHERE kind = 'job'))
     ), forgotten AS (
       DELETE FROM ${s}.steps WHERE ctid = ANY (ARRAY(SELECT address FROM named WHERE kind <> 'job'))
     ), freed_live_keys AS (${archive.freeKeys}), history AS (
       INSERT INTO ${s}.attempts (job, record) SELECT o.id, o.record::json FROM o
       WHERE o.record IS NOT NULL AND o.id = ANY (ARRAY(SELECT id FROM done WHERE action <> 'drop'))
     ), ${recording.of("done")} ${archive.deleteRelated("dropped", "own keys", { withTies: false })}, deleted_steps AS (
       DELETE FROM ${s}.steps WHERE job = ANY (ARRAY(SELECT id FROM dropped WHERE ties IS NOT NULL))
     ), changes AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended)
       SELECT now, queue, type, old_state, -pg_catalog.count(*), false FROM done, t WHERE action <> 'drop' GROUP BY now, queue, type, old_state
       UNION ALL SELECT now, queue, type, state, pg_catalog.count(*), action <> 'wait' FROM done, t WHERE action <> 'drop' GROUP BY now, queue, type, state, action
       UNION ALL SELECT now, queue, type, state, v.sign * pg_catalog.count(*), v.ended FROM done, t, (VALUES (1, true), (-1, false)) AS v (sign, ended)
         WHERE action = 'drop' GROUP BY now, queue, type, state, v.sign, v.ended
     )
     SELECT id::text, state, NULL FROM done UNION ALL SELECT id::text, 'awake', NULL FROM decided WHERE action = 'awake' UNION ALL SELECT NULL, NULL, ${NOTES}`,
  );
}

/** Values 15 to 19 of the statement. */
export function tiedColumns(outcomes: readonly Outcome[]): unknown[] {
  return [
    outcomes.map(({ keep, to }) => keep || !isFinished(to)),
    outcomes.map(({ park }) => park !== undefined),
    orNull(outcomes, ({ park }) => park?.until ?? null),
    orNull(outcomes, ({ reopen }) => (reopen === undefined ? null : namesOf(reopen))),
    orNull(outcomes, ({ park }) => park?.wakes ?? null),
  ];
}

/** As JSON. No stored name contains NUL, which would fail the statement. */
function namesOf(names: readonly string[]): string {
  return JSON.stringify(names.filter((name) => !name.includes("\0")));
}

/** What the statement has done, and the numbers of its notes. */
export function readTied(rows: readonly Row[]): { done: [id: string, state: State | "awake"][]; notes: string[] } {
  const done: [string, State | "awake"][] = [];
  let notes: string[] = [];
  for (const [id, state, text] of rows) {
    if (id === null) notes = readNotes(text);
    else done.push([id as string, state as State | "awake"]);
  }
  return { done, notes };
}
