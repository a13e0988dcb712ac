import { isThenable, watchResult } from "../../callbacks.js";
import { LIMITS } from "../../defaults.js";
import { lengthOf } from "../../duration.js";
import {
  DuplicateJobError,
  HoldfastError,
  InvalidInputError,
  InvalidOptionError,
  PayloadTooLargeError,
  StoreUnavailableError,
} from "../../errors.js";
import { newId } from "../../job/id.js";
import { encodeInput, type JobType } from "../../job/job.js";
import type { InsertResult, NewJob, UniqueKey } from "../../store.js";
import { Batcher } from "./batcher.js";
import type { EngineContext } from "../context.js";
import { readNewJob, type EnqueueOptions } from "./new-job.js";
import type { TracedCall } from "../events/telemetry.js";
import { givenKey, heldMs } from "./unique.js";

export interface EnqueueResult {
  /** The new job, or the one that was there already. */
  id: string;
  duplicate: boolean;
  /** The job that was there waits with the new input and options. */
  replaced: boolean;
}

/** One job's answer from `enqueueMany`: either like `enqueue`'s, or the error that `enqueue` would have thrown. */
export type EnqueueManyResult = (EnqueueResult & { error: null }) | { id: null; error: HoldfastError };

export interface EnqueueManyOptions<Input> extends Omit<EnqueueOptions, "id"> {
  /** Options of single jobs, over the common ones. */
  each?: (input: Input, index: number) => Omit<EnqueueOptions, "tx">;
  /**
   * Takes the answers one by one instead of gathering them: for streams that do not fit into memory. The next answer, and reading on
   * from the stream, wait for a promise that it returns. If it fails, so does the call; what is enqueued by then stays.
   */
  onResult?: (answer: EnqueueManyResult, index: number) => unknown;
}

// A transaction that is about to take a job's key is waited for so long, with a look so often.
const KEY_WAIT_MS = 2_000;
const BUSY_MS = 50;
// Types that are made up at run time must not fill the log.
const MOST_WARNED = 20;

/** Turns inputs into jobs in the store: singly in natural batches, in bulk, or inside the caller's transaction. */
export class Enqueuer {
  readonly #engine: EngineContext;
  readonly #batcher: Batcher<NewJob, InsertResult | "busy">;

