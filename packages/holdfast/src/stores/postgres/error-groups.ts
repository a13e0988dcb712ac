import { LIMITS } from "../../defaults.js";
import type { ErrorGroupRecord } from "../../store.js";
import type { Row, Runner } from "./connection/db.js";
import { rowsOf, type Sql } from "./connection/sql.js";

export interface ErrorGroupOperations {
  record(runner: Runner, groups: readonly ErrorGroupRecord[]): Promise<void>;
  list(runner: Runner, limit: number): Promise<ErrorGroupRecord[]>;
  purge(runner: Runner, before: number): Promise<number>;
}

/** recordErrors, errorGroups, purgeErrorGroups. */
export function errorGroupOperations(sql: Sql): ErrorGroupOperations {
  const { s } = sql;
  const columns = "fingerprint, type, name, code, message, frame, count, first_at, last_at, job, example";
  const isLater = "excluded.last_at >= g.last_at";
  // In order, so that two processes cannot deadlock.
  const record = sql.statement(
    "record_errors",
    `INSERT INTO ${s}.error_groups AS g (${columns})
     SELECT ${columns} FROM ${rowsOf("$1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::text[], $11::text[]")}
       AS e (${columns}) ORDER BY fingerprint COLLATE "C"
     ON CONFLICT (fingerprint) DO UPDATE SET count = g.count + excluded.count, first_at = least(g.first_at, excluded.first_at),
       last_at = greatest(g.last_at, excluded.last_at), job = CASE WHEN ${isLater} THEN excluded.job ELSE g.job END,
       example = CASE WHEN ${isLater} THEN excluded.example ELSE g.example END`,
  );
  const list = sql.statement(
    "error_groups",
    `SELECT fingerprint, type, name, code, message, frame, count::float8, first_at::float8, last_at::float8, job, example
     FROM ${s}.error_groups ORDER BY last_at DESC, fingerprint DESC LIMIT $1::bigint`,
  );
  const purge = sql.statement(
    "purge_error_groups",
    `WITH gone AS (
       DELETE FROM ${s}.error_groups WHERE last_at < $1::bigint OR fingerprint = ANY (ARRAY(
         SELECT fingerprint FROM ${s}.error_groups ORDER BY last_at DESC, fingerprint DESC OFFSET ${LIMITS.errorGroups})) RETURNING 1
     ) SELECT pg_catalog.count(*)::float8 FROM gone`,
  );
  return {
    async record(runner, groups) {
      const different = merged(groups);
      const column = <Name extends keyof ErrorGroupRecord>(name: Name): unknown[] =>
        different.map((group) => clean(group[name]));
      await runner.run(record, COLUMNS.map(column));
    },
    list: async (runner, limit) => (await runner.run(list, [Math.min(limit, LIMITS.errorGroups)])).map(readGroup),
    async purge(runner, before) {
      const [row] = await runner.run(purge, [before]);
      return row?.[0] as number;
    },
  };
}

const COLUMNS: readonly (keyof ErrorGroupRecord)[] = [
  "fingerprint",
  "type",
  "name",
  "code",
  "message",
  "frame",
  "count",
  "firstAt",
  "lastAt",
  "job",
  "example",
];

function readGroup(row: Row): ErrorGroupRecord {
  return Object.fromEntries(COLUMNS.map((name, at) => [name, row[at]])) as unknown as ErrorGroupRecord;
}

/** One statement cannot write a group twice. */
function merged(groups: readonly ErrorGroupRecord[]): ErrorGroupRecord[] {
  const byFingerprint = new Map<string, ErrorGroupRecord>();
  for (const group of groups) {
    const known = byFingerprint.get(group.fingerprint);
    byFingerprint.set(group.fingerprint, known === undefined ? group : sumOf(known, group));
  }
  return [...byFingerprint.values()];
}

function sumOf(one: ErrorGroupRecord, other: ErrorGroupRecord): ErrorGroupRecord {
  const { job, example } = other.lastAt >= one.lastAt ? other : one;
  return {
    ...one,
    count: one.count + other.count,
    firstAt: Math.min(one.firstAt, other.firstAt),
    lastAt: Math.max(one.lastAt, other.lastAt),
    job,
    example,
  };
}

/** PostgreSQL cannot store NUL in text. */
function clean<Value>(value: Value): Value | string {
  return typeof value === "string" ? value.replaceAll("\0", "") : value;
}
