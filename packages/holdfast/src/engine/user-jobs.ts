import type { InputAnd, Job, JobType } from "../job.js";
import type { CancelAnswer, RetryAnswer } from "../store.js";
import type { EnqueueAnswer } from "./enqueuer.js";
import type { Filter, ListOptions } from "./filter.js";
import type { Holdfast } from "./holdfast.js";
import type { EnqueueOptions } from "./new-job.js";
import { readResultCall, type ResultCall, type ResultOptions } from "./results.js";

type UserOptions = Omit<EnqueueOptions, "user">;
type UserFilter = Omit<Filter, "user">;

/** What the client lets a user's view do; every call is bound to the user in the store itself. */
interface ScopedCalls {
  get(id: string): Promise<Job | null>;
  cancel(target: string | Filter): Promise<CancelAnswer | number>;
  retry(target: string | Filter): Promise<RetryAnswer | number>;
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
  ): Promise<EnqueueAnswer>;
  enqueue(type: JobType, input?: unknown, options: UserOptions = {}): Promise<EnqueueAnswer> {
    return this.#hf.enqueue(type, input, { ...options, user: this.user });
  }

  get(id: string): Promise<Job | null> {
    return this.#calls.get(id);
  }
  list(options: Omit<ListOptions, "user"> = {}): Promise<{ jobs: Job[]; cursor: string | null }> {
    return this.#hf.list({ ...options, user: this.user });
  }
  cancel(id: string): Promise<CancelAnswer>;
  cancel(filter: UserFilter): Promise<number>;
  cancel(target: string | UserFilter): Promise<CancelAnswer | number> {
    return this.#calls.cancel(target);
  }
  retry(id: string): Promise<RetryAnswer>;
  retry(filter: UserFilter): Promise<number>;
  retry(target: string | UserFilter): Promise<RetryAnswer | number> {
    return this.#calls.retry(target);
  }
  result(id: string, options?: ResultOptions): Promise<unknown>;
  result<Input, Output>(type: JobType<Input, Output>, id: string, options?: ResultOptions): Promise<Awaited<Output>>;
  result(first: string | JobType, second?: string | ResultOptions, third?: ResultOptions): Promise<unknown> {
    return this.#calls.result(readResultCall(first, second, third));
  }
}
