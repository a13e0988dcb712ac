import { LIMITS } from "../../defaults.js";
import { StoreUnavailable } from "../../errors.js";
import { jsonBytes } from "../../json.js";
import { isWaiting, type State } from "../../state.js";
import type { InsertAnswer, NewJob, UniqueKey } from "../../store.js";
import type { Row, Runner, Statement } from "./db.js";
import { isLockTimeout, isRace, isRowsFault, isTwice, rowsFault } from "./faults.js";
import { insertTexts, singleOf } from "./insert-sql.js";
import { NOW, once, orNull, textArray, type Sql } from "./sql.js";

type Keyed = NewJob & { unique: UniqueKey };

// How long a job waits for somebody's open transaction that is about to take its key or its id, or has locked its user's
// row. On connections of our own, where the rest of the batch waits with it, for a moment: it is asked again. Inside a
// transaction, which holds up nobody but itself, for as long as most transactions take.
const WAIT_MS = { own: 30, impatient: 1, inside: 2_000 };
// Waits that one batch may go through until it is known which of its jobs have to be asked again, and how many of them
// are long.
const MOST_WAITS = 400;
const PATIENT_WAITS = 5;
const MOST_RACES = 5;

/** Sets how long this statement waits for locks, from value `$place` in milliseconds, unless less is set already. */
function impatient(place: number): string {
  return `impatient AS MATERIALIZED (
    SELECT before, pg_catalog.set_config('lock_timeout', CASE WHEN before::interval > '0' AND before::interval < $${place}::integer * interval '1 ms'
      THEN before ELSE $${place}::text END, true) FROM pg_catalog.current_setting('lock_timeout') AS before)`;
}

/** How a batch is written: on connections of our own, or inside a transaction that somebody else began. */
export interface InsertRunner extends Runner {
  /** Inside a transaction that goes on afterwards. */
  inside: boolean;
  /** What fails in here must not spoil what is written beside it. */
  apart<Answer>(work: (runner: InsertRunner) => Promise<Answer>): Promise<Answer>;
  /** What is written in here is written whole or not at all. */
  together<Answer>(work: (runner: Runner) => Promise<Answer>): Promise<Answer>;
}

/** What a batch shares with its parts. */
interface Asked {
  readonly now: number | null;
  /** Waits for locks that it may still go through. */
  waits: number;
  /** Times that it may still find an id inserted by others. */
  races: number;
}
/** One try to write some jobs of a batch. */
type Attempt<Job> = (runner: InsertRunner, jobs: readonly Job[], asked: Asked) => Promise<(InsertAnswer | "busy")[]>;
type Write<Answer> = (runner: InsertRunner, jobs: readonly NewJob[], now: number | null) => Promise<Answer[]>;
export interface InsertOperations {
  insert: Write<InsertAnswer | "busy">;
  /** Inside a transaction, where a key that is about to be taken by others is waited for, or else an error. */
  insertInside: Write<InsertAnswer>;
}

