import type { EnqueueManyOptions, EnqueueManyResult, EnqueueOptions, EnqueueResult } from "../../job/enqueue-types.js";
import { HoldfastError, InvalidInputError, InvalidOptionError, PayloadTooLargeError } from "../../errors.js";
import { encodeInput, type JobType } from "../../job/job.js";
import type { InsertResult, NewJob } from "../../store.js";
import { batchesOf } from "../batch.js";
import type { EngineContext } from "../context.js";
import type { TracedCall } from "../events/telemetry.js";
import { checkBulkCall, jobsOf, optionsForJob, type BulkItem } from "./bulk-enqueue.js";
import { bulkResult, readInserted } from "./enqueue-result.js";
import type { JobBuilder } from "./job-builder.js";

/**
 * Enqueues inside the caller's own transaction. No function here is async: with a synchronous driver the jobs must be written,
 * or the error thrown, before the call returns. Only then does an error roll back the caller's transaction.
 */
export class TransactionEnqueue {
  readonly #engine: EngineContext;
  readonly #builder: JobBuilder;

  constructor(engine: EngineContext, builder: JobBuilder) {
    this.#engine = engine;
    this.#builder = builder;
  }

  enqueue(type: JobType, input: unknown, options: EnqueueOptions, trace: TracedCall | null): Promise<EnqueueResult> {
    const job = this.#build(type, input, options, trace);
    const inserted = this.#engine.store.insertIn(options.tx, [job]);
    if (inserted instanceof Promise) return inserted.then(([result]) => readInserted(job, result));
    return Promise.resolve(readInserted(job, inserted[0]));
  }

  /**
   * With an asynchronous driver the promise rejects only when no write is in flight any more: a write after the caller's
   * rollback would be outside the transaction.
   */
  enqueueMany<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    { each, onResult, tx, ...common }: EnqueueManyOptions<Input>,
    trace: TracedCall | null,
  ): Promise<EnqueueManyResult[]> {
    checkBulkCall(inputs, common);
    this.#requireTransactions();
    if (!(Symbol.iterator in inputs)) {
      throw new InvalidOptionError("tx", "cannot be combined with a stream; pass an array of inputs");
    }
    const items = Array.from(inputs, (input, index): BulkItem => {
      try {
        return { index, job: this.#build(type, input, { ...optionsForJob(common, each, input, index), tx }, trace) };
      } catch (error) {
        // An invalid job is a result of its own. Any other error must roll back the caller's transaction.
        if (!isErrorOfJob(error)) throw error;
        return { index, error };
      }
    });
    const batches = [...batchesOf(jobsOf(items), (job) => job.input.length)];
    // Also without jobs the transaction is checked: packs do so before they rely on it.
    const inserted = this.#insert(tx, batches.length === 0 ? [[]] : batches);
    const deliverResults = async (results: readonly InsertResult[]): Promise<EnqueueManyResult[]> => {
      const next = results.values();
      const bulk = items.map((item): EnqueueManyResult =>
        "error" in item ? { id: null, error: item.error } : resultOf(item.job, next.next().value),
      );
      if (onResult === undefined) return bulk;
      for (const [index, result] of bulk.entries()) await onResult(result, index);
      return [];
    };
    return Promise.resolve(inserted).then(deliverResults);
  }

  /** Writes one batch after the other, and none after one that failed. Synchronous where the store is. */
  #insert(tx: unknown, batches: NewJob[][], written: InsertResult[] = []): InsertResult[] | Promise<InsertResult[]> {
    for (let batch = batches.shift(); batch !== undefined; batch = batches.shift()) {
      const inserted = this.#engine.store.insertIn(tx, batch);
      if (inserted instanceof Promise) {
        return inserted.then((results) => {
          written.push(...results);
          return this.#insert(tx, batches, written);
        });
      }
      written.push(...inserted);
    }
    return written;
  }

  #requireTransactions(): void {
    if (this.#engine.store.capabilities.transactions) return;
    throw new InvalidOptionError("tx", "is not supported by this store; enqueue without it");
  }

  #build(type: JobType, input: unknown, options: EnqueueOptions, trace: TracedCall | null): NewJob {
    this.#requireTransactions();
    const encoded = encodeInput(type, input);
    if (typeof encoded === "string") return this.#builder.build(type, encoded, options, trace);
    encoded.catch(() => {});
    throw new InvalidOptionError(
      "tx",
      `the schema of ${type.type} is asynchronous and cannot be used inside a transaction`,
    );
  }
}

function resultOf(job: NewJob, inserted: InsertResult | undefined): EnqueueManyResult {
  try {
    return bulkResult(readInserted(job, inserted));
  } catch (error) {
    if (inserted === undefined || !(error instanceof HoldfastError)) throw error;
    return { id: null, error };
  }
}

/** Whether only this one job cannot be enqueued. */
function isErrorOfJob(error: unknown): error is HoldfastError {
  return error instanceof InvalidInputError || error instanceof PayloadTooLargeError;
}
