import { InvalidOptionError, SchemaTooNewError, StoreUnavailableError } from "../../../errors.js";
import { optionKeys, readCount, refuseUnknown } from "../../../options.js";
import type { PendingMigration } from "../../../store.js";
import { refuseAccess } from "./access.js";
import { type Db, unnamed } from "../connection/db.js";
import { sqlState } from "../connection/errors.js";
import { MIGRATIONS } from "./migrations.js";
import { refuseForeign } from "./owners.js";
import { stepsFor } from "./migration-plan.js";
import type { Migration, SchemaSettings } from "./schema.js";
import {
  block,
  LOCK_WAITS,
  MIGRATION_LOCK,
  undoStep,
  type LockWaits,
  type SchemaState,
  type Step,
} from "./migration-steps.js";
import { refuseUsers } from "./users.js";

/** How long a migration tries when other sessions hold the locks it needs. */
export interface Patience {
  waits: LockWaits;
  tries: number;
  /** Lets the workers proceed that waited behind the lock request. */
  pause(attempt: number): Promise<void>;
}

const PATIENCE: Patience = {
  waits: LOCK_WAITS,
  tries: 5,
  pause: (attempt) => new Promise((resolve) => setTimeout(resolve, attempt * 500)),
};

export interface MigrateOptions {
  migrations?: readonly Migration[];
  patience?: Patience;
}

/** Applies the pending steps, each in its own transaction, in one process at a time. */
export async function migrate(db: Db, settings: SchemaSettings, options: MigrateOptions = {}): Promise<void> {
  const { migrations = MIGRATIONS, patience = PATIENCE } = options;
  const before = await readSchemaState(db, settings);
  refuse(before, settings, migrations.length);
  // If the schema is up to date, a start needs no locks, and no privileges to create anything.
  const missing = stepsFor(settings, migrations).filter(({ isDone }) => !isDone(before));
  if (missing.length === 0) return;
  await refuseUsers(db, settings);
  await refuseAccess(db, settings);
  for (const step of missing) {
    // Before each step: another role may have just created the schema.
    await refuseForeign(db, settings);
    await runPatiently(db, settings, step, patience);
  }
  // A newer version may have migrated while this one waited for the lock.
  refuse(await readSchemaState(db, settings), settings, migrations.length);
}

/** The steps that `migrate` would run. */
export async function pendingMigrations(
  db: Db,
  settings: SchemaSettings,
  { migrations = MIGRATIONS }: MigrateOptions = {},
): Promise<PendingMigration[]> {
  const state = await readSchemaState(db, settings);
  refuse(state, settings, migrations.length);
  return stepsFor(settings, migrations)
    .filter(({ isDone }) => !isDone(state))
    .map(({ title }) => ({ title, createsTables: state.version === 0 }));
}

/** Options of `undoMigrations`. */
export interface UndoOptions {
  /** The version to return to; 0 drops all tables. */
  to: number;
  /** Confirms that what the undone versions stored is deleted. */
  loseData: true;
}
const UNDO_FIELDS: ReadonlySet<string> = optionKeys<UndoOptions>({ to: true, loseData: true });

export async function undoMigrations(
  db: Db,
  settings: SchemaSettings,
  given: UndoOptions,
  options: MigrateOptions = {},
): Promise<void> {
  const { migrations = MIGRATIONS, patience = PATIENCE } = options;
  refuseUnknown(given, UNDO_FIELDS, "undoMigrations");
  const to = readCount(given.to, "to", 0, migrations.length);
  if (given.loseData !== true) {
    throw new InvalidOptionError(
      "loseData",
      "must be true: undoing migrations deletes what they stored, including jobs",
    );
  }
  const state = await readSchemaState(db, settings);
  refuse(state, settings, migrations.length);
  for (const migration of migrations.slice(to, state.version).toReversed()) {
    await runPatiently(db, settings, undoStep(settings, migration), patience);
  }
}

/**
 * Runs a step, and tries again later if it does not get a lock in time: all sessions that need the table queue behind a
 * waiting lock request, and workers must not stop because of a forgotten open transaction.
 */
async function runPatiently(db: Db, settings: SchemaSettings, step: Step, patience: Patience): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await db.transaction((runner) => runner.script(block(step, patience.waits)));
      return;
    } catch (error) {
      if (sqlState((error as Error).cause) !== "55P03") throw error;
      if (attempt >= patience.tries) {
        const holder = await holderOf(db, settings).catch(() => null);
        throw new StoreUnavailableError(
          `${step.title}: timed out waiting for locks that other sessions hold (${attempt} tries)${holder ?? ""}; nothing was changed, retry later`,
          error,
        );
      }
      await patience.pause(attempt);
    }
  }
}

/** The session with the oldest transaction among those that hold a lock which a migration needs. */
async function holderOf(db: Db, { schema: s, users }: SchemaSettings): Promise<string | null> {
  const usersTable = users === null ? "" : `OR l.relation = pg_catalog.to_regclass('${users.table}')`;
  const text = `SELECT a.pid, CASE WHEN a.application_name <> '' THEN a.application_name ELSE coalesce(a.usename::text, '?') END, coalesce(a.state, '?'),
      extract(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::integer
    FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
    WHERE l.granted AND a.pid <> pg_catalog.pg_backend_pid() AND a.datname = pg_catalog.current_database() AND (
      l.relation IN (SELECT oid FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.to_regnamespace('${s}')) ${usersTable}
      OR (l.locktype = 'advisory' AND (l.classid::bigint << 32 | l.objid::bigint) = ${MIGRATION_LOCK}))
    ORDER BY a.xact_start NULLS LAST LIMIT 1`;
  const [row] = await db.run(unnamed(text), []);
  if (row === undefined) return null;
  const [pid, name, state, seconds] = row as [number, string, string, number | null];
  const since = seconds === null ? "" : `, transaction open for ${seconds} s`;
  return `. Session ${pid} (${name}, ${state}${since}) holds one; end it with SELECT pg_terminate_backend(${pid})`;
}

function refuse({ version, settings }: SchemaState, { schema, userType }: SchemaSettings, latest: number): void {
  if (version > latest) {
    throw new SchemaTooNewError(
      `the database has schema version ${version}, but this version of Holdfast supports only ${latest}; upgrade the holdfast package`,
    );
  }
  const created = settings.get("userType") ?? userType;
  if (created !== userType) {
    throw new InvalidOptionError(
      "userType",
      `is "${userType}", but the tables in schema ${schema} were created with "${created}"`,
    );
  }
}

async function readSchemaState(db: Db, { schema: s }: SchemaSettings): Promise<SchemaState> {
  const text = `SELECT (SELECT pg_catalog.max(version) FROM ${s}.migrations), name, value FROM ${s}.settings`;
  try {
    const rows = (await db.run(unnamed(text), [])) as unknown as [number, string, string][];
    return { version: rows[0]?.[0] ?? 0, settings: new Map(rows.map(([, name, value]) => [name, value])) };
  } catch (error) {
    if (["42P01", "3F000"].includes(sqlState((error as Error).cause))) return { version: 0, settings: new Map() };
    throw error;
  }
}