/** insert: new rows, duplicates by id, and the three answers to a unique key that is held. */
export function insertOperations(sql: Sql): InsertOperations {
  const { s, user } = sql;
  const texts = insertTexts(sql);
  const { given } = texts;
  const insertInside: Statement = sql.statement("insert_inside", texts.plain(null));
  // Whoever has the id in an open transaction, or has locked the user's row, would hold up the whole batch.
  const insertQuickly: Statement = sql.statement("insert_quickly", texts.quick(impatient(20)));
  const insertSingle: Statement = sql.statement("insert_single", texts.single(impatient(14)));
  const insertPlain: Statement = sql.statement("insert", texts.plain(impatient(20)));
  const insertKeyed: Statement = sql.statement("insert_keyed", texts.keyed(impatient(20)));
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
  const rewrite = sql.statement(
    "rewrite",
    `WITH ${NOW}, ${given}, rewritten AS (
       UPDATE ${s}.live SET type = g.type, queue = g.queue, priority = g.priority, state = 'pending', user_id = g.user_id::${user},
         input = CASE WHEN g.input_bytes <= ${LIMITS.inlineInputBytes} THEN g.input::json END, input_bytes = g.input_bytes,
         attempt = 0, max_attempts = g.max_attempts, losses = 0, releases = 0, run_at = g.due, due_at = g.due,
         expires_at = g.expires_at, updated_at = g.now, key_scope = g.key_scope, schedule = g.schedule, slot = g.slot, trace = g.trace,
         tags = CASE WHEN g.tags IS NOT NULL THEN ARRAY(SELECT pg_catalog.json_array_elements_text(g.tags::json)) END,
         error = NULL, error_code = NULL, error_at = NULL, progress = NULL, progress_note = NULL
       FROM given g WHERE live.id = $20::uuid RETURNING live.id, live.seq, live.tags, live.created_at
     ), retaken AS (
       INSERT INTO ${s}.keys (key, job, scope, until)
       SELECT key, $20::uuid, key_scope, CASE WHEN key_scope = 'period' THEN now + period_ms END FROM given
       ON CONFLICT (key) DO UPDATE SET job = excluded.job, scope = excluded.scope, until = excluded.until
     ), counted AS (
       INSERT INTO ${s}.deltas (at, queue, type, state, n, ended, first_seq, last_seq, oldest, newest)
       SELECT now, $21::text, $22::text, $23::text, -1, false, NULL, NULL, NULL, NULL FROM t
       UNION ALL SELECT now, queue, type, 'pending', 1, false, seq, seq, created_at, created_at FROM given, rewritten
     )
     SELECT 1 FROM rewritten`,
  );
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

  async function insertRows(runner: InsertRunner, jobs: readonly NewJob[], asked: Asked): Promise<Row[]> {
    // Inside a transaction it is waited for as whoever began that has set it.
    if (runner.inside) return runner.run(insertInside, columnsOf(jobs, asked.now));
    const wait = waitMs(runner, asked);
    const [only] = jobs;
    const single = jobs.length === 1 && only !== undefined ? singleOf(only, asked.now) : null;
    try {
      if (single !== null) return await runner.run(insertSingle, [...single, wait]);
      return await runner.run(insertQuickly, [...columnsOf(jobs, asked.now), wait]);
    } catch (error) {
      // With a look at what is known first: what is told by that waits for nobody.
      if (![isTwice, isRace, isLockTimeout].some((is) => is(error))) throw error;
      return runner.run(insertPlain, [...columnsOf(jobs, asked.now), wait]);
    }
  }

  const plain: Attempt<NewJob> = async (runner, jobs, asked) => {
    const [[fresh]] = (await insertRows(runner, jobs, asked)) as [Row];
    if (fresh === null) return jobs.map(() => INSERTED);
    const inserted = new Set((fresh as string).split(","));
    return jobs.map((job) => (inserted.has(job.id) ? INSERTED : { status: "duplicate", of: job.id, replaced: false }));
  };

  /** What comes after in the same transaction waits for locks as before. */
  async function calm(runner: Runner, inside: boolean, before: unknown): Promise<void> {
    if (inside && before !== undefined) await runner.run(patientAgain, [before]);
  }

  const keyed: Attempt<Keyed> = async (runner, jobs, asked) => {
    const answers: (InsertAnswer | "busy")[] = [];
    // In the order of the keys, as every other writer has it, so that two batches cannot wait for each other.
    const rowsIn = await runner.run(insertKeyed, [...columnsOf(jobs, asked.now), waitMs(runner, asked)]);
    await calm(runner, runner.inside, rowsIn[0]?.[3]);
    const held: { at: number; job: Keyed }[] = [];
    const rows = new Map(rowsIn.map((row) => [row[0] as string, row]));
    for (const [at, job] of jobs.entries()) {
      const [, inserted, known] = rows.get(job.id) ?? [];
      if (inserted === true) answers[at] = INSERTED;
      else if (known === true) answers[at] = { status: "duplicate", of: job.id, replaced: false };
      else held.push({ at, job });
    }
    if (held.length === 0) return answers;
    const found = new Map((await runner.run(holders, [held.map(({ job }) => job.unique.key)])) as [string, string][]);
    for (const { at, job } of held) answers[at] = await heldKey(runner, job, found.get(job.unique.key), asked);
    return answers;
  };

  /** The answer to one job whose key was held a moment ago, by `holder` if that is still known. */
  async function heldKey(
    runner: InsertRunner,
    job: Keyed,
    holder: string | undefined,
    asked: Asked,
  ): Promise<InsertAnswer | "busy"> {
    if (asked.waits <= 0 && job.unique.onConflict === "replace") return "busy";
    // Freed in between: another try takes it.
    const answer: Attempt<Keyed> =
      holder === undefined ? keyed : async (apart) => [await conflict(apart, job, holder, asked)];
    // On connections of our own, the rest of its batch is committed: asked again, it would be its own duplicate. So what
    // this job meets is this job's. Inside a transaction the rest is undone with it.
    const [told] = runner.inside ? await answer(runner, [job], asked) : await splitting(runner, [job], answer, asked);
    return told as InsertAnswer | "busy";
  }

  async function conflict(runner: InsertRunner, job: Keyed, of: string, asked: Asked): Promise<InsertAnswer | "busy"> {
    // The very job, inserted by somebody else this moment; or one that is gone, while its key is held for good.
    if (of === job.id && (await runner.run(exists, [of])).length > 0)
      return { status: "duplicate", of, replaced: false };
    if (job.unique.onConflict === "reject") return { status: "refused", reason: "key held", of };
    if (job.unique.onConflict === "keep") return { status: "duplicate", of, replaced: false };
    const became = await runner.together(async (apart) => {
      const [[id, state, queue, type, before]] = (await apart.run(lockHolder, [of, waitMs(runner, asked)])) as [Row];
      const waits = id !== null && isWaiting(state as State);
      // Before the holder was locked, it may have lost the key to another job. That one's it stays.
      const stillHolds = (await apart.run(waits ? lockKey : lookAtKey, [job.unique.key, of])).length > 0;
      await calm(apart, runner.inside, before);
      if (!stillHolds) return "freed";
      if (!waits) return "kept";
      await apart.run(dropTags, [of]);
      await apart.run(rewrite, [...columnsOf([job], asked.now), of, queue, type, state]);
      await apart.run(addTags, [of]);
      if (jsonBytes(job.input) > LIMITS.inlineInputBytes) await apart.run(rewriteInput, [of, job.input]);
      else await apart.run(dropInput, [of]);
      return "replaced";
    });
    if (became === "freed") return heldKey(runner, job, undefined, asked);
    return { status: "duplicate", of, replaced: became === "replaced" };
  }

  /**
   * A row's fault says that some job of the batch cannot be stored, a lock timeout that some job's key is about to be taken
   * by others, or its user's row locked: halves are tried until it stands alone.
   */
  async function splitting<Job extends NewJob>(
    runner: InsertRunner,
    jobs: readonly Job[],
    write: Attempt<Job>,
    asked: Asked,
  ): Promise<(InsertAnswer | "busy")[]> {
    try {
      return await runner.apart((apart) => write(apart, jobs, asked));
    } catch (error) {
      const isBusy = isLockTimeout(error);
      if (isBusy && runner.inside) throw keyIsBusy(error);
      if (!isBusy && !isRowsFault(error)) throw error;
      // Whatever it is that is locked, not every job has to find out alone.
      if (isBusy && --asked.waits <= 0) return jobs.map(() => "busy");
      // Somebody else has inserted an id of these with another key: asked again, that is seen before a key is taken.
      if (isRace(error) && --asked.races >= 0) return splitting(runner, jobs, write, asked);
      if (jobs.length === 1) return [isBusy ? "busy" : notStored(error)];
      const middle = Math.ceil(jobs.length / 2);
      return [
        ...(await splitting(runner, jobs.slice(0, middle), write, asked)),
        ...(await splitting(runner, jobs.slice(middle), write, asked)),
      ];
    }
  }

  const insert: Write<InsertAnswer | "busy"> = async (runner, jobs, now) => {
    const answers: (InsertAnswer | "busy")[] = [];
    const asked: Asked = { now, waits: MOST_WAITS, races: MOST_RACES };
    const place = (at: readonly number[], part: readonly (InsertAnswer | "busy")[]): void => {
      for (const [index, answer] of part.entries()) answers[at[index] as number] = answer;
    };
    for (const [at, job] of jobs.entries()) if (holdsNul(job.input)) answers[at] = NUL_REFUSED;
    for (const round of roundsOf(jobs, answers)) {
      const part = round.map((at) => jobs[at] as NewJob);
      const isKeyed = part[0]?.unique !== null;
      place(
        round,
        isKeyed ? await splitting(runner, part as Keyed[], keyed, asked) : await splitting(runner, part, plain, asked),
      );
    }
    return answers;
  };
  return { insert, insertInside: insert as Write<InsertAnswer> };
}

