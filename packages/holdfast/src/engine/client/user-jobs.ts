import { InvalidOptionError } from "../../errors.js";
import type { InputAnd, Job, JobType } from "../../job/job.js";
import { show } from "../../options.js";
import type { CancelResult, RetryResult } from "../../store.js";
import type { EnqueueResult } from "../enqueue/enqueuer.js";
import type { Filter, ListOptions } from "./filter.js";
import type { Holdfast } from "./holdfast.js";
import type { EnqueueOptions } from "../enqueue/new-job.js";
import { readResultCall, type ResultCall, type ResultOptions } from "./results.js";

type UserOptions = Omit<EnqueueOptions, "user">;
type UserFilter = Omit<Filter, "user">;

/** What the client lets a user's view do; every call is bound to the user in the store itself. */
interface ScopedCalls {
  get(id: string): Promise<Job | null>;
  cancel(target: string | Filter): Promise<CancelResult | number>;
  retry(target: string | Filter): Promise<RetryResult | number>;
  result(call: ResultCall): Promise<unknown>;
}

/** One user's jobs, and no others: another user's job is as good as missing. Made by `hf.forUser`. */
export class UserJobs {
  readonly user: string;
  readonly #hf: Pick<Holdfast, "enqueue" | "list">;
  readonly #calls: ScopedCalls;

  /** @internal */
  constructor(user: string, hf: Pick<Holdfast, "enqueue" | "list">, calls: ScopedCalls) {
    this.user = user;
    this.#hf = hf;
    this.#calls = calls;
  }

  enqueue<Input>(
    type: JobType<Input>,
    ...inputAndOptions: InputAnd<NoInfer<Input>, UserOptions>
  ): Promise<EnqueueResult>;
  enqueue(type: JobType, input?: unknown, options: UserOptions = {}): Promise<EnqueueResult> {
    const refusal = this.#refusal(options);
    if (refusal === null) return this.#hf.enqueue(type, input, { ...options, user: this.user });
    // A transaction of a synchronous driver would not notice a rejected promise, and commit.
    if (options.tx !== undefined) throw refusal;
    return Promise.reject(refusal);
  }

  get(id: string): Promise<Job | null> {
    return this.#calls.get(id);
  }
  async list(options: Omit<ListOptions, "user"> = {}): Promise<{ jobs: Job[]; cursor: string | null }> {
    this.#refuseOther(options);
    return this.#hf.list({ ...options, user: this.user });
  }
  cancel(id: string): Promise<CancelResult>;
  cancel(filter: UserFilter): Promise<number>;
  async cancel(target: string | UserFilter): Promise<CancelResult | number> {
    this.#refuseOther(readTarget(target));
    return this.#calls.cancel(target);
  }
  retry(id: string): Promise<RetryResult>;
  retry(filter: UserFilter): Promise<number>;
  async retry(target: string | UserFilter): Promise<RetryResult | number> {
    this.#refuseOther(readTarget(target));
    return this.#calls.retry(target);
  }
  result(id: string, options?: ResultOptions): Promise<unknown>;
  result<Input, Output>(type: JobType<Input, Output>, id: string, options?: ResultOptions): Promise<Awaited<Output>>;
  result(first: string | JobType, second?: string | ResultOptions, third?: ResultOptions): Promise<unknown> {
    return this.#calls.result(readResultCall(first, second, third));
  }

  /** What says that another user is meant, or none: the caller would get, or change, other jobs than it asked for. */
  #refusal(options: object | string): InvalidOptionError | null {
    const { user } = (options ?? {}) as { user?: unknown };
    if (user === undefined || user === this.user) return null;
    return new InvalidOptionError(
      "user",
      `is ${show(user)}, and these are the jobs of ${show(this.user)}; leave it out, or use hf.forUser() of that user`,
    );
  }
  #refuseOther(options: object | string): void {
    const refusal = this.#refusal(options);
    if (refusal !== null) throw refusal;
  }
}

/** A target that went missing on its way here must not mean all of the user's jobs. */
function readTarget(target: string | UserFilter): string | UserFilter {
  if (typeof target === "string" || (typeof target === "object" && target !== null)) return target;
  throw new InvalidOptionError("target", `${show(target)} is neither the id of a job nor a filter`);
}