  constructor(engine: EngineContext) {
    this.#engine = engine;
    const insert = (jobs: NewJob[]): Promise<(InsertResult | "busy")[]> => {
      const inserted = engine.store.insert(jobs);
      if (engine.store.capabilities.together) for (const call of engine.inserting) call(jobs);
      return inserted;
    };
    this.#batcher = new Batcher(insert, {
      items: LIMITS.batchJobs,
      bytes: (job) => job.input.length,
      most: LIMITS.batchBytes,
    });
  }

  idle(): Promise<void> {
    return this.#batcher.idle();
  }

  enqueue(type: JobType, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    // Most programs trace nothing, and pay nothing for it.
    if (this.#engine.traces === null) return this.#enqueue(type, input, options, null);
    return this.#traced(type, options, false, (call) => this.#enqueue(type, input, options, call));
  }
  async #enqueue(
    type: JobType,
    input: unknown,
    options: EnqueueOptions,
    call: TracedCall | null,
  ): Promise<EnqueueResult> {
    const encoded = encodeInput(type, input);
    return this.#add(this.#newJob(type, typeof encoded === "string" ? encoded : await encoded, options, call));
  }

  /** A job that needs no checking: it comes from a record of the store. */
  add(job: NewJob): Promise<EnqueueResult> {
    return this.#traced(job, {}, false, (call) => this.#add(carrying(job, call)));
  }

  /** Makes a call that enqueues, told to whoever traces. */
  #traced<Answer extends EnqueueResult | readonly unknown[]>(
    { type, queue }: { type: string; queue: string },
    options: EnqueueOptions,
    many: boolean,
    write: (call: TracedCall | null) => Promise<Answer>,
  ): Promise<Answer> {
    const { traces } = this.#engine;
    if (traces === null) return write(null);
    return traces.around({ type, queue: String(options.queue ?? queue), many }, write);
  }

  async #add(job: NewJob): Promise<EnqueueResult> {
    const inserted = await this.#batcher.add(job);
    return this.#answer(job, inserted === "busy" ? await this.#askAgain(job) : inserted);
  }

  /**
   * Somebody's open transaction is about to take the job's key or its id or to make its queue, or has locked its user's
   * row: what becomes of the job depends on its end.
   */
  async #askAgain(job: NewJob): Promise<InsertResult> {
    const { clock } = this.#engine;
    const until = clock.monotonic() + KEY_WAIT_MS;
    while (clock.monotonic() < until) {
      await new Promise<void>((resolve) => void clock.after(BUSY_MS, resolve));
      const inserted = await this.#batcher.add(job);
      if (inserted !== "busy") return inserted;
    }
    throw new StoreUnavailableError(`another transaction, still open, ${whyBusy(job)}; try again when it is over`);
  }

  /**
   * Not an async function: with a synchronous driver the job must be written, or the error thrown, before this returns,
   * so that a mistake rolls the caller's transaction back.
   */
  enqueueIn(type: JobType, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    return this.#traced(type, options, false, (call) => {
      const job = this.#newJobIn(type, input, options, call);
      const answers = this.#engine.store.insertIn(options.tx, [job]);
      if (answers instanceof Promise) return answers.then(([answer]) => readAnswer(job, answer));
      return Promise.resolve(readAnswer(job, answers[0]));
    });
  }

  /**
   * Like {@link enqueueIn}, for a list: with a synchronous driver everything is written before this returns. With another,
   * nothing is under way any more when it fails: what came after the caller's rollback would be outside of it.
   */
  enqueueManyIn<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
  ): Promise<EnqueueManyResult[]> {
    return this.#traced(type, options, true, (call) => this.#enqueueManyIn(type, inputs, options, call));
  }
  #enqueueManyIn<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
    call: TracedCall | null,
  ): Promise<EnqueueManyResult[]> {
    const { each, onResult, tx, ...common } = options;
    refuseInMany(inputs, common);
    if (!(Symbol.iterator in inputs))
      throw new InvalidOptionError("tx", "a stream cannot be written inside a transaction");
    const slots = Array.from(inputs, (input, index): Slot => {
      try {
        return { index, job: this.#newJobIn(type, input, { ...withOwn(common, each, input, index), tx }, call) };
      } catch (error) {
        // The fault of one job is its answer; a fault of the store must roll the caller's transaction back.
        if (!isJobsOwn(error)) throw error;
        return { index, error };
      }
    });
    const written = this.#writeIn(tx, batchesOf(slots.flatMap((slot) => ("job" in slot ? [slot.job] : []))));
    const tell = async (inserted: readonly InsertResult[]): Promise<EnqueueManyResult[]> => {
      const next = inserted.values();
      const answers = slots.map((slot) =>
        "error" in slot ? { id: null, error: slot.error } : toldIn(slot.job, next.next().value),
      );
      if (onResult === undefined) return answers;
      for (const [index, answer] of answers.entries()) await onResult(answer, index);
      return [];
    };
    return Promise.resolve(written).then(tell);
  }

  /** One batch after the other, and none after one that failed. Synchronous where the store is. */
  #writeIn(tx: unknown, batches: NewJob[][], written: InsertResult[] = []): InsertResult[] | Promise<InsertResult[]> {
    for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
      const answers = this.#engine.store.insertIn(tx, batch);
      if (answers instanceof Promise) {
        return answers.then((some) => {
          written.push(...some);
          return this.#writeIn(tx, batches, written);
        });
      }
      written.push(...answers);
    }
    return written;
  }

  #newJobIn(type: JobType, input: unknown, options: EnqueueOptions, call: TracedCall | null): NewJob {
    if (!this.#engine.store.capabilities.transactions)
      throw new InvalidOptionError("tx", "this store cannot enqueue inside a transaction");
    const encoded = encodeInput(type, input);
    if (typeof encoded === "string") return this.#newJob(type, encoded, options, call);
    encoded.catch(() => {});
    throw new InvalidOptionError(
      "tx",
      `the schema of ${type.type} is asynchronous and cannot be used inside a transaction`,
    );
  }

  enqueueMany<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
  ): Promise<EnqueueManyResult[]> {
    return this.#traced(type, options, true, (call) => this.#enqueueMany(type, inputs, options, call));
  }
  async #enqueueMany<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
    call: TracedCall | null,
  ): Promise<EnqueueManyResult[]> {
    const { each, onResult, ...common } = options;
    refuseInMany(inputs, common);
    // A mistake in what all jobs share is told at once and not once a job.
    this.#newJob(type, "{}", common, null);
    const answers: EnqueueManyResult[] = [];
    const give: Give = onResult ?? ((answer, index) => void (answers[index] = answer));
    let chunk: Slot[] = [];
    let bytes = 0;
    const nothing: Promise<Written> = Promise.resolve({ chunk: [], answers: [] });
    let writing = nothing;
    let index = 0;
    /** Keeps a job for the next write. True: it is time for that. */
    const add = (slot: Slot): boolean => {
      chunk.push(slot);
      if ("job" in slot) bytes += slot.job.input.length;
      return chunk.length >= LIMITS.batchJobs || bytes >= LIMITS.batchBytes;
    };
    // The next chunk is encoded, and the answers to the one before are given, while a chunk is written; more than three
    // are never in memory.
    const write = async (): Promise<void> => {
      const written = await writing;
      writing = this.#write(chunk);
      writing.catch(() => {});
      chunk = [];
      bytes = 0;
      // A driver sends at the end of the turn: without one, the store would wait until the next chunk is encoded.
      await new Promise((resolve) => setImmediate(resolve));
      await this.#give(written, give);
    };
    const finish = async (): Promise<void> => {
      const written = writing;
      writing = nothing;
      await this.#give(await written, give);
    };
    const slotOf = (input: Input): Slot | Promise<Slot> =>
      this.#slot(type, input, withOwn(common, each, input, index), index++, call);
    try {
      // What can be taken without waiting is: a promise for each job would cost more than the rest of it.
      if (Symbol.iterator in inputs) {
        for (const input of inputs) {
          const slot = slotOf(input);
          if (add(slot instanceof Promise ? await slot : slot)) await write();
        }
      } else {
        for await (const input of inputs) if (add(await slotOf(input))) await write();
      }
      await write();
      await finish();
      return answers;
    } catch (error) {
      // After an error of the stream's own nothing may still be under way behind the caller's back.
      await finish().catch(() => {});
      throw error;
    }
  }

  #slot(
    type: JobType,
    input: unknown,
    options: EnqueueOptions,
    index: number,
    call: TracedCall | null,
  ): Slot | Promise<Slot> {
    const made = (encoded: string): Slot => ({ index, job: this.#newJob(type, encoded, options, call) });
    const failed = (error: unknown): Slot => {
      if (error instanceof HoldfastError) return { index, error };
      throw error;
    };
    try {
      if (options.tx !== undefined) throw new InvalidOptionError("tx", "concerns all jobs; give it beside each");
      const encoded = encodeInput(type, input);
      return typeof encoded === "string" ? made(encoded) : encoded.then(made).catch(failed);
    } catch (error) {
      return failed(error);
    }
  }

  async #write(chunk: Slot[]): Promise<Written> {
    const jobs = chunk.filter((slot) => "job" in slot).map((slot) => slot.job);
    return { chunk, answers: jobs.length === 0 ? [] : await this.#engine.store.insert(jobs) };
  }

  async #give(written: Written, give: Give): Promise<void> {
    const { chunk } = written;
    const answers = written.answers.includes("busy") ? await this.#unlocked(written) : written.answers;
    let next = 0;
    for (const slot of chunk) {
      const answer =
        "error" in slot
          ? { id: null, error: slot.error }
          : this.#told(slot.job, answers[next++] as InsertResult | Error | undefined);
      const given = give(answer, slot.index);
      // Most are not asynchronous, and to await them all the same would cost a microtask for each job.
      if (isThenable(given)) await given;
    }
  }

  /** The answers, with those that were busy asked again: all of them at once, for they may have to wait. */
  async #unlocked({ chunk, answers }: Written): Promise<(InsertResult | Error)[]> {
    const jobs = chunk.flatMap((slot) => ("job" in slot ? [slot.job] : []));
    const unlocked = async (answer: InsertResult | "busy", at: number): Promise<InsertResult | Error> =>
      answer === "busy" ? this.#askAgain(jobs[at] as NewJob).catch((error: unknown) => error as Error) : answer;
    return Promise.all(answers.map(unlocked));
  }

  #told(job: NewJob, inserted: InsertResult | Error | undefined): EnqueueManyResult {
    try {
      if (inserted instanceof Error) throw inserted;
      return told(this.#answer(job, inserted));
    } catch (error) {
      if (error instanceof HoldfastError) return { id: null, error };
      throw error;
    }
  }

  #newJob(type: JobType, input: string, options: EnqueueOptions, call: TracedCall | null): NewJob {
    const job = readNewJob(this.#engine.retry.fill(type), input, options, this.#engine.clock.now(), newId);
    if (job.unique?.scope === "period") this.#warnOfRetention(job.type, job.unique);
    return call === null ? job : carrying(job, call);
  }

  readonly #warnedOf = new Set<string>();
  /** A key is free once its job is deleted: who asks for one a month, and keeps jobs for a week, gets four. */
  #warnOfRetention(type: string, unique: UniqueKey): void {
    const keptMs = this.#engine.settler.keptMs("completed");
    const periodMs = heldMs(unique);
    if (keptMs === null || keptMs >= periodMs || this.#warnedOf.has(type) || this.#warnedOf.size >= MOST_WARNED) return;
    this.#warnedOf.add(type);
    this.#engine.logger.warn(
      { type, held: lengthOf(periodMs), kept: lengthOf(keptMs) },
      "a unique key is held for longer than completed jobs are kept, and is free once its job is deleted; raise retention.completed",
    );
  }

  /** Reads the answer and tells listeners. Not for jobs inside a caller's transaction: that may yet roll back. */
  #answer(job: NewJob, inserted: InsertResult | undefined): EnqueueResult {
    const answer = readAnswer(job, inserted);
    const { events } = this.#engine;
    if ((!answer.duplicate || answer.replaced) && events.hasListeners("enqueued")) {
      events.emit("enqueued", { id: answer.id, type: job.type, queue: job.queue, replaced: answer.replaced });
    }
    return answer;
  }
}

