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
  undone,
  type LockWaits,
  type Standing,
  type Step,
} from "./migration-steps.js";
import { refuseUsers } from "./users.js";

/** How stubborn a migration is where others hold the locks it needs. */
export interface Patience {
  waits: LockWaits;
  tries: number;
  /** Gives the workers that waited behind us their turn. */
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

/** Applies what is missing, one step a transaction, one process at a time. */
export async function migrate(db: Db, settings: SchemaSettings, options: MigrateOptions = {}): Promise<void> {
  const { migrations = MIGRATIONS, patience = PATIENCE } = options;
  const before = await standingOf(db, settings);
  refuse(before, settings, migrations.length);
  // Looking first spares a start on an up-to-date database the locks, and the rights to create anything.
  const missing = stepsFor(settings, migrations).filter(({ isDone }) => !isDone(before));
  if (missing.length === 0) return;
  await refuseUsers(db, settings);
  await refuseAccess(db, settings);
  for (const step of missing) {
    // Each time: somebody may have made the schema just before we would have.
    await refuseForeign(db, settings);
    await patiently(db, settings, step, patience);
  }
  // Others may have gone further while we waited for our turn.
  refuse(await standingOf(db, settings), settings, migrations.length);
}

/** The steps that `migrate` would take. */
export async function pendingMigrations(
  db: Db,
  settings: SchemaSettings,
  { migrations = MIGRATIONS }: MigrateOptions = {},
): Promise<PendingMigration[]> {
  const standing = await standingOf(db, settings);
  refuse(standing, settings, migrations.length);
  return stepsFor(settings, migrations)
    .filter(({ isDone }) => !isDone(standing))
    .map(({ title }) => ({ title, createsTables: standing.version === 0 }));
}

/** What `undoMigrations` is told. */
export interface UndoOptions {
  /** The version to go back to; 0 takes every table away. */
  to: number;
  /** That it is meant: what the versions in between have stored is lost. */
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
      "must be true: undoing migrations deletes what they stored, jobs included",
    );
  }
  const standing = await standingOf(db, settings);
  refuse(standing, settings, migrations.length);
  for (const migration of migrations.slice(to, standing.version).toReversed()) {
    await patiently(db, settings, undone(settings, migration), patience);
  }
}

/**
 * Runs a step, and gives way where it waits too long for a lock: whoever asks for a table behind us waits as long as we
 * do, and workers must not stand still because someone left a transaction open.
 */
async function patiently(db: Db, settings: SchemaSettings, step: Step, patience: Patience): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await db.transaction((runner) => runner.script(block(step, patience.waits)));
      return;
    } catch (error) {
      if (sqlState((error as Error).cause) !== "55P03") throw error;
      if (attempt >= patience.tries) {
        const holder = await holderOf(db, settings).catch(() => null);
        throw new StoreUnavailableError(
          `${step.title}: others held the locks it needs, in each of ${attempt} tries${holder ?? ""}; nothing was changed by it, try again later`,
          error,
        );
      }
      await patience.pause(attempt);
    }
  }
}

/** The session with the oldest transaction among those that hold a lock a migration may need. */
async function holderOf(db: Db, { schema: s, users }: SchemaSettings): Promise<string | null> {
  const theirs = users === null ? "" : `OR l.relation = pg_catalog.to_regclass('${users.table}')`;
  const text = `SELECT a.pid, CASE WHEN a.application_name <> '' THEN a.application_name ELSE coalesce(a.usename::text, '?') END, coalesce(a.state, '?'),
      extract(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::integer
    FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
    WHERE l.granted AND a.pid <> pg_catalog.pg_backend_pid() AND a.datname = pg_catalog.current_database() AND (
      l.relation IN (SELECT oid FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.to_regnamespace('${s}')) ${theirs}
      OR (l.locktype = 'advisory' AND (l.classid::bigint << 32 | l.objid::bigint) = ${MIGRATION_LOCK}))
    ORDER BY a.xact_start NULLS LAST LIMIT 1`;
  const [row] = await db.run(unnamed(text), []);
  if (row === undefined) return null;
  const [pid, name, state, seconds] = row as [number, string, string, number | null];
  const since = seconds === null ? "" : `, its transaction ${seconds} s old`;
  return `. Session ${pid} (${name}, ${state}${since}) holds some; SELECT pg_terminate_backend(${pid}) would end it`;
}

function refuse({ version, settings }: Standing, { schema, userType }: SchemaSettings, latest: number): void {
  if (version > latest) {
    throw new SchemaTooNewError(
      `the database is at schema version ${version}, this version of Holdfast knows ${latest}; upgrade the holdfast package`,
    );
  }
  const made = settings.get("userType") ?? userType;
  if (made !== userType) {
    throw new InvalidOptionError(
      "userType",
      `is "${userType}", but the tables in schema ${schema} were made with "${made}"`,
    );
  }
}

async function standingOf(db: Db, { schema: s }: SchemaSettings): Promise<Standing> {
  const text = `SELECT (SELECT pg_catalog.max(version) FROM ${s}.migrations), name, value FROM ${s}.settings`;
  try {
    const rows = (await db.run(unnamed(text), [])) as unknown as [number, string, string][];
    return { version: rows[0]?.[0] ?? 0, settings: new Map(rows.map(([, name, value]) => [name, value])) };
  } catch (error) {
    if (["42P01", "3F000"].includes(sqlState((error as Error).cause))) return { version: 0, settings: new Map() };
    throw error;
  }
}
