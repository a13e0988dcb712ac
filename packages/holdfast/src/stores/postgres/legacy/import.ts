import { StoreUnavailableError } from "../../../errors.js";
import { isFinished, STATE_NAMES, type State } from "../../../job/state.js";
import type { StoredJob } from "../../../store.js";
import { type Db, type Transaction, unnamed } from "../connection/db.js";
import { sqlState } from "../connection/errors.js";
import { addLanes, type Lane } from "../jobs/lanes.js";
import type { QueryOperations } from "../jobs/queries.js";
import { NOW, type Sql } from "../connection/sql.js";
import { blame, checkRows, checkStaged, checkValues } from "./checks.js";
import { readColumns, type Reading } from "./columns.js";
import {
  readImportOptions,
  type ImportPlan,
  type LegacyImport,
  type LegacyImportOptions,
  type LegacyProgress,
} from "./options.js";
import { countRows, moveRows, STAGED, stageRows, stagingTable } from "./rows.js";
import { columnsOf, dropTables, findTable, LOCK_WAIT, lockTables, type Table } from "./table.js";

// An arbitrary number that other programs do not lock.
const IMPORT_LOCK = 4_836_502_118;
const CHUNK = 10_000;
const SAMPLES = 5;
/** After an import of this many rows, the tables are analysed immediately. */
const ANALYZE_FROM = 10_000;

/**
 * importLegacy: turns the rows of an old table into jobs and drops tables, in one transaction. The old table is locked,
 * so that its rows cannot change during the import.
 */
export function importOperation(
  sql: Sql,
  queries: QueryOperations,
): (db: Db, options: LegacyImportOptions, now: number | null) => Promise<LegacyImport> {
  return async (db, options, now) => {
    const { plan, orThrown } = keepingThrown(readImportOptions(options));
    const imported = db.transaction(async (runner) => {
      await runner.script(SETTINGS);
      await acquireImportLock(runner);
      if (!plan.dryRun) return importRows(runner, sql, queries, plan, now);
      await runner.script("SAVEPOINT holdfast_dry_run");
      const found = await importRows(runner, sql, queries, plan, now);
      await runner.script("ROLLBACK TO SAVEPOINT holdfast_dry_run");
      return found;
    });
    const result = await imported.catch(orThrown);
    if (!plan.dryRun && result.imported >= ANALYZE_FROM) {
      // Optional: autovacuum does it later, and the import is committed.
      await db.run(unnamed(`ANALYZE ${sql.s}.live, ${sql.s}.archive`), []).catch(() => {});
    }
    return result;
  };
}

/** Rethrows an error of the caller's `onProgress` unchanged, not as a database error. */
function keepingThrown(plan: ImportPlan): { plan: ImportPlan; orThrown: (error: unknown) => never } {
  let thrown: { error: unknown } | null = null;
  async function onProgress(progress: LegacyProgress): Promise<void> {
    try {
      await plan.onProgress(progress);
    } catch (error) {
      thrown = { error };
      throw error;
    }
  }
  return {
    plan: { ...plan, onProgress },
    orThrown(error) {
      throw thrown === null ? error : thrown.error;
    },
  };
}

/**
 * Timeouts of the role are meant for requests, not for an import. Times without a zone are UTC. READ COMMITTED, so that
 * each statement sees what was committed before the lock was granted.
 */
const SETTINGS = `SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCAL lock_timeout = '${LOCK_WAIT}'; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL timezone = 'UTC'; SET LOCAL datestyle = 'ISO, YMD'`;

/** Allows one import at a time: two tables with the same ids could import a job twice. */
async function acquireImportLock(runner: Transaction): Promise<void> {
  try {
    await runner.script(`SELECT pg_catalog.pg_advisory_xact_lock(${IMPORT_LOCK})`);
  } catch (error) {
    if (sqlState(error) !== "55P03") throw error;
    throw new StoreUnavailableError("another import is running; retry when it has finished", error);
  }
}

