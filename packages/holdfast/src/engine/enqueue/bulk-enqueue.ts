import type { EnqueueManyOptions, EnqueueManyResult, EnqueueOptions } from "../../job/enqueue-types.js";
import { isThenable, watchResult } from "../../callbacks.js";
import { HoldfastError, InvalidOptionError } from "../../errors.js";
import { encodeInput, type JobType } from "../../job/job.js";
import type { InsertResult, NewJob } from "../../store.js";
import { BatchSize } from "../batch.js";
import type { EngineContext } from "../context.js";
import type { TracedCall } from "../events/telemetry.js";
import { bulkResult } from "./enqueue-result.js";
import type { JobBuilder } from "./job-builder.js";
import type { JobInserter } from "./job-inserter.js";

/** The job built from one input of the call, or the error that prevented it. */
export type BulkItem = { index: number; job: NewJob } | { index: number; error: HoldfastError };

interface WrittenBatch {
  batch: readonly BulkItem[];
  /** The store's results for the jobs of the batch. */
  inserted: readonly (InsertResult | "busy")[];
}

const NOTHING_WRITTEN: Promise<WrittenBatch> = Promise.resolve({ batch: [], inserted: [] });

/**
 * One call of `enqueueMany`. Three batches are in memory at most: while one is written, the next is encoded, and the results of
 * the previous one are passed on.
 */
export class BulkEnqueue<Input> {
  readonly #engine: EngineContext;
  readonly #builder: JobBuilder;
  readonly #inserter: JobInserter;
  readonly #type: JobType;
  readonly #common: EnqueueOptions;
  readonly #each: EnqueueManyOptions<Input>["each"];
  readonly #trace: TracedCall | null;
  readonly #onResult: (result: EnqueueManyResult, index: number) => unknown;
  readonly #results: EnqueueManyResult[] = [];
  #next = 0;
  #batch: BulkItem[] = [];
  #size = new BatchSize();
  #writing: Promise<WrittenBatch> = NOTHING_WRITTEN;

  constructor(
    { engine, builder, inserter }: { engine: EngineContext; builder: JobBuilder; inserter: JobInserter },
    type: JobType,
    { each, onResult, ...common }: EnqueueManyOptions<Input>,
    trace: TracedCall | null,
  ) {
    this.#engine = engine;
    this.#builder = builder;
    this.#inserter = inserter;
    this.#type = type;
    this.#common = common;
    this.#each = each;
    this.#trace = trace;
    this.#onResult = onResult ?? ((result, index) => void (this.#results[index] = result));
  }