/** The job with the trace context of the call that brings it. */
function carrying(job: NewJob, call: TracedCall | null): NewJob {
  if (call === null) return job;
  call.jobs++;
  job.trace = call.trace;
  return job;
}

function readAnswer(job: NewJob, inserted: InsertResult | undefined): EnqueueResult {
  if (inserted === undefined) throw new HoldfastError("STORE_ERROR", "the store gave no answer");
  if (inserted.status === "refused") {
    if (inserted.reason === "key-held") throw new DuplicateJobError(givenKey(job.unique?.key ?? ""), inserted.of);
    throw new HoldfastError("NOT_STORED", `the store refused the job: ${inserted.error}`);
  }
  const duplicate = inserted.status === "duplicate";
  return { id: duplicate ? inserted.of : job.id, duplicate, replaced: duplicate && inserted.replaced };
}

function told({ id, duplicate, replaced }: EnqueueResult): EnqueueManyResult {
  return { id, duplicate, replaced, error: null };
}

function toldIn(job: NewJob, inserted: InsertResult | undefined): EnqueueManyResult {
  try {
    return told(readAnswer(job, inserted));
  } catch (error) {
    if (inserted === undefined || !(error instanceof HoldfastError)) throw error;
    return { id: null, error };
  }
}

/** What most likely is in the job's way. */
function whyBusy({ id, unique, user, queue }: NewJob): string {
  if (unique !== null) return `is about to take the unique key ${JSON.stringify(givenKey(unique.key))}`;
  const other = `is about to enqueue the id ${id}, or to make the queue ${JSON.stringify(queue)}`;
  return user === null ? other : `has locked the row of the user ${JSON.stringify(user)}, or ${other}`;
}

