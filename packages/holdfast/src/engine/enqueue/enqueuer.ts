import type { EnqueueManyOptions, EnqueueManyResult, EnqueueOptions, EnqueueResult } from "../../job/enqueue-types.js";
import { encodeInput, type JobType } from "../../job/job.js";
import type { NewJob } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { TracedCall } from "../events/telemetry.js";
import { BulkEnqueue } from "./bulk-enqueue.js";
import { JobBuilder, withTrace, type ParentJob } from "./job-builder.js";
import { JobInserter } from "./job-inserter.js";
import { TransactionEnqueue } from "./transaction-enqueue.js";

/** Everything that enqueues: single jobs, bulk, and both inside a caller's transaction. Each call is traced if telemetry is on. */
export class Enqueuer {
  readonly #engine: EngineContext;
  readonly #builder: JobBuilder;
  readonly #inserter: JobInserter;
  readonly #inTransaction: TransactionEnqueue;

  constructor(engine: EngineContext, parts?: { builder: JobBuilder; inserter: JobInserter }) {
    this.#engine = engine;
    this.#builder = parts?.builder ?? new JobBuilder(engine);
    this.#inserter = parts?.inserter ?? new JobInserter(engine);
    this.#inTransaction = new TransactionEnqueue(engine, this.#builder);
  }

  /** Enqueues for a handler: the jobs carry the id of its job. They share batches with all others. */
  forParent(parent: ParentJob): Enqueuer {
    return new Enqueuer(this.#engine, { builder: this.#builder.forParent(parent), inserter: this.#inserter });
  }

  /** Resolves when every job so far is inserted. */
  idle(): Promise<void> {
    return this.#inserter.idle();
  }

  enqueue(type: JobType, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    // Without telemetry, which is the usual case, no closure is made for it.
    if (this.#engine.traces === null) return this.#enqueueOne(type, input, options, null);
    return this.#traced(type, options, false, (trace) => this.#enqueueOne(type, input, options, trace));
  }

  /** Builds a job for a step, which stores it. */
  async build(type: JobType, input: unknown, options: EnqueueOptions): Promise<NewJob> {
    const encoded = encodeInput(type, input);
    return this.#builder.build(type, typeof encoded === "string" ? encoded : await encoded, options, null);
  }

  /** Enqueues a job without validating it: it was copied from a stored one. */
  enqueueBuilt(job: NewJob): Promise<EnqueueResult> {
    return this.#traced(job, {}, false, (trace) => this.#inserter.insert(withTrace(job, trace)));
  }

  enqueueMany<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
  ): Promise<EnqueueManyResult[]> {
    const parts = { engine: this.#engine, builder: this.#builder, inserter: this.#inserter };
    return this.#traced(type, options, true, (trace) => new BulkEnqueue(parts, type, options, trace).run(inputs));
  }

  enqueueInTransaction(type: JobType, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    return this.#traced(type, options, false, (trace) => this.#inTransaction.enqueue(type, input, options, trace));
  }

  enqueueManyInTransaction<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
  ): Promise<EnqueueManyResult[]> {
    return this.#traced(type, options, true, (trace) => this.#inTransaction.enqueueMany(type, inputs, options, trace));
  }

  async #enqueueOne(
    type: JobType,
    input: unknown,
    options: EnqueueOptions,
    trace: TracedCall | null,
  ): Promise<EnqueueResult> {
    const encoded = encodeInput(type, input);
    const text = typeof encoded === "string" ? encoded : await encoded;
    return this.#inserter.insert(this.#builder.build(type, text, options, trace));
  }

  #traced<Result extends EnqueueResult | readonly unknown[]>(
    { type, queue }: { type: string; queue: string },
    options: EnqueueOptions,
    many: boolean,
    write: (trace: TracedCall | null) => Promise<Result>,
  ): Promise<Result> {
    const { traces } = this.#engine;
    if (traces === null) return write(null);
    return traces.traceEnqueue({ type, queue: String(options.queue ?? queue), many }, write);
  }
}
