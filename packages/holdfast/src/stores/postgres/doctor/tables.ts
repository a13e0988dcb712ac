import { type Runner, unnamed } from "../connection/db.js";
import { countOf, levelOf, ok, problem, type Finding, type Target } from "./finding.js";

const DEAD = { warning: 20_000, problem: 1_000_000 };
/** Tables with many updates and deletes; without vacuum they only grow. */
const VACUUMED = ["live", "archive", "deltas", "keys", "attempts", "steps", "wakes"];

export async function checkAutovacuum(runner: Runner, { schema }: Target): Promise<Finding[]> {
  const text = `SELECT pg_catalog.current_setting('autovacuum') = 'off' OR pg_catalog.current_setting('track_counts') = 'off',
    pg_catalog.array_to_json(ARRAY(SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relname = ANY ($2::text[]) AND EXISTS (SELECT 1 FROM pg_catalog.pg_options_to_table(c.reloptions)
        WHERE option_name = 'autovacuum_enabled' AND NOT option_value::boolean) ORDER BY 1))::text`;
  const [row] = await runner.run(unnamed(text), [schema, VACUUMED]);
  const offHere = row?.[0] as boolean;
  const tables = JSON.parse((row?.[1] ?? "[]") as string) as string[];
  if (offHere) {
    return [
      problem(
        "autovacuum",
        "autovacuum is off for the whole server: dead rows accumulate and claims become slower",
        "Set autovacuum = on and track_counts = on in postgresql.conf and reload.",
      ),
    ];
  }
  if (tables.length === 0) return [ok("autovacuum", "enabled")];
  return tables.map((table) =>
    problem(
      "autovacuum",
      `autovacuum is off for ${schema}.${table}: its dead rows accumulate`,
      `Run ALTER TABLE "${schema}".${table} RESET (autovacuum_enabled).`,
    ),
  );
}

export async function checkDeadRows(runner: Runner, { schema }: Target): Promise<Finding[]> {
  const text = `SELECT n_live_tup::float8, n_dead_tup::float8, pg_catalog.to_char(greatest(last_autovacuum, last_vacuum) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    FROM pg_catalog.pg_stat_all_tables WHERE schemaname = $1 AND relname = 'live'`;
  const [row] = await runner.run(unnamed(text), [schema]);
  const [live, dead, vacuumed] = (row ?? [0, 0, null]) as [number, number, string | null];
  return [judgeDeadRows({ live, dead, vacuumed })];
}

export function judgeDeadRows({
  live,
  dead,
  vacuumed,
}: {
  live: number;
  dead: number;
  vacuumed: string | null;
}): Finding {
  const found = `the table of live jobs has ${countOf(dead, "dead row")} and ${countOf(live, "live one")}, and was ${vacuumed === null ? "never vacuumed" : `last vacuumed at ${vacuumed}`}`;
  // A large table may have many dead rows. If they outnumber the live ones, claims mostly read dead rows.
  const level = dead > live ? levelOf(dead, DEAD) : "ok";
  if (level === "ok") return ok("dead rows", found);
  return {
    check: "dead rows",
    level,
    found,
    advice: "End what holds vacuum back (see open transactions, replication slots). If nothing does, run VACUUM on it.",
  };
}

/** Left by a CREATE INDEX CONCURRENTLY that failed: every write updates it, and no query uses it. */
export async function checkInvalidIndexes(runner: Runner, { schema }: Target): Promise<Finding[]> {
  const text = `SELECT i.indexrelid::regclass::text, t.relname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    JOIN pg_catalog.pg_class t ON t.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = $1 AND NOT (i.indisvalid AND i.indisready)
      AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) ORDER BY 1`;
  const rows = (await runner.run(unnamed(text), [schema])) as unknown as [string, string][];
  if (rows.length === 0) return [ok("invalid indexes", "none")];
  return rows.map(([index, table]) =>
    problem(
      "invalid indexes",
      `the index ${index} on ${table} is invalid: its creation failed, and no query uses it`,
      `Run REINDEX INDEX CONCURRENTLY ${index}, or DROP INDEX CONCURRENTLY ${index} if you do not need it.`,
    ),
  );
}