async function importRows(
  runner: Transaction,
  sql: Sql,
  queries: QueryOperations,
  plan: ImportPlan,
  clock: number | null,
): Promise<LegacyImport> {
  const table = await findTable(runner, plan.table, sql.s);
  const drop = new Map<string, Table>();
  for (const name of plan.drop) {
    const found = await findTable(runner, name, sql.s);
    drop.set(found.oid, found);
  }
  const dropped = [...drop.values()];
  await lockTables(runner, table, dropped);
  const reading = readColumns(plan.map, await columnsOf(runner, table), table.title, sql.user);
  await tryToDrop(runner, dropped);
  const [time] = await runner.run(unnamed(`WITH ${NOW} SELECT now::float8 FROM t`), [clock]);
  const now = time?.[0] as number;

  const total = await stage(runner, sql, plan, table, reading, now);
  await checkStaged(runner, sql, plan, table);
  const skipped = await removeKnown(runner, sql);
  await plan.onProgress({ done: skipped, total });
  await move(runner, sql, (done) => plan.onProgress({ done: skipped + done, total }));
  const byState = Object.fromEntries(STATE_NAMES.map((state) => [state, 0])) as Record<State, number>;
  for (const [state, n] of await runner.run(unnamed(countRows(sql)), [now])) {
    byState[state as State] = n as number;
  }
  const samples = await readSamples(runner, queries);
  await dropTables(runner, dropped);
  // Last, because from here on other enqueues into the same lanes may have to wait.
  await addStagedLanes(runner, sql, now);
  return {
    imported: total - skipped,
    skipped,
    byState,
    dropped: dropped.map(({ title }) => title),
    samples,
    dryRun: plan.dryRun,
  };
}

/** Checks before a long import whether the tables can be dropped. */
async function tryToDrop(runner: Transaction, tables: readonly Table[]): Promise<void> {
  await runner.script("SAVEPOINT holdfast_drop");
  await dropTables(runner, tables);
  await runner.script("ROLLBACK TO SAVEPOINT holdfast_drop; RELEASE SAVEPOINT holdfast_drop");
}

/** Reads the whole old table into the staging table, as jobs. */
async function stage(
  runner: Transaction,
  sql: Sql,
  plan: ImportPlan,
  table: Table,
  reading: Reading,
  now: number,
): Promise<number> {
  await runner.script(stagingTable(sql));
  // Policies must not hide rows, which would be lost with the table. With row_security off, PostgreSQL raises an error
  // instead.
  await runner.script("SET LOCAL row_security = off; SAVEPOINT holdfast_read");
  try {
    const total = await checkRows(runner, plan, table, reading);
    await checkValues(runner, table, reading);
    const words = [...plan.words.keys()];
    const states = [...plan.words.values()];
    const values = [now, words, states, plan.type, plan.queue, plan.priority, plan.maxAttempts, plan.tags];
    await runner.run(unnamed(stageRows(sql, table, reading)), values);
    await runner.script(`RELEASE SAVEPOINT holdfast_read; SET LOCAL row_security = DEFAULT;
      CREATE UNIQUE INDEX ON ${STAGED} (seq); ANALYZE ${STAGED}`);
    return total;
  } catch (error) {
    throw await blame(runner, error, table, reading);
  }
}

/** Removes staged rows whose job already exists. */
async function removeKnown(runner: Transaction, { s }: Sql): Promise<number> {
  const text = `WITH known AS (
      DELETE FROM ${STAGED} g WHERE EXISTS (SELECT 1 FROM ${s}.live j WHERE j.id = g.id)
        OR EXISTS (SELECT 1 FROM ${s}.archive j WHERE j.id = g.id) RETURNING 1
    ) SELECT pg_catalog.count(*)::integer FROM known`;
  const [row] = await runner.run(unnamed(text), []);
  return row?.[0] as number;
}

async function move(runner: Transaction, sql: Sql, onChunk: (done: number) => unknown): Promise<void> {
  const statement = unnamed(moveRows(sql));
  let last = "-1";
  let done = 0;
  for (;;) {
    const [row] = await runner.run(statement, [last, CHUNK]);
    const [count, upTo] = row as [number, string | null];
    if (upTo === null) return;
    last = upTo;
    done += count;
    await onChunk(done);
  }
}

/** A few imported jobs, of as many states as possible. */
async function readSamples(runner: Transaction, queries: QueryOperations): Promise<StoredJob[]> {
  const text = `SELECT id::text FROM (SELECT id, seq, pg_catalog.row_number() OVER (PARTITION BY state ORDER BY seq) AS n FROM ${STAGED}) g
    ORDER BY n, seq LIMIT ${SAMPLES}`;
  const samples: StoredJob[] = [];
  for (const [id] of await runner.run(unnamed(text), [])) {
    const job = await queries.get(runner, id as string, {});
    if (job !== null) samples.push(job);
  }
  return samples;
}

async function addStagedLanes(runner: Transaction, sql: Sql, now: number): Promise<void> {
  const live = STATE_NAMES.filter((state) => !isFinished(state));
  const text = `SELECT DISTINCT queue, priority FROM ${STAGED} WHERE state = ANY ($1::text[])`;
  const rows = await runner.run(unnamed(text), [live]);
  const lanes: Lane[] = rows.map(([queue, priority]) => ({ queue: queue as string, priority: priority as number }));
  await addLanes(sql, runner, lanes, now);
}
