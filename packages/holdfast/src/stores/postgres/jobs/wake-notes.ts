import { childFailure, jobTopic, TIES } from "../../../job/stored-step.js";
import type { Sql } from "../connection/sql.js";

/**
 * Notes in the table `wakes`: what a statement that ends or deletes a job, or emits an event, leaves for the jobs that wait for it.
 * The call that commits them ends the waits afterwards (wakes.ts), in statements of their own: inside the same statement it would miss
 * waits that are committed meanwhile, and in a caller's transaction it would hold the rows of other jobs. A note is kept until that
 * is done, also after a crash.
 */

/** The columns of an ended job that its note needs. */
export const ENDED_COLUMNS = "ties, output, error, error_code";

const TOPIC = `'${jobTopic("")}' || x.id::text`;
const IS_AWAITED = `(x.ties & ${TIES.awaited}) <> 0`;

/** `childFailure` of a job that ended in `state`, as SQL. */
function failureOf(state: string, message: string, code: string): string {
  const missing = (kind: "cancelled" | "missing"): string => `'${childFailure(kind, null).message}'`;
  const fallback = `CASE WHEN ${state} = 'missing' THEN ${missing("missing")} ELSE ${missing("cancelled")} END`;
  return `pg_catalog.json_build_object('message', coalesce(${message}, ${fallback}), 'code', ${code}, 'state', ${state})`;
}

/** How waits for a job `x` end that is finished: the value, and the failure. SQL over a row with `state` and {@link ENDED_COLUMNS}. */
export const END_OF_JOB: { value: string; failure: string } = {
  value: "CASE WHEN x.state = 'completed' THEN x.output END",
  failure: `CASE WHEN x.state <> 'completed' THEN ${failureOf("x.state", "x.error", "x.error_code")} END`,
};
/** How waits for a job end that does not exist. */
export const MISSING: string = failureOf("'missing'", "NULL::text", "NULL::text");

/** A part `notes` for the jobs of a relation that were finished; it has the numbers of the notes. */
export function endedNotes({ s }: Sql, from: string): string {
  return `notes AS (INSERT INTO ${s}.wakes (topic, value, failure)
    SELECT ${TOPIC}, ${END_OF_JOB.value}, ${END_OF_JOB.failure} FROM ${from} x WHERE ${IS_AWAITED} RETURNING n)`;
}

/**
 * The same for jobs that were deleted. Waits for a finished job ended with it, so there are hardly ever any left, and then no
 * note. One that is stored at this moment finds that the job is gone, or is repaired.
 */
export function deletedNotes({ s }: Sql, from: string): string {
  return `notes AS (INSERT INTO ${s}.wakes (topic, failure) SELECT ${TOPIC}, ${MISSING} FROM ${from} x WHERE ${IS_AWAITED}
    AND (SELECT 1 FROM ${s}.steps w WHERE w.topic = ${TOPIC} AND w.state = 'waiting' LIMIT 1) IS NOT NULL RETURNING n)`;
}

/** The numbers of the notes of a statement, as text for {@link readNotes}. */
export const NOTES = "pg_catalog.array_to_string(ARRAY(SELECT n FROM notes), ',')";

export function readNotes(text: unknown): string[] {
  return typeof text === "string" && text !== "" ? text.split(",") : [];
}
