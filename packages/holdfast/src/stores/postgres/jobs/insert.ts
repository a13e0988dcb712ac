import { StoreUnavailableError } from "../../../errors.js";
import type { InsertResult, NewJob } from "../../../store.js";
import { isLockTimeout, isNoFunction, isNoRights, isRace, isRowsFault, rowsFault } from "../connection/errors.js";
import { directWay, type InsertRunner, type InsertTerms, type InsertWay, type Keyed } from "./insert-direct.js";
import { functionsWay } from "../schema/insert-functions.js";
import type { Sql } from "../connection/sql.js";

// How long a job waits for somebody's open transaction that is about to take its key or its id, or has locked its user's
// row. On connections of our own, where the rest of the batch waits with it, for a moment: it is asked again. Inside a
// transaction, which holds up nobody but itself, for as long as most transactions take.
const WAIT_MS = { own: 30, impatient: 1, inside: 2_000 };
// Waits that one batch may go through until it is known which of its jobs have to be asked again, and how many of them
// are long.
const MOST_WAITS = 400;
const PATIENT_WAITS = 5;
const MOST_RACES = 5;

/** What a batch shares with its parts. */
interface Asked {
  readonly now: number | null;
  /** Waits for locks that it may still go through. */
  waits: number;
  /** Times that it may still find an id inserted by others. */
  races: number;
  way: InsertWay;
}
/** One try to write some jobs of a batch. */
type Attempt<Job> = (runner: InsertRunner, jobs: readonly Job[], asked: Asked) => Promise<(InsertResult | "busy")[]>;
type Write<Answer> = (runner: InsertRunner, jobs: readonly NewJob[], now: number | null) => Promise<Answer[]>;
export interface InsertOperations {
  insert: Write<InsertResult | "busy">;
  /** Inside a transaction, where a key that is about to be taken by others is waited for, or else an error. */
  insertInside: Write<InsertResult>;
}

/** insert: new rows, duplicates by id, and the three answers to a unique key that is held. */
export function insertOperations(sql: Sql): InsertOperations {
  const direct = directWay(sql);
  const byFunctions = functionsWay(sql);
  /** The way for connections of our own. */
  let own = direct;

  const plain: Attempt<NewJob> = async (runner, jobs, asked) => {
    const fresh = await asked.way.plain(runner, jobs, termsOf(runner, asked));
    if (fresh === null) return jobs.map(() => INSERTED);
    const inserted = new Set(fresh.split(","));
    return jobs.map((job) => (inserted.has(job.id) ? INSERTED : duplicateOf(job.id)));
  };

  const keyed: Attempt<Keyed> = async (runner, jobs, asked) => {
    const answers: (InsertResult | "busy")[] = [];
    // In the order of the keys, as every other writer has it, so that two batches cannot wait for each other.
    const came = await asked.way.keyed(runner, jobs, termsOf(runner, asked));
    for (const [at, job] of jobs.entries()) {
      const answer = came[at] ?? "known";
      if (answer === "new") answers[at] = INSERTED;
      else if (answer === "known") answers[at] = duplicateOf(job.id);
      else answers[at] = await heldKey(runner, job, answer.holder, asked);
    }
    return answers;
  };

  /** The answer to one job whose key was held a moment ago, by `holder` if that is still known. */
  async function heldKey(
    runner: InsertRunner,
    job: Keyed,
    holder: string | undefined,
    asked: Asked,
  ): Promise<InsertResult | "busy"> {
    if (asked.waits <= 0 && job.unique.onConflict === "replace") return "busy";
    // Freed in between: another try takes it.
    const answer: Attempt<Keyed> =
      holder === undefined ? keyed : async (apart) => [await conflict(apart, job, holder, asked)];
    // On connections of our own, the rest of its batch is committed: asked again, it would be its own duplicate. So what
    // this job meets is this job's. Inside a transaction the rest is undone with it.
    const [told] = runner.inside ? await answer(runner, [job], asked) : await splitting(runner, [job], answer, asked);
    return told as InsertResult | "busy";
  }

  async function conflict(runner: InsertRunner, job: Keyed, of: string, asked: Asked): Promise<InsertResult | "busy"> {
    if (job.unique.onConflict === "reject") return { status: "refused", reason: "key-held", of };
    if (job.unique.onConflict === "keep") return duplicateOf(of);
    const became = await asked.way.replace(runner, job, of, termsOf(runner, asked));
    if (became === "freed") return heldKey(runner, job, undefined, asked);
    return { ...duplicateOf(of), replaced: became === "replaced" };
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
  ): Promise<(InsertResult | "busy")[]> {
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

  /**
   * A login that may not write the tables has functions for it. Who that is, a transaction of the caller's tells only when
   * it is tried: its login need not be ours.
   */
  async function writing<Job extends NewJob>(
    runner: InsertRunner,
    jobs: readonly Job[],
    write: Attempt<Job>,
    asked: Asked,
  ): Promise<(InsertResult | "busy")[]> {
    try {
      return await splitting(runner, jobs, write, asked);
    } catch (error) {
      if (asked.way !== direct || !isNoRights(error)) throw error;
      asked.way = byFunctions;
      const answers = await splitting(runner, jobs, write, asked).catch((second: unknown) => {
        throw isNoRights(second) || isNoFunction(second) ? error : second;
      });
      if (!runner.inside) own = byFunctions;
      return answers;
    }
  }

  const insert: Write<InsertResult | "busy"> = async (runner, jobs, now) => {
    const answers: (InsertResult | "busy")[] = [];
    const asked: Asked = { now, waits: MOST_WAITS, races: MOST_RACES, way: own };
    const place = (at: readonly number[], part: readonly (InsertResult | "busy")[]): void => {
      for (const [index, answer] of part.entries()) answers[at[index] as number] = answer;
    };
    for (const [at, job] of jobs.entries()) if (holdsNul(job.input)) answers[at] = NUL_REFUSED;
    for (const round of roundsOf(jobs, answers)) {
      const part = round.map((at) => jobs[at] as NewJob);
      const isKeyed = part[0]?.unique !== null;
      place(
        round,
        isKeyed ? await writing(runner, part as Keyed[], keyed, asked) : await writing(runner, part, plain, asked),
      );
    }
    return answers;
  };
  return { insert, insertInside: insert as Write<InsertResult> };
}

const INSERTED: InsertResult = { status: "inserted" };
const NUL_REFUSED: InsertResult = {
  status: "refused",
  reason: "not-stored",
  error: "the input contains \\u0000, which PostgreSQL has no text for; encode it otherwise, in base64 for example",
};

/** An escaped NUL could be stored as JSON, but everyone who takes it out by SQL would meet an error. */
function holdsNul(json: string): boolean {
  return json.includes("\\u0000") && /(?<!\\)(?:\\\\)*\\u0000/.test(json);
}

function duplicateOf(of: string): InsertResult & { status: "duplicate" } {
  return { status: "duplicate", of, replaced: false };
}

function termsOf({ inside }: InsertRunner, { now, waits }: Asked): InsertTerms {
  if (inside) return { now, waitMs: WAIT_MS.inside };
  return { now, waitMs: waits > MOST_WAITS - PATIENT_WAITS ? WAIT_MS.own : WAIT_MS.impatient };
}

function keyIsBusy(cause: unknown): StoreUnavailableError {
  const message = "another transaction, still open, is about to take the same unique key; try again when it is over";
  return new StoreUnavailableError(message, cause);
}

function notStored(error: unknown): InsertResult {
  const { cause, message } = error as Error;
  return { status: "refused", reason: "not-stored", error: cause instanceof Error ? rowsFault(cause) : message };
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
