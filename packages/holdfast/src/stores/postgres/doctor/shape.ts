import { randomBytes } from "node:crypto";
import { type Db, type Runner, type Transaction, unnamed } from "../connection/db.js";
import { MIGRATIONS } from "../schema/migrations.js";
import { migrationScript } from "../schema/migration-plan.js";
import { COMMON } from "../schema/schema.js";
import { ok, problem, warning, type Finding, type Target } from "./finding.js";
import { differences } from "./differences.js";

/** One part of a schema, such as a table, a column or an index, with its definition. */
export interface Part {
  kind: string;
  /** Of a column, an index or a constraint: `table.name`. */
  name: string;
  definition: string;
}

// Even printing the definition of a view locks its tables.
const LOCK_TIMEOUT = "SET LOCAL lock_timeout = '2s'";

/** Null: there are no tables. */
export async function versionOf(runner: Runner, { settings }: Target): Promise<number | null> {
  const [there] = await runner.run(unnamed("SELECT pg_catalog.to_regclass($1)::text"), [
    `${settings.schema}.migrations`,
  ]);
  if ((there?.[0] ?? null) === null) return null;
  const text = `SELECT coalesce(pg_catalog.max(version), 0) FROM ${settings.schema}.migrations`;
  const [row] = await runner.run(unnamed(text), []);
  return row?.[0] as number;
}

export function judgeVersion(version: number | null, latest: number = MIGRATIONS.length): Finding {
  if (version === latest) return ok("schema version", `the schema has version ${latest}, as this code expects`);
  if (version === null) {
    return problem("schema version", "the tables of Holdfast are missing", "Run migrate first.");
  }
  const found = `the schema has version ${version}, but this code expects ${latest}`;
  return version < latest
    ? problem("schema version", found, "Run migrate. Workers of the previous version may keep running.")
    : problem("schema version", found, "Upgrade the holdfast package of this process.");
}

/**
 * Compares the schema with a new one that the migrations create in a transaction, which is rolled back: exact, and
 * always up to date with the code. If the role may not create schemas, only names are compared.
 */
export async function checkShape(db: Db, target: Target): Promise<Finding[]> {
  const actual = await db.transaction(async (runner) => {
    await runner.script(LOCK_TIMEOUT);
    return partsOf(runner, target.schema);
  });
  let expected: Part[];
  try {
    expected = await expectedParts(db, target);
  } catch (error) {
    const missing = missingNames(actual, migrationScript(target.settings));
    const reason = `only names could be compared, because a schema to compare with could not be created: ${(error as Error).message}`;
    const advice = `Run doctor as a role that may create schemas: GRANT CREATE ON DATABASE … TO ….`;
    return [...missing, warning("schema shape", reason, advice)];
  }
  const found = differences(expected, actual, target);
  return found.length > 0 ? found : [ok("schema shape", "tables, columns and indexes match the migrations")];
}

async function expectedParts(db: Db, target: Target): Promise<Part[]> {
  const scratch = `holdfast_shape_${randomBytes(6).toString("hex")}`;
  return db.transaction(async (runner) => {
    await runner.script(`${LOCK_TIMEOUT}; SET LOCAL client_min_messages = error; SAVEPOINT holdfast_shape`);
    // Foreign keys to users and roles are not compared: creating them would lock the application's tables.
    const settings = { ...target.settings, schema: `"${scratch}"`, users: null, access: null };
    await runner.script(migrationScript(settings));
    const parts = await partsOf(runner, scratch);
    await runner.script("ROLLBACK TO SAVEPOINT holdfast_shape");
    // Definitions, such as function bodies, contain the name of the scratch schema.
    return parts.map((part) => ({ ...part, definition: part.definition.replaceAll(scratch, target.schema) }));
  });
}

