import { SchemaTooNew } from "../../errors.js";
import type { Db, Runner } from "./db.js";
import { sqlState } from "./faults.js";
import { MIGRATIONS, type SchemaSettings } from "./schema.js";

// Any number will do as long as nobody else locks it.
const LOCK = 4_836_502_117;

/** Everything that makes a new database one of this version, as SQL to be run by hand, once. */
export function migrationScript(settings: SchemaSettings): string {
  const parts = MIGRATIONS.map(({ version, name, up }) => `-- ${version}: ${name}\n${up(settings).trim()}`);
  return `${preamble(settings)}\n\n${parts.join("\n\n")}\n${MIGRATIONS.map(({ version, name }) => record(settings, version, name)).join("\n")}\n`;
}

function preamble({ schema: s }: SchemaSettings): string {
  return `CREATE SCHEMA IF NOT EXISTS ${s};
CREATE TABLE IF NOT EXISTS ${s}.migrations (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now());`;
}

function record({ schema: s }: SchemaSettings, version: number, name: string): string {
  return `INSERT INTO ${s}.migrations (version, name) VALUES (${version}, '${name}') ON CONFLICT DO NOTHING;`;
}

/** Applies what is missing, all or nothing, one process at a time. */
export async function migrate(db: Db, settings: SchemaSettings): Promise<void> {
  const latest = MIGRATIONS.length;
  const before = await versionOf(db, settings);
  refuseNewer(before, latest);
  // Looking first spares a start on an up-to-date database the lock, and the rights to create anything.
  if (before === latest) return;
  await db.transaction(async (runner) => {
    await runner.script("SET LOCAL lock_timeout = '30s'");
    await runner.script(`SELECT pg_advisory_xact_lock(${LOCK})`);
    await runner.script(preamble(settings));
    const from = await readVersion(runner, settings);
    refuseNewer(from, latest);
    for (const { version, name, up } of MIGRATIONS.slice(from)) {
      await runner.script(up(settings));
      await runner.script(record(settings, version, name));
    }
  });
}

function refuseNewer(version: number, latest: number): void {
  if (version <= latest) return;
  throw new SchemaTooNew(
    `the database is at schema version ${version}, this version of Holdfast knows ${latest}; upgrade the holdfast package`,
  );
}

async function versionOf(db: Db, settings: SchemaSettings): Promise<number> {
  try {
    return await readVersion(db, settings);
  } catch (error) {
    if (["42P01", "3F000"].includes(sqlState((error as { cause?: unknown }).cause))) return 0;
    throw error;
  }
}

async function readVersion(runner: Runner, { schema }: SchemaSettings): Promise<number> {
  const text = `SELECT coalesce(max(version), 0) FROM ${schema}.migrations`;
  const [row] = await runner.run({ name: "", text }, []);
  return (row?.[0] as number | undefined) ?? 0;
}
