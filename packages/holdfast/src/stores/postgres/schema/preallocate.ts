import type { SchemaSettings } from "./schema.js";

/**
 * PostgreSQL reads a table of a few pages with a sequential scan. A prepared statement keeps that plan after the table
 * has grown, until it is next analysed: a worker that started on an empty queue took 90 ms for a claim of 10 from
 * 300,000 jobs, and 160 ms to settle them (decision 0005). So these tables never look small: migrations create them
 * with 64 pages each, and vacuum does not truncate them. (Truncating would also need a lock that all other sessions
 * wait for.) It costs five megabytes per schema.
 */
const PAGES = 64;
const ROWS_PER_PAGE = 4;
// With the other columns a quarter of a page, and not long enough for PostgreSQL to store it out of line.
const FILLER =
  "(SELECT pg_catalog.string_agg(pg_catalog.md5(i::text), '') FROM pg_catalog.generate_series(1, 56) AS i)";

const JOB =
  "id, seq, type, queue, priority, state, input_bytes, attempt, max_attempts, losses, releases, fence, run_at";
const A_JOB = "gen_random_uuid(), 0, '', '', 0, 'STATE', 0, 0, 1, 0, 0, 0, 0";
const TABLES: readonly [table: string, columns: string, values: string][] = [
  [
    "live",
    `${JOB}, created_at, updated_at, due_at, progress_note`,
    `${A_JOB.replace("STATE", "pending")}, 0, 0, 0, filler`,
  ],
  [
    "archive",
    `${JOB}, created_at, updated_at, finished_at, progress_note`,
    `${A_JOB.replace("STATE", "dead")}, 0, 0, 0, filler`,
  ],
  ["inputs", "job, input", "pg_catalog.gen_random_uuid(), pg_catalog.to_json(filler)"],
  ["tags", "tag, seq, job", "filler, n, gen_random_uuid()"],
  ["keys", "key, job, scope", "n || filler, gen_random_uuid(), ''"],
  ["attempts", "job, record", "pg_catalog.gen_random_uuid(), pg_catalog.to_json(filler)"],
  ["log", "job, at, line", "gen_random_uuid(), 0, filler"],
  [
    "schedules",
    "name, version, origin, type, queue, priority, input, max_attempts, every_ms, jitter_ms, catch_up, overlap, enabled, defined, created_at, updated_at",
    "n::text, '', 'runtime', '', '', 0, '{}', 1, 1000, 0, '', 'allow', false, filler, 0, 0",
  ],
  ["slots", "schedule, fired, slot, reason, at", "'', false, 0, filler, 0"],
];

/** SQL that inserts rows into the tables and deletes them again, which leaves empty pages. */
export function preallocate(settings: SchemaSettings): string {
  return TABLES.map((table) => preallocateTable(settings, ...table)).join("\n");
}

/** The same for one table, which must be empty. `values`: SQL with `n` and `filler`. */
export function preallocateTable(
  { schema: s }: SchemaSettings,
  table: string,
  columns: string,
  values: string,
): string {
  const rows = `pg_catalog.generate_series(1, ${PAGES * ROWS_PER_PAGE}) AS n, ${FILLER} AS f (filler)`;
  return `ALTER TABLE ${s}.${table} SET (vacuum_truncate = off);
INSERT INTO ${s}.${table} (${columns}) SELECT ${values} FROM ${rows};
DELETE FROM ${s}.${table};`;
}
