import { PERIOD_SEPARATOR, USER_SEPARATOR } from "../../../job/unique-key.js";
import type { SchemaSettings } from "./schema.js";

/** The views of a current schema. Neither stores anything; both show live and finished jobs. */
export const VIEW_NAMES: readonly string[] = ["jobs", "job_records"];

/** The view of migration 1, which migration 7 renames to `job_records`. */
export function firstView({ schema: s }: SchemaSettings): string {
  const columns = (own: OwnColumns): string => `
SELECT j.id, j.user_id, j.type, j.queue, j.state AS status,
  ${input(s)} AS input, ${own.output} AS output,
  j.error, j.error_code, j.priority::integer AS priority, j.attempt, greatest(j.attempt - 1, 0) AS retry_count,
  j.max_attempts, j.max_attempts - 1 AS max_retries,
  ${time("run_at")} AS scheduled_for, ${time("expires_at")} AS expires_at, ${time("claimed_at")} AS claimed_at,
  ${time("started_at")} AS started_at, ${own.finishedAt} AS completed_at, ${time("created_at")} AS created_at,
  ${time("updated_at")} AS updated_at, ${own.dueAt} AS due_at,
  ${own.worker} AS worker, j.key, j.tags, j.schedule, j.progress, j.progress_note, j.fence, j.trace`;
  return viewOf(s, columns);
}

/**
 * The columns have the names of the fields of a job in the API, in snake case, and the same values. Two differences:
 * `user` is a reserved word of SQL, so that column is `user_id`; and a field that is an object has a column for each of
 * its members.
 */
export function jobsView(settings: SchemaSettings): string {
  return thirdView(settings, ["j.fingerprint AS error_fingerprint"]);
}

/** The view of migration 8. */
export function thirdView(settings: SchemaSettings, more: readonly string[] = []): string {
  const timeout = "pg_catalog.json_extract_path_text(j.settings, 'timeoutMs')::bigint AS timeout_ms";
  const added = ["j.progress_data", "j.parent", timeout, ...more];
  const finished = { ...FINISHED, worker: "j.worker" };
  return jobsViewOf(settings, { added, finished }).replace("CREATE VIEW", "CREATE OR REPLACE VIEW");
}

/** The view of migration 7. */
export function secondView(settings: SchemaSettings): string {
  return jobsViewOf(settings);
}

/** PostgreSQL can replace a view only if new columns come last. */
function jobsViewOf(
  { schema: s }: SchemaSettings,
  { added = [], finished = FINISHED }: { added?: readonly string[]; finished?: OwnColumns } = {},
): string {
  const key = `pg_catalog.split_part(pg_catalog.substr(j.key, pg_catalog.strpos(j.key, ${character(USER_SEPARATOR)}) + 1), ${character(PERIOD_SEPARATOR)}, 1)`;
  const columns = (own: OwnColumns): string => `
SELECT j.id, j.type, j.queue, j.state, j.priority::integer AS priority, j.user_id,
  ${input(s)} AS input, ${own.output} AS output,
  j.error, j.error_code, ${time("error_at")} AS error_at, j.attempt::integer AS attempt, j.max_attempts::integer AS max_attempts, j.fence,
  ${time("run_at")} AS run_at, ${own.dueAt} AS due_at, ${time("expires_at")} AS expires_at,
  ${time("created_at")} AS created_at, ${time("updated_at")} AS updated_at, ${time("claimed_at")} AS claimed_at,
  ${time("started_at")} AS started_at, ${own.finishedAt} AS finished_at, ${time("cancel_at")} AS cancel_requested_at,
  ${own.worker} AS worker, ${key} AS key, coalesce(j.tags, '{}') AS tags, j.schedule, ${time("slot")} AS schedule_slot, j.trace,
  ${["j.progress", "j.progress_note", ...added].join(", ")}`;
  return viewOf(s, columns, finished);
}

/** Columns that only one of the two tables has. The table of finished jobs has the worker since migration 8. */
interface OwnColumns {
  output: string;
  finishedAt: string;
  dueAt: string;
  worker: string;
}
const LIVE: OwnColumns = {
  output: "NULL::json",
  finishedAt: "NULL::timestamptz",
  dueAt: time("due_at"),
  worker: "j.worker",
};
const FINISHED: OwnColumns = {
  output: "j.output",
  finishedAt: time("finished_at"),
  dueAt: "NULL::timestamptz",
  worker: "NULL::text",
};

function viewOf(s: string, columns: (own: OwnColumns) => string, finished: OwnColumns = FINISHED): string {
  return `CREATE VIEW ${s}.jobs WITH (security_invoker = true) AS${columns(LIVE)} FROM ${s}.live j
UNION ALL${columns(finished)} FROM ${s}.archive j;`;
}

/** A column with milliseconds since 1970, as a timestamp. */
function time(column: string): string {
  return `pg_catalog.to_timestamp(j.${column} / 1000.0)`;
}

function input(s: string): string {
  return `coalesce(j.input, (SELECT i.input FROM ${s}.inputs i WHERE i.job = j.id))`;
}

function character(text: string): string {
  return `pg_catalog.chr(${text.charCodeAt(0)})`;
}
