import { LIMITS } from "../../../defaults.js";
import { jsonBytes } from "../../../job/json.js";
import { isWaiting, type State } from "../../../job/state.js";
import { TIES } from "../../../job/stored-step.js";
import type { NewJob, UniqueKey } from "../../../store.js";
import type { Row, Runner, Statement } from "../connection/db.js";
import { isLockTimeout, isRace, isDuplicate } from "../connection/errors.js";
import {
  BATCH_VALUES,
  columnsOf,
  insertTexts,
  singleOf,
  SINGLE_VALUES,
  widthOf,
  type InsertTexts,
  type Width,
} from "./insert-sql.js";
import type { Recorder } from "./recorder.js";
import { stateStatement, type StateStatement } from "./recording.js";
import type { Sql } from "../connection/sql.js";
import { tagEntries } from "./tag-entries.js";

export type Keyed = NewJob & { unique: UniqueKey };

/** How a batch is written: on the store's own connections, or inside the caller's transaction. */
export interface InsertRunner extends Runner {
  /** Inside a transaction that continues afterwards. */
  inside: boolean;
  /** A failure of this work does not affect other writes of the transaction. */
  isolated<Result>(work: (runner: InsertRunner) => Promise<Result>): Promise<Result>;
  /** All writes of this work are committed, or none. */
  atomic<Result>(work: (runner: Runner) => Promise<Result>): Promise<Result>;
}

/** The time of a batch, and how long its statements wait for locks. */
export interface InsertTerms {
  now: number | null;
  waitMs: number;
}

/** The result for a job with a key: inserted, its id exists, or its key was held. `holder`: the job that holds the key now. */
export type KeyedResult = "new" | "known" | { holder: string | undefined };

/** How jobs are written: directly to the tables, or by functions. */
export interface InsertMethod {
  /** Jobs without keys. Resolves to the ids that are new, comma-separated, or null if all are. */
  plain(runner: InsertRunner, jobs: readonly NewJob[], terms: InsertTerms): Promise<string | null>;
  /** Jobs with keys. */
  keyed(runner: InsertRunner, jobs: readonly Keyed[], terms: InsertTerms): Promise<KeyedResult[]>;
  /**
   * Rewrites the job that holds the key. `freed`: it no longer holds the key. `kept`: it is no longer waiting, so
   * it is unchanged.
   */
  replace(runner: InsertRunner, job: Keyed, holder: string, terms: InsertTerms): Promise<"freed" | "kept" | "replaced">;
}

/**
 * Sets how long this statement waits for locks, to the milliseconds in value `$place`, unless a shorter timeout is set.
 */
function lockWait(place: number): string {
  return `lock_wait AS MATERIALIZED (
    SELECT before, pg_catalog.set_config('lock_timeout', CASE WHEN before::interval > '0' AND before::interval < $${place}::integer * interval '1 ms'
      THEN before ELSE $${place}::text END, true) FROM pg_catalog.current_setting('lock_timeout') AS before)`;
}

/** The statements of inserts. Those in the caller's transaction, and rare ones, always record. */
interface InsertStatements {
  inside: Statement;
  fast: StateStatement;
  single: StateStatement;
  plain: Statement;
  keyed: StateStatement;
  rewrite: Statement;
}

/**
 * With a lock timeout, except in the caller's transaction: an open transaction with the same id, or a lock on the user's row,
 * would block the whole batch.
 */
function insertStatements(sql: Sql, width: Width): InsertStatements {
  const texts = insertTexts(sql, width);
  const both = (title: string, text: (texts: InsertTexts) => string): StateStatement =>
    stateStatement(sql, name(title), (recording) => text(insertTexts(sql, width, recording)));
  const wait = lockWait(BATCH_VALUES[width] + 1);
  const name = (title: string): string => (width === "narrow" ? title : `${title}_${width}`);
  return {
    inside: sql.statement(name("insert_inside"), texts.plain(null)),
    fast: both("insert_fast", (each) => each.fast(wait)),
    single: both("insert_single", (each) => each.single(lockWait(SINGLE_VALUES[width] + 1))),
    plain: sql.statement(name("insert"), texts.plain(wait)),
    keyed: both("insert_keyed", (each) => each.keyed(wait)),
    rewrite: sql.statement(name("rewrite"), texts.rewrite),
  };
}