  async run(inputs: Iterable<Input> | AsyncIterable<Input>): Promise<EnqueueManyResult[]> {
    checkBulkCall(inputs, this.#common);
    // Checks the common options once, so that a mistake in them fails the call and not every single job.
    this.#builder.build(this.#type, "{}", this.#common, null);
    try {
      // Without await where possible: a promise for each job would cost more than enqueueing it.
      if (Symbol.iterator in inputs) {
        for (const input of inputs) {
          const item = this.#encode(input);
          if (this.#add(item instanceof Promise ? await item : item)) await this.#writeBatch();
        }
      } else {
        for await (const input of inputs) if (this.#add(await this.#encode(input))) await this.#writeBatch();
      }
      await this.#writeBatch();
      await this.#finish();
      return this.#results;
    } catch (error) {
      // If reading the inputs fails, the call must not reject while a batch is still being written.
      await this.#finish().catch(() => {});
      throw error;
    }
  }

  #encode(input: Input): BulkItem | Promise<BulkItem> {
    const index = this.#next++;
    const options = optionsForJob(this.#common, this.#each, input, index);
    const built = (encoded: string): BulkItem => ({
      index,
      job: this.#builder.build(this.#type, encoded, options, this.#trace),
    });
    const failed = (error: unknown): BulkItem => {
      if (error instanceof HoldfastError) return { index, error };
      throw error;
    };
    try {
      if (options.tx !== undefined) {
        throw new InvalidOptionError("tx", "must be set once for the whole call, not in `each`");
      }
      const encoded = encodeInput(this.#type, input);
      return typeof encoded === "string" ? built(encoded) : encoded.then(built).catch(failed);
    } catch (error) {
      return failed(error);
    }
  }

  /** Adds an item to the next batch. True if the batch is full. */
  #add(item: BulkItem): boolean {
    this.#batch.push(item);
    this.#size.add("job" in item ? item.job.input.length : 0);
    return this.#size.isFull;
  }

  async #writeBatch(): Promise<void> {
    const written = await this.#writing;
    this.#writing = this.#insert(this.#batch);
    this.#writing.catch(() => {});
    this.#batch = [];
    this.#size = new BatchSize();
    // A driver sends when the event loop is free: without this pause the store would idle until the next batch is encoded.
    await new Promise((resolve) => setImmediate(resolve));
    await this.#deliverResults(written);
  }

  async #insert(batch: BulkItem[]): Promise<WrittenBatch> {
    const jobs = jobsOf(batch);
    return { batch, inserted: jobs.length === 0 ? [] : await this.#engine.store.insert(jobs) };
  }

  async #finish(): Promise<void> {
    const writing = this.#writing;
    this.#writing = NOTHING_WRITTEN;
    await this.#deliverResults(await writing);
  }

  /** Passes the results of a batch on, in order. */
  async #deliverResults(written: WrittenBatch): Promise<void> {
    const inserted = written.inserted.includes("busy") ? await this.#retryBusy(written) : written.inserted;
    // A local variable, so that the callback has no `this`.
    const onResult = this.#onResult;
    let next = 0;
    for (const item of written.batch) {
      const result: EnqueueManyResult =
        "error" in item
          ? { id: null, error: item.error }
          : this.#resultOf(item.job, inserted[next++] as InsertResult | Error | undefined);
      const returned = onResult(result, item.index);
      // Most callbacks are synchronous, and awaiting them would cost a microtask for each job.
      if (isThenable(returned)) await returned;
    }
  }

  /** Retries the busy jobs of a batch, concurrently: each may have to wait for another transaction. */
  async #retryBusy({ batch, inserted }: WrittenBatch): Promise<(InsertResult | Error)[]> {
    const jobs = jobsOf(batch);
    const retried = async (result: InsertResult | "busy", at: number): Promise<InsertResult | Error> =>
      result === "busy"
        ? this.#inserter.retryBusy(jobs[at] as NewJob).catch((error: unknown) => error as Error)
        : result;
    return Promise.all(inserted.map(retried));
  }

  #resultOf(job: NewJob, inserted: InsertResult | Error | undefined): EnqueueManyResult {
    try {
      if (inserted instanceof Error) throw inserted;
      return bulkResult(this.#inserter.publish(job, inserted));
    } catch (error) {
      if (error instanceof HoldfastError) return { id: null, error };
      throw error;
    }
  }
}

export function jobsOf(items: readonly BulkItem[]): NewJob[] {
  return items.filter((item) => "job" in item).map((item) => item.job);
}

export function checkBulkCall(inputs: unknown, common: EnqueueOptions): void {
  const given = inputs as Partial<Iterable<unknown> & AsyncIterable<unknown>> | null | undefined;
  if (typeof given?.[Symbol.iterator] !== "function" && typeof given?.[Symbol.asyncIterator] !== "function") {
    throw new InvalidOptionError("inputs", "must be an array or another iterable (async ones included)");
  }
  if (common.id !== undefined) throw new InvalidOptionError("id", "identifies a single job; set it in `each`");
}

/** The common options with those of a single job. */
export function optionsForJob<Input>(
  common: EnqueueOptions,
  each: EnqueueManyOptions<Input>["each"],
  input: Input,
  index: number,
): EnqueueOptions {
  if (each === undefined) return common;
  const own: unknown = each(input, index);
  if (!isThenable(own)) return { ...common, ...(own as EnqueueOptions) };
  // Spreading a promise would silently ignore the options.
  watchResult(own, () => {});
  throw new InvalidOptionError("each", "returned a promise; it must return the options themselves");
}