const INSERTED: InsertAnswer = { status: "inserted" };
const NUL_REFUSED: InsertAnswer = {
  status: "refused",
  reason: "not stored",
  error: "the input contains \\u0000, which PostgreSQL has no text for; encode it otherwise, in base64 for example",
};

/** An escaped NUL could be stored as JSON, but everyone who takes it out by SQL would meet an error. */
function holdsNul(json: string): boolean {
  return json.includes("\\u0000") && /(?<!\\)(?:\\\\)*\\u0000/.test(json);
}

function waitMs({ inside }: InsertRunner, { waits }: Asked): number {
  if (inside) return WAIT_MS.inside;
  return waits > MOST_WAITS - PATIENT_WAITS ? WAIT_MS.own : WAIT_MS.impatient;
}

function keyIsBusy(cause: unknown): StoreUnavailable {
  const message = "another transaction, still open, is about to take the same unique key; try again when it is over";
  return new StoreUnavailable(message, cause);
}

function notStored(error: unknown): InsertAnswer {
  const { cause, message } = error as Error;
  return { status: "refused", reason: "not stored", error: cause instanceof Error ? rowsFault(cause) : message };
}

const MOST = 1_000;
/**
 * Parts that one statement can write: with keys or without, and of those with the same id or key one. In their order, or
 * jobs would be listed in another than they were enqueued.
 */
