import type { EnqueueOptions, EnqueueResult } from "../../job/enqueue-types.js";
import { InvalidOptionError } from "../../errors.js";
import type { JobId, JobOutput } from "../../job/job-id.js";
import type { InputAnd, Job, JobType } from "../../job/job.js";
import { show } from "../../options.js";
import type { CancelResult, RetryResult } from "../../store.js";
import type { Explanation } from "../explain/explain-job.js";
import type { CountOptions, JobCount } from "./count-jobs.js";
import type { Filter, ListOptions } from "./filter.js";
import type { KeyTarget } from "./get-job.js";
import type { Holdfast, JobList } from "./holdfast.js";
import { readResultCall, type ResultCall, type ResultOptions } from "./results.js";

type UserClient = Pick<Holdfast, "enqueue" | "list" | "count">;

/** Calls of the client that are limited to one user, in the store itself. */
interface ScopedCalls {
  get(target: string | KeyTarget): Promise<Job | null>;
  explain(id: string): Promise<Explanation>;
  cancel(target: string | Filter): Promise<CancelResult | number>;
  retry(target: string | Filter): Promise<RetryResult | number>;
  result(call: ResultCall): Promise<unknown>;
}

let construct: (user: string, hf: UserClient, calls: ScopedCalls) => UserJobs;

/** One user's jobs. A job of another user is treated as missing. Created by `hf.forUser`. */
export class UserJobs {
  readonly user: string;
  readonly #hf: UserClient;
  readonly #calls: ScopedCalls;

  private constructor(user: string, hf: UserClient, calls: ScopedCalls) {
    this.user = user;
    this.#hf = hf;
    this.#calls = calls;
  }

  static {
    construct = (user, hf, calls) => new UserJobs(user, hf, calls);
  }

  enqueue<Input, Type extends JobType<Input> = JobType<Input>>(
    type: JobType<Input> & Type,
    ...inputAndOptions: InputAnd<NoInfer<Input>, Omit<EnqueueOptions, "user">>
  ): Promise<EnqueueResult<JobOutput<Type>>>;
  enqueue(type: JobType, input?: unknown, options: Omit<EnqueueOptions, "user"> = {}): Promise<EnqueueResult> {
    const refusal = this.#refusal(options);
    if (refusal === null) return this.#hf.enqueue(type, input, { ...options, user: this.user });
    // A transaction of a synchronous driver would not see a rejected promise, and would commit.
    if (options.tx !== undefined) throw refusal;
    return Promise.reject(refusal);
  }

  async get<Input = unknown, Output = unknown>(
    target: JobId<Output> | Omit<KeyTarget, "user">,
  ): Promise<Job<Input, Output> | null> {
    this.#refuseOther(target);
    return (await this.#calls.get(target)) as Job<Input, Output> | null;
  }
  /** Why a job does not run. Says nothing about workers and other users' jobs. */
  async explain(id: string): Promise<Explanation> {
    return this.#calls.explain(id);
  }
  async list(options: Omit<ListOptions, "user"> = {}): Promise<JobList> {
    this.#refuseOther(options);
    return this.#hf.list({ ...options, user: this.user });
  }
  async count(filter: Omit<Filter, "user"> = {}, options?: CountOptions): Promise<JobCount> {
    this.#refuseOther(filter);
    return this.#hf.count({ ...filter, user: this.user }, options);
  }
  cancel(id: string): Promise<CancelResult>;
  cancel(filter: Omit<Filter, "user">): Promise<number>;
  async cancel(target: string | Omit<Filter, "user">): Promise<CancelResult | number> {
    this.#refuseOther(readTarget(target));
    return this.#calls.cancel(target);
  }
  retry(id: string): Promise<RetryResult>;
  retry(filter: Omit<Filter, "user">): Promise<number>;
  async retry(target: string | Omit<Filter, "user">): Promise<RetryResult | number> {
    this.#refuseOther(readTarget(target));
    return this.#calls.retry(target);
  }
  result<Id extends string>(id: Id, options?: ResultOptions): Promise<JobOutput<Id>>;
  result<Type extends JobType>(type: Type, id: string, options?: ResultOptions): Promise<JobOutput<Type>>;
  result(first: string | JobType, second?: string | ResultOptions, third?: ResultOptions): Promise<unknown> {
    return this.#calls.result(readResultCall(first, second, third));
  }

  /** An option `user` with another value would be overridden silently, and the call would concern other jobs than asked for. */
  #refusal(options: object | string): InvalidOptionError | null {
    const { user } = (options ?? {}) as { user?: unknown };
    if (user === undefined || user === this.user) return null;
    return new InvalidOptionError(
      "user",
      `is ${show(user)}, but this view is limited to ${show(this.user)}; leave it out, or use hf.forUser() of that user`,
    );
  }
  #refuseOther(options: object | string): void {
    const refusal = this.#refusal(options);
    if (refusal !== null) throw refusal;
  }
}

/** For `hf.forUser`. */
export function newUserJobs(user: string, hf: UserClient, calls: ScopedCalls): UserJobs {
  return construct(user, hf, calls);
}

/** An undefined target must not mean all of the user's jobs. */
function readTarget(target: string | Omit<Filter, "user">): string | Omit<Filter, "user"> {
  if (typeof target === "string" || (typeof target === "object" && target !== null)) return target;
  throw new InvalidOptionError("target", `${show(target)} is neither a job id nor a filter`);
}
