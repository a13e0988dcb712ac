import { columnPositions } from "../../column-positions.js";

/**
 * The columns of a claim's result, in order, with the SQL of each over the updated row. Rows arrive as arrays, because
 * objects would take twice as long to read; so every position comes from this list.
 */
const COLUMNS = {
  job_id: "id::text",
  fence: "fence",
  type: "type",
  queue: "queue",
  priority: "priority",
  owner: "user_id::text",
  input: "input::text",
  attempt: "attempt",
  max_attempts: "max_attempts",
  losses: "losses",
  releases: "releases",
  run_at: "run_at::float8",
  expires_at: "expires_at::float8",
  created_at: "created_at::float8",
  cancel_requested: "cancel_at IS NOT NULL",
  tags: "pg_catalog.array_to_json(tags)::text",
  schedule: "schedule",
  slot: "slot::float8",
  prev_state: "prev_state",
  prev_attempt: "prev_attempt",
  prev_due_at: "prev_due_at::float8",
  seq: "seq::float8",
  claimed_at: "claimed_at::float8",
  error: "error",
  trace: "trace",
  parent: "parent::text",
  settings: "settings::text",
} as const;

export type ClaimColumn = keyof typeof COLUMNS;
const NAMES = Object.keys(COLUMNS) as ClaimColumn[];

/** Where each column is in a row of the result. */
export const CLAIM_POSITIONS: Readonly<Record<ClaimColumn, number>> = columnPositions(COLUMNS);

/**
 * The last row of a result is not a job. It reports on the claim itself, in columns that have the right types: whether
 * the full statement is needed, when the next job is due, the time of the claim, and which lanes gained or lost jobs.
 */
type Report = "needsFull" | "nextDueAt" | "at" | "lanes";
const REPORT: Readonly<Record<Report, ClaimColumn>> = {
  needsFull: "fence",
  nextDueAt: "prev_due_at",
  at: "claimed_at",
  lanes: "input",
};

/** Where each part of the report is in the last row. `at` is in the same place in the row of a job. */
export const REPORTED: Readonly<Record<Report, number>> = {
  needsFull: CLAIM_POSITIONS[REPORT.needsFull],
  nextDueAt: CLAIM_POSITIONS[REPORT.nextDueAt],
  at: CLAIM_POSITIONS[REPORT.at],
  lanes: CLAIM_POSITIONS[REPORT.lanes],
};

/** For RETURNING: the columns of the result, and those that other parts of the statement need. */
export const RETURNED: string = [
  "id",
  "key",
  "key_scope",
  "error_code",
  "error_at",
  ...NAMES.map((name) => (COLUMNS[name] === name ? name : `${COLUMNS[name]} AS ${name}`)),
].join(", ");

/** The select list of the jobs, with other SQL for some of the columns. */
export function jobColumns(replaced: Partial<Record<ClaimColumn, string>>): string {
  return NAMES.map((name) => replaced[name] ?? name).join(", ");
}

/** The select list of the last row. */
export function reportColumns(report: Partial<Record<Report, string>>): string {
  const values = new Map<ClaimColumn, string>();
  for (const part of Object.keys(report) as Report[]) values.set(REPORT[part], report[part] ?? "NULL");
  return NAMES.map((name) => values.get(name) ?? "NULL").join(", ");
}