/** In their order, each no larger than a store takes at once. */
function batchesOf(jobs: readonly NewJob[]): NewJob[][] {
  const batches: NewJob[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const job of jobs) {
    if (bytes >= LIMITS.batchBytes || (batches.at(-1)?.length ?? 0) >= LIMITS.batchJobs) {
      batches.push([]);
      bytes = 0;
    }
    batches.at(-1)?.push(job);
    bytes += job.input.length;
  }
  return batches;
}

/** Says that this one job cannot be had, whatever the others. */
function isJobsOwn(error: unknown): error is HoldfastError {
  return [InvalidInputError, PayloadTooLargeError, DuplicateJobError].some((kind) => error instanceof kind);
}

function refuseInMany(inputs: unknown, common: EnqueueOptions): void {
  const stream = inputs as Partial<Iterable<unknown> & AsyncIterable<unknown>> | null | undefined;
  if (typeof stream?.[Symbol.iterator] !== "function" && typeof stream?.[Symbol.asyncIterator] !== "function") {
    throw new InvalidOptionError("inputs", "must be a list or a stream (anything for await can walk)");
  }
  if (common.id !== undefined) throw new InvalidOptionError("id", "belongs to one job; give it in each");
}

type Give = NonNullable<EnqueueManyOptions<never>["onResult"]>;

/** The common options with those of a single job. What an asynchronous function gives would be ignored in silence. */
function withOwn<Input>(
  common: EnqueueOptions,
  each: EnqueueManyOptions<Input>["each"],
  input: Input,
  index: number,
): EnqueueOptions {
  if (each === undefined) return common;
  const own: unknown = each(input, index);
  if (!isThenable(own)) return { ...common, ...(own as EnqueueOptions) };
  watchResult(own, () => {});
  throw new InvalidOptionError("each", "returned a promise; it must return the options themselves");
}

/** A chunk, and what the store answered to its jobs. */
interface Written {
  chunk: readonly Slot[];
  answers: readonly (InsertResult | "busy")[];
}

type Slot = { index: number; job: NewJob } | { index: number; error: HoldfastError };