/** Direct writes, for roles with privileges on the tables. */
export function directInserts(sql: Sql, recorder: Recorder): InsertMethod {
  const { s } = sql;
  const statements = {
    narrow: insertStatements(sql, "narrow"),
    wide: insertStatements(sql, "wide"),
    tied: insertStatements(sql, "tied"),
  };
  const restoreLockTimeout = sql.statement(
    "restore_lock_timeout",
    "SELECT pg_catalog.set_config('lock_timeout', $1, true) AS lock_timeout",
  );
  const holders = sql.statement("holders", `SELECT key, job::text AS job FROM ${s}.keys WHERE key = ANY ($1::text[])`);
  const exists = sql.statement(
    "exists",
    `SELECT 1 FROM ${s}.live WHERE id = $1::uuid UNION ALL SELECT 1 FROM ${s}.archive WHERE id = $1::uuid`,
  );
  const lockHolder = sql.statement(
    "lock_holder",
    `WITH ${lockWait(2)}, locked AS (
       SELECT live.id, state, queue, type, (ties & ${TIES.steps}) <> 0 AS has_steps FROM ${s}.live, lock_wait WHERE live.id = $1::uuid FOR UPDATE OF live
     ) SELECT id::text AS id, state, queue, type, before, has_steps FROM lock_wait LEFT JOIN locked ON true`,
  );
  const holdsKey = `SELECT 1 FROM ${s}.keys WHERE key = $1 AND job = $2::uuid`;
  const checkKey = sql.statement("check_key", holdsKey);
  const lockKey = sql.statement("lock_key", `${holdsKey} FOR UPDATE`);
  const dropTags = sql.statement("rewrite_tags_off", `DELETE FROM ${s}.tags WHERE job = $1::uuid`);
  const addTags = sql.statement(
    "rewrite_tags_on",
    `INSERT INTO ${s}.tags (tag, seq, job) SELECT pg_catalog.unnest(${tagEntries("j")}), j.seq, j.id FROM ${s}.live j WHERE j.id = $1::uuid`,
  );
  const dropInput = sql.statement("rewrite_input_off", `DELETE FROM ${s}.inputs WHERE job = $1::uuid`);
  const rewriteInput = sql.statement(
    "rewrite_input_on",
    `INSERT INTO ${s}.inputs (job, input) VALUES ($1::uuid, $2::json) ON CONFLICT (job) DO UPDATE SET input = $2::json`,
  );

  async function insertRows(runner: InsertRunner, jobs: readonly NewJob[], terms: InsertTerms): Promise<Row[]> {
    const width = widthOf(jobs);
    const { inside, fast, single, plain } = statements[width];
    // The caller's transaction has its own lock timeout.
    if (runner.inside) return runner.run(inside, columnsOf(jobs, terms.now, width));
    const wait = terms.waitMs;
    const [only] = jobs;
    const values = jobs.length === 1 && only !== undefined ? singleOf(only, terms.now, width) : null;
    try {
      if (values !== null) return await recorder.run(runner, single, [...values, wait]);
      return await recorder.run(runner, fast, [...columnsOf(jobs, terms.now, width), wait]);
    } catch (error) {
      // The slower statement looks up existing ids first, so duplicates do not wait for locks.
      if (![isDuplicate, isRace, isLockTimeout].some((is) => is(error))) throw error;
      return runner.run(plain, [...columnsOf(jobs, terms.now, width), wait]);
    }
  }

  /** Restores the lock timeout for the statements that follow in the same transaction. */
  async function restoreTimeout(runner: Runner, inside: boolean, before: unknown): Promise<void> {
    if (inside && before !== undefined) await runner.run(restoreLockTimeout, [before]);
  }

  return {
    async plain(runner, jobs, terms) {
      const [[fresh]] = (await insertRows(runner, jobs, terms)) as [Row];
      return fresh as string | null;
    },
    async keyed(runner, jobs, { now, waitMs }) {
      const width = widthOf(jobs);
      const { keyed } = statements[width];
      const values = [...columnsOf(jobs, now, width), waitMs];
      const rowsIn = runner.inside
        ? await runner.run(keyed.recorded, values)
        : await recorder.run(runner, keyed, values);
      await restoreTimeout(runner, runner.inside, rowsIn[0]?.[3]);
      const rows = new Map(rowsIn.map((row) => [row[0] as string, row]));
      const results = jobs.map(({ id }): KeyedResult => {
        const [, inserted, known] = rows.get(id) ?? [];
        if (inserted === true) return "new";
        return known === true ? "known" : { holder: undefined };
      });
      const held = jobs.filter((_, at) => typeof results[at] === "object");
      if (held.length === 0) return results;
      const found = new Map((await runner.run(holders, [held.map(({ unique }) => unique.key)])) as [string, string][]);
      for (const [at, { id, unique }] of jobs.entries()) {
        if (typeof results[at] !== "object") continue;
        const holder = found.get(unique.key);
        // This very job, just inserted by another transaction; or a deleted job whose key is held forever.
        const isKnown = holder === id && (await runner.run(exists, [id])).length > 0;
        results[at] = isKnown ? "known" : { holder };
      }
      return results;
    },
    replace: (runner, job, holder, { now, waitMs }) =>
      runner.atomic(async (tx) => {
        const [[id, state, queue, type, before, hasSteps]] = (await tx.run(lockHolder, [holder, waitMs])) as [Row];
        const waits = id !== null && isWaiting(state as State) && hasSteps !== true;
        // The holder may have lost the key to another job before it was locked.
        const stillHolds = (await tx.run(waits ? lockKey : checkKey, [job.unique.key, holder])).length > 0;
        await restoreTimeout(tx, runner.inside, before);
        if (!stillHolds) return "freed";
        if (!waits) return "kept";
        await tx.run(dropTags, [holder]);
        const width = widthOf([job]);
        await tx.run(statements[width].rewrite, [...columnsOf([job], now, width), holder, queue, type, state]);
        await tx.run(addTags, [holder]);
        if (jsonBytes(job.input) > LIMITS.inlineInputBytes) await tx.run(rewriteInput, [holder, job.input]);
        else await tx.run(dropInput, [holder]);
        return "replaced";
      }),
  };
}
