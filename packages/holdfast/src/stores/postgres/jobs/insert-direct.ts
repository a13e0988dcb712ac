import { LIMITS } from "../../../defaults.js";
import { jsonBytes } from "../../../job/json.js";
import { isWaiting, type State } from "../../../job/state.js";
import type { NewJob, UniqueKey } from "../../../store.js";
import type { Row, Runner } from "../connection/db.js";
import { isLockTimeout, isRace, isTwice } from "../connection/errors.js";
import { columnsOf, insertTexts, singleOf } from "./insert-sql.js";
import type { Sql } from "../connection/sql.js";

export type Keyed = NewJob & { unique: UniqueKey };

/** How a batch is written: on connections of our own, or inside a transaction that somebody else began. */
export interface InsertRunner extends Runner {
  /** Inside a transaction that goes on afterwards. */
  inside: boolean;
  /** What fails in here must not spoil what is written beside it. */
  apart<Answer>(work: (runner: InsertRunner) => Promise<Answer>): Promise<Answer>;
  /** What is written in here is written whole or not at all. */
  together<Answer>(work: (runner: Runner) => Promise<Answer>): Promise<Answer>;
}

/** When a batch is written, and how long its statements wait for locks. */
export interface InsertTerms {
  now: number | null;
  waitMs: number;
}

/** What came of a job with a key: it is new, its id was known, or its key is held, by `holder` if that is still so. */
export type KeyedResult = "new" | "known" | { holder: string | undefined };

/** The way that jobs take into the tables. */
export interface InsertWay {
  /** Jobs without keys; answers which ids are new, with commas between, or null if all are. */
  plain(runner: InsertRunner, jobs: readonly NewJob[], terms: InsertTerms): Promise<string | null>;
  /** Jobs with keys. */
  keyed(runner: InsertRunner, jobs: readonly Keyed[], terms: InsertTerms): Promise<KeyedResult[]>;
  /** Rewrites the job that held the key, if it still does (or else it is `freed`) and waits (or else it is `kept`). */
  replace(runner: InsertRunner, job: Keyed, holder: string, terms: InsertTerms): Promise<"freed" | "kept" | "replaced">;
}

/** Sets how long this statement waits for locks, from value `$place` in milliseconds, unless less is set already. */
function impatient(place: number): string {
  return `impatient AS MATERIALIZED (
    SELECT before, pg_catalog.set_config('lock_timeout', CASE WHEN before::interval > '0' AND before::interval < $${place}::integer * interval '1 ms'
      THEN before ELSE $${place}::text END, true) FROM pg_catalog.current_setting('lock_timeout') AS before)`;
}