function roundsOf(jobs: readonly NewJob[], answered: readonly unknown[]): number[][] {
  const rounds: number[][] = [];
  let ids = new Set<string>();
  let keys = new Set<string>();
  let keyed: boolean | null = null;
  for (const [at, { id, unique }] of jobs.entries()) {
    if (answered[at] !== undefined) continue;
    const fits = keyed === (unique !== null) && (rounds.at(-1)?.length ?? MOST) < MOST;
    if (!fits || ids.has(id) || (unique !== null && keys.has(unique.key))) {
      rounds.push([]);
      ids = new Set();
      keys = new Set();
      keyed = unique !== null;
    }
    ids.add(id);
    if (unique !== null) keys.add(unique.key);
    rounds.at(-1)?.push(at);
  }
  return rounds;
}

function columnsOf(jobs: readonly NewJob[], now: number | null): unknown[] {
  return [
    now,
    `{${jobs.map((job) => job.id).join(",")}}`,
    once(jobs, (job) => job.type),
    once(jobs, (job) => job.queue),
    once(jobs, (job) => job.priority),
    orNull(jobs, (job) => job.user),
    textArray(jobs.map((job) => job.input)),
    once(jobs, (job) => jsonBytes(job.input)),
    once(jobs, (job) => job.maxAttempts),
    orNull(jobs, (job) => job.runAt),
    once(jobs, (job) => job.delayMs),
    orNull(jobs, (job) => job.expiresAt),
    orNull(jobs, (job) => (job.tags.length === 0 ? null : JSON.stringify(job.tags))),
    orNull(jobs, (job) => job.schedule?.name ?? null),
    orNull(jobs, (job) => job.schedule?.slot ?? null),
    orNull(jobs, (job) => job.unique?.key ?? null),
    orNull(jobs, (job) => job.unique?.scope ?? null),
    once(jobs, (job) => job.unique?.periodMs ?? 0),
    orNull(jobs, (job) => job.trace),
  ];
}