/** The parts of a schema. The search path contains it, so that definitions do not name it. */
async function partsOf(runner: Transaction, schema: string): Promise<Part[]> {
  await runner.script(`SET LOCAL search_path = "${schema}", pg_catalog`);
  const of = (column: string): string =>
    `JOIN pg_catalog.pg_class t ON t.oid = x.${column} JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace AND n.nspname = $1`;
  const text = `
    SELECT CASE WHEN c.relkind = 'v' THEN 'view' WHEN c.relkind = 'S' THEN 'sequence' ELSE 'table' END, c.relname::text,
      CASE WHEN c.relkind = 'v' THEN pg_catalog.pg_get_viewdef(c.oid, true) ELSE '' END
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace AND n.nspname = $1 WHERE c.relkind IN ('r', 'p', 'v', 'S')
      -- Sequences of identity columns belong to their column.
      AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'i' AND c.relkind = 'S')
    UNION ALL SELECT 'column', t.relname || '.' || x.attname, pg_catalog.concat_ws(' ', pg_catalog.format_type(x.atttypid, x.atttypmod),
      CASE WHEN x.attnotnull THEN 'NOT NULL' END, 'DEFAULT ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid, true),
      CASE WHEN x.attidentity <> '' THEN 'IDENTITY' END)
    FROM pg_catalog.pg_attribute x ${of("attrelid")} LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = x.attrelid AND d.adnum = x.attnum
    WHERE x.attnum > 0 AND NOT x.attisdropped AND t.relkind IN ('r', 'p')
    UNION ALL SELECT CASE WHEN x.indisvalid AND x.indisready THEN 'index' ELSE 'invalid index' END, t.relname || '.' || c.relname, pg_catalog.pg_get_indexdef(x.indexrelid, 0, true)
    FROM pg_catalog.pg_index x ${of("indrelid")} JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
    UNION ALL SELECT 'constraint', t.relname || '.' || x.conname, pg_catalog.pg_get_constraintdef(x.oid, true)
    FROM pg_catalog.pg_constraint x ${of("conrelid")} WHERE x.contype IN ('c', 'f', 'p', 'u', 'x')
    UNION ALL SELECT 'trigger', t.relname || '.' || x.tgname, pg_catalog.pg_get_triggerdef(x.oid, true)
    FROM pg_catalog.pg_trigger x ${of("tgrelid")} WHERE NOT x.tgisinternal
    UNION ALL SELECT 'function', p.proname || '(' || pg_catalog.pg_get_function_identity_arguments(p.oid) || ')',
      p.prosrc
    FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace AND n.nspname = $1`;
  const rows = (await runner.run(unnamed(text), [schema])) as unknown as [string, string, string][];
  return rows.map(([kind, name, definition]) => ({ kind, name, definition }));
}

/** What the script creates and the schema does not have, by name. */
export function missingNames(actual: readonly Part[], script: string): Finding[] {
  const there = new Set(actual.map(({ kind, name }) => `${kind} ${name.split(".").at(-1) ?? ""}`));
  const columns = new Set(actual.filter(({ kind }) => kind === "column").map(({ name }) => name));
  const missing: string[] = [];
  for (const [, what = "", name = ""] of script.matchAll(
    /CREATE (?:UNIQUE )?(TABLE|INDEX|VIEW) (?:IF NOT EXISTS )?(?:"\w+"\.)?(\w+)/g,
  )) {
    const dropped = new RegExp(`DROP ${what} (?:IF EXISTS )?(?:"\\w+"\\.)?${name}\\b`).test(script);
    if (!dropped && !there.has(`${what.toLowerCase()} ${name}`)) missing.push(`${what.toLowerCase()} ${name}`);
  }
  for (const [, name = ""] of script.matchAll(/ALTER VIEW \S+ RENAME TO (\w+)/g)) {
    if (!there.has(`view ${name}`)) missing.push(`view ${name}`);
  }
  for (const table of ["live", "archive"]) {
    if (missing.includes(`table ${table}`)) continue;
    for (const column of COMMON) if (!columns.has(`${table}.${column}`)) missing.push(`column ${table}.${column}`);
  }
  return missing.map((what) =>
    problem("schema shape", `the ${what} is missing`, "Create it as in the output of migrations()."),
  );
}