/** By statements of our own, for those who may write the tables. */
export function directWay(sql: Sql): InsertWay {
  const { s } = sql;
  const texts = insertTexts(sql);
  const insertInside = sql.statement("insert_inside", texts.plain(null));
  // Whoever has the id in an open transaction, or has locked the user's row, would hold up the whole batch.
  const insertQuickly = sql.statement("insert_quickly", texts.quick(impatient(20)));
  const insertSingle = sql.statement("insert_single", texts.single(impatient(14)));
  const insertPlain = sql.statement("insert", texts.plain(impatient(20)));
  const insertKeyed = sql.statement("insert_keyed", texts.keyed(impatient(20)));
  const patientAgain = sql.statement(
    "patient_again",
    "SELECT pg_catalog.set_config('lock_timeout', $1, true) AS patience",
  );
  const holders = sql.statement("holders", `SELECT key, job::text AS job FROM ${s}.keys WHERE key = ANY ($1::text[])`);
  const exists = sql.statement(
    "exists",
    `SELECT 1 FROM ${s}.live WHERE id = $1::uuid UNION ALL SELECT 1 FROM ${s}.archive WHERE id = $1::uuid`,
  );
  const lockHolder = sql.statement(
    "lock_holder",
    `WITH ${impatient(2)}, locked AS (
       SELECT live.id, state, queue, type FROM ${s}.live, impatient WHERE live.id = $1::uuid FOR UPDATE OF live
     ) SELECT id::text AS id, state, queue, type, before FROM impatient LEFT JOIN locked ON true`,
  );
  const holdsKey = `SELECT 1 FROM ${s}.keys WHERE key = $1 AND job = $2::uuid`;
  const lookAtKey = sql.statement("look_at_key", holdsKey);
  const lockKey = sql.statement("lock_key", `${holdsKey} FOR UPDATE`);
  const rewrite = sql.statement("rewrite", texts.rewrite);
  const dropTags = sql.statement("rewrite_tags_off", `DELETE FROM ${s}.tags WHERE job = $1::uuid`);
  const addTags = sql.statement(
    "rewrite_tags_on",
    `INSERT INTO ${s}.tags (tag, seq, job) SELECT pg_catalog.unnest(tags), seq, id FROM ${s}.live WHERE id = $1::uuid`,
  );
  const dropInput = sql.statement("rewrite_input_off", `DELETE FROM ${s}.inputs WHERE job = $1::uuid`);
  const rewriteInput = sql.statement(
    "rewrite_input_on",
    `INSERT INTO ${s}.inputs (job, input) VALUES ($1::uuid, $2::json) ON CONFLICT (job) DO UPDATE SET input = $2::json`,
  );

  async function insertRows(runner: InsertRunner, jobs: readonly NewJob[], terms: InsertTerms): Promise<Row[]> {
    // Inside a transaction it is waited for as whoever began that has set it.
    if (runner.inside) return runner.run(insertInside, columnsOf(jobs, terms.now));
    const wait = terms.waitMs;
    const [only] = jobs;
    const single = jobs.length === 1 && only !== undefined ? singleOf(only, terms.now) : null;
    try {
      if (single !== null) return await runner.run(insertSingle, [...single, wait]);
      return await runner.run(insertQuickly, [...columnsOf(jobs, terms.now), wait]);
    } catch (error) {
      // With a look at what is known first: what is told by that waits for nobody.
      if (![isTwice, isRace, isLockTimeout].some((is) => is(error))) throw error;
      return runner.run(insertPlain, [...columnsOf(jobs, terms.now), wait]);
    }
  }

  /** What comes after in the same transaction waits for locks as before. */
  async function calm(runner: Runner, inside: boolean, before: unknown): Promise<void> {
    if (inside && before !== undefined) await runner.run(patientAgain, [before]);
  }

  return {
    async plain(runner, jobs, terms) {
      const [[fresh]] = (await insertRows(runner, jobs, terms)) as [Row];
      return fresh as string | null;
    },
    async keyed(runner, jobs, { now, waitMs }) {
      const rowsIn = await runner.run(insertKeyed, [...columnsOf(jobs, now), waitMs]);
      await calm(runner, runner.inside, rowsIn[0]?.[3]);
      const rows = new Map(rowsIn.map((row) => [row[0] as string, row]));
      const answers = jobs.map(({ id }): KeyedResult => {
        const [, inserted, known] = rows.get(id) ?? [];
        if (inserted === true) return "new";
        return known === true ? "known" : { holder: undefined };
      });
      const held = jobs.filter((_, at) => typeof answers[at] === "object");
      if (held.length === 0) return answers;
      const found = new Map((await runner.run(holders, [held.map(({ unique }) => unique.key)])) as [string, string][]);
      for (const [at, { id, unique }] of jobs.entries()) {
        if (typeof answers[at] !== "object") continue;
        const holder = found.get(unique.key);
        // The very job, inserted by somebody else this moment; or one that is gone, while its key is held for good.
        const isKnown = holder === id && (await runner.run(exists, [id])).length > 0;
        answers[at] = isKnown ? "known" : { holder };
      }
      return answers;
    },
    replace: (runner, job, holder, { now, waitMs }) =>
      runner.together(async (apart) => {
        const [[id, state, queue, type, before]] = (await apart.run(lockHolder, [holder, waitMs])) as [Row];
        const waits = id !== null && isWaiting(state as State);
        // Before the holder was locked, it may have lost the key to another job. That one's it stays.
        const stillHolds = (await apart.run(waits ? lockKey : lookAtKey, [job.unique.key, holder])).length > 0;
        await calm(apart, runner.inside, before);
        if (!stillHolds) return "freed";
        if (!waits) return "kept";
        await apart.run(dropTags, [holder]);
        await apart.run(rewrite, [...columnsOf([job], now), holder, queue, type, state]);
        await apart.run(addTags, [holder]);
        if (jsonBytes(job.input) > LIMITS.inlineInputBytes) await apart.run(rewriteInput, [holder, job.input]);
        else await apart.run(dropInput, [holder]);
        return "replaced";
      }),
  };
}
