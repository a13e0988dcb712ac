import { StoreUnavailableError } from "../../../errors.js";
import type { InsertResult, NewJob } from "../../../store.js";
import {
  isLockTimeout,
  isMissingFunction,
  isPermissionDenied,
  isRace,
  isRowError,
  rowError,
} from "../connection/errors.js";
import { directInserts, type InsertRunner, type InsertTerms, type InsertMethod, type Keyed } from "./insert-direct.js";
import type { Recorder } from "./recorder.js";
import { functionInserts } from "../schema/insert-functions.js";
import type { Sql } from "../connection/sql.js";

// How long a job waits for an open transaction that is about to take its key or id, or has locked its user's row. On
// the store's own connections the whole batch waits with it, so only briefly: the engine retries it. The caller's
// transaction blocks only itself, so it waits for as long as most transactions take.
const WAIT_MS = { first: 30, later: 1, inside: 2_000 };
// How often one batch may wait until it is known which of its jobs are locked, and how many of the waits are longer.
const MAX_WAITS = 400;
const LONG_WAITS = 5;
const MAX_RACES = 5;

/** The state that all parts of a batch share. */
interface Batch {
  readonly now: number | null;
  /** How often it may still wait for locks. */
  waits: number;
  /** How often it may still lose a race for an id. */
  races: number;
  method: InsertMethod;
}
/** One try to write a part of a batch. */
type InsertStep<Job> = (runner: InsertRunner, jobs: readonly Job[], batch: Batch) => Promise<(InsertResult | "busy")[]>;
type Write<Result> = (runner: InsertRunner, jobs: readonly NewJob[], now: number | null) => Promise<Result[]>;
export interface InsertOperations {
  insert: Write<InsertResult | "busy">;
  /** In a transaction: waits for a key that another transaction is about to take, and throws if that takes too long. */
  insertInside: Write<InsertResult>;
}

/** insert: new jobs, duplicates by id, and the three ways to handle a held unique key. */
export function insertOperations(sql: Sql, recorder: Recorder): InsertOperations {
  const direct = directInserts(sql, recorder);
  const byFunctions = functionInserts(sql);
  /** The method for the store's own connections. */
  let own = direct;

  const plain: InsertStep<NewJob> = async (runner, jobs, batch) => {
    const fresh = await batch.method.plain(runner, jobs, termsOf(runner, batch));
    if (fresh === null) return jobs.map(() => INSERTED);
    const inserted = new Set(fresh.split(","));
    return jobs.map((job) => (inserted.has(job.id) ? INSERTED : duplicateOf(job.id)));
  };

  const keyed: InsertStep<Keyed> = async (runner, jobs, batch) => {
    const results: (InsertResult | "busy")[] = [];
    // All writers take keys in the same order, so two batches cannot deadlock.
    const found = await batch.method.keyed(runner, jobs, termsOf(runner, batch));
    for (const [at, job] of jobs.entries()) {
      const result = found[at] ?? "known";
      if (result === "new") results[at] = INSERTED;
      else if (result === "known") results[at] = duplicateOf(job.id);
      else results[at] = await heldKey(runner, job, result.holder, batch);
    }
    return results;
  };

  /** The result for one job whose key was held, by `holder` if that is known. */
  async function heldKey(
    runner: InsertRunner,
    job: Keyed,
    holder: string | undefined,
    batch: Batch,
  ): Promise<InsertResult | "busy"> {
    if (batch.waits <= 0 && job.unique.onConflict === "replace") return "busy";
    // Without a holder the key was freed in between: try again.
    const write: InsertStep<Keyed> =
      holder === undefined ? keyed : async (isolated) => [await conflict(isolated, job, holder, batch)];
    // On the store's own connections, the other jobs of the batch are committed already: if they were written again,
    // they would be their own duplicates. So a failure must concern this job only. In a transaction the others are
    // rolled back with it.
    const [result] = runner.inside ? await write(runner, [job], batch) : await splitting(runner, [job], write, batch);
    return result as InsertResult | "busy";
  }

  async function conflict(runner: InsertRunner, job: Keyed, of: string, batch: Batch): Promise<InsertResult | "busy"> {
    if (job.unique.onConflict === "reject") return { status: "refused", reason: "key-held", of };
    if (job.unique.onConflict === "keep") return duplicateOf(of);
    const outcome = await batch.method.replace(runner, job, of, termsOf(runner, batch));
    if (outcome === "freed") return heldKey(runner, job, undefined, batch);
    return { ...duplicateOf(of), replaced: outcome === "replaced" };
  }

  /**
   * Splits the batch in halves on an error, until the job that causes it is alone. A row error means that some job
   * cannot be stored; a lock timeout means that another transaction is about to take a job's key, or has locked its
   * user's row.
   */
  async function splitting<Job extends NewJob>(
    runner: InsertRunner,
    jobs: readonly Job[],
    write: InsertStep<Job>,
    batch: Batch,
  ): Promise<(InsertResult | "busy")[]> {
    try {
      return await runner.isolated((isolated) => write(isolated, jobs, batch));
    } catch (error) {
      const isBusy = isLockTimeout(error);
      if (isBusy && runner.inside) throw keyIsBusy(error);
      if (!isBusy && !isRowError(error)) throw error;
      // The batch has waited often enough: its other jobs need not wait as well.
      if (isBusy && --batch.waits <= 0) return jobs.map(() => "busy");
      // Another transaction has inserted one of these ids with another key. The next try sees that before it takes a key.
      if (isRace(error) && --batch.races >= 0) return splitting(runner, jobs, write, batch);
      if (jobs.length === 1) return [isBusy ? "busy" : notStored(error)];
      const middle = Math.ceil(jobs.length / 2);
      return [
        ...(await splitting(runner, jobs.slice(0, middle), write, batch)),
        ...(await splitting(runner, jobs.slice(middle), write, batch)),
      ];
    }
  }

  /**
   * A role without privileges on the tables uses functions. Which one is needed is found by trying: the caller's
   * transaction may have another role than the store.
   */
  async function writing<Job extends NewJob>(
    runner: InsertRunner,
    jobs: readonly Job[],
    write: InsertStep<Job>,
    batch: Batch,
  ): Promise<(InsertResult | "busy")[]> {
    try {
      return await splitting(runner, jobs, write, batch);
    } catch (error) {
      if (batch.method !== direct || !isPermissionDenied(error)) throw error;
      batch.method = byFunctions;
      const results = await splitting(runner, jobs, write, batch).catch((second: unknown) => {
        throw isPermissionDenied(second) || isMissingFunction(second) ? error : second;
      });
      if (!runner.inside) own = byFunctions;
      return results;
    }
  }

  const insert: Write<InsertResult | "busy"> = async (runner, jobs, now) => {
    const results: (InsertResult | "busy")[] = [];
    const batch: Batch = { now, waits: MAX_WAITS, races: MAX_RACES, method: own };
    const place = (at: readonly number[], part: readonly (InsertResult | "busy")[]): void => {
      for (const [index, result] of part.entries()) results[at[index] as number] = result;
    };
    for (const [at, job] of jobs.entries()) if (holdsNul(job.input)) results[at] = NUL_REFUSED;
    for (const round of roundsOf(jobs, results)) {
      const part = round.map((at) => jobs[at] as NewJob);
      const isKeyed = part[0]?.unique !== null;
      place(
        round,
        isKeyed ? await writing(runner, part as Keyed[], keyed, batch) : await writing(runner, part, plain, batch),
      );
    }
    return results;
  };
  return { insert, insertInside: insert as Write<InsertResult> };
}

