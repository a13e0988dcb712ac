import type { EnqueueManyOptions, EnqueueManyResult, EnqueueOptions, EnqueueResult } from "../../job/enqueue-types.js";
import { LIMITS } from "../../defaults.js";
import { InvalidOptionError } from "../../errors.js";
import { namedType, type JobType } from "../../job/job.js";
import { readName, show } from "../../options.js";
import type { Store } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { Enqueuer } from "./enqueuer.js";
import { inTransaction } from "./in-transaction.js";

/** `enqueue`, `enqueueMany` and `enqueueNamed` of a client and of a handler's client: with `tx` inside the caller's transaction. */
export class EnqueueCalls {
  readonly #store: Store;
  readonly #requireOpen: () => EngineContext;
  readonly #enqueuer: Enqueuer;

  constructor({ store }: EngineContext, requireOpen: () => EngineContext, enqueuer: Enqueuer) {
    this.#store = store;
    this.#requireOpen = requireOpen;
    this.#enqueuer = enqueuer;
  }

  enqueue(type: JobType, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    return this.#enqueue(() => readType(type), input, options);
  }

  enqueueNamed(type: string, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    const named = (): JobType =>
      this.#requireOpen().types.get(readName(type, "type", LIMITS.typeLength)) ?? namedType(type);
    return this.#enqueue(named, input, options);
  }

  enqueueMany<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
  ): Promise<EnqueueManyResult[]> {
    if (options?.tx === undefined)
      return this.#withoutTransaction(() => this.#enqueuer.enqueueMany(readType(type), inputs, options));
    return this.#inTransaction(() => this.#enqueuer.enqueueManyInTransaction(readType(type), inputs, options));
  }

  #enqueue(type: () => JobType, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    if (options?.tx === undefined)
      return this.#withoutTransaction(() => this.#enqueuer.enqueue(type(), input, options));
    return this.#inTransaction(() => this.#enqueuer.enqueueInTransaction(type(), input, options));
  }

  /** Errors reject the promise; they are never thrown synchronously. */
  async #withoutTransaction<Result>(call: () => Promise<Result>): Promise<Result> {
    this.#requireOpen();
    return call();
  }

  #inTransaction<Result>(call: () => Promise<Result>): Promise<Result> {
    return inTransaction(this.#store, () => {
      this.#requireOpen();
      return call();
    });
  }
}

function readType(type: JobType): JobType {
  if (typeof type?.type !== "string" || typeof type.run !== "function") {
    throw new InvalidOptionError("type", `${show(type)} is not a job type; pass what job({ … }) returned`);
  }
  return type;
}