const INSERTED: InsertResult = { status: "inserted" };
/** Why an input that contains NUL is not stored. */
export const NUL_IN_INPUT = "contains \\u0000, which PostgreSQL cannot store; encode it, for example in base64";
const NUL_REFUSED: InsertResult = { status: "refused", reason: "not-stored", error: `the input ${NUL_IN_INPUT}` };

/** An escaped NUL could be stored as JSON, but every SQL query that extracts it as text would fail. */
export function holdsNul(json: string): boolean {
  return json.includes("\\u0000") && /(?<!\\)(?:\\\\)*\\u0000/.test(json);
}

function duplicateOf(of: string): InsertResult & { status: "duplicate" } {
  return { status: "duplicate", of, replaced: false };
}

function termsOf({ inside }: InsertRunner, { now, waits }: Batch): InsertTerms {
  if (inside) return { now, waitMs: WAIT_MS.inside };
  return { now, waitMs: waits > MAX_WAITS - LONG_WAITS ? WAIT_MS.first : WAIT_MS.later };
}

function keyIsBusy(cause: unknown): StoreUnavailableError {
  const message = "timed out waiting for an open transaction that is about to take the same unique key; retry";
  return new StoreUnavailableError(message, cause);
}

function notStored(error: unknown): InsertResult {
  const { cause, message } = error as Error;
  return { status: "refused", reason: "not-stored", error: cause instanceof Error ? rowError(cause) : message };
}

const MAX_ROWS = 1_000;
/**
 * Splits a batch into parts that one statement can write: all with keys or all without, and each id and key once. The
 * order stays, because jobs are listed in the order in which they were enqueued.
 */
function roundsOf(jobs: readonly NewJob[], results: readonly unknown[]): number[][] {
  const rounds: number[][] = [];
  let ids = new Set<string>();
  let keys = new Set<string>();
  let keyed: boolean | null = null;
  for (const [at, { id, unique }] of jobs.entries()) {
    if (results[at] !== undefined) continue;
    const fits = keyed === (unique !== null) && (rounds.at(-1)?.length ?? MAX_ROWS) < MAX_ROWS;
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
