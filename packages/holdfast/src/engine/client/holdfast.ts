import type { EnqueueManyOptions, EnqueueManyResult, EnqueueOptions, EnqueueResult } from "../../job/enqueue-types.js";
import { ALL_QUEUES, DEFAULTS, LIMITS } from "../../defaults.js";
import { ClosedError } from "../../errors.js";
import { readId } from "../../job/uuid.js";
import type { JobId, JobOutput } from "../../job/job-id.js";
import type { InputAnd, Job, JobType } from "../../job/job.js";
import { readName } from "../../options.js";
import type { CancelResult, FreeKeyResult, RemoveResult, RetryResult, Scope } from "../../store.js";
import type { EngineContext } from "../context.js";
import { readKey } from "../enqueue/unique.js";
import { EnqueueCalls } from "../enqueue/enqueue-calls.js";
import type { Enqueuer } from "../enqueue/enqueuer.js";
import type { EventName, Listener } from "../events/events.js";
import { follow, type Followed, type FollowOptions } from "../events/follow.js";
import { warnOfUnknownQueues, warnOfUnknownTypes } from "../events/unknown-names.js";
import type { Maintenance, MaintenanceResult, PurgeOptions } from "../maintenance.js";
import type { ScheduleOptions } from "../scheduler/schedule-definition.js";
import { Scheduler } from "../scheduler/scheduler.js";
import { defineSchedule, newSchedules, type Schedule, type Schedules } from "../scheduler/schedules.js";
import type { EmitOptions, JobStep } from "../../job/step-types.js";
import { emitEvent } from "../steps/emit.js";
import { listSteps } from "../steps/list-steps.js";
import { drain, runNext, type DrainOptions } from "../worker/drain.js";
import type { Lease } from "../worker/claimed-lease.js";
import { readWorkOptions, type WorkOptions } from "../worker/work-options.js";
import { JobWorker, type Worker } from "../worker/worker.js";
import { explainJob, type Explanation } from "../explain/explain-job.js";
import { readHistory, type History, type HistoryOptions } from "../history/read-history.js";
import { newAuditLog, type AuditLog } from "./audit.js";
import { Changes, type BulkOptions, type BulkUpdateOptions, type Target } from "./changes.js";
import { claimLeases, type ClaimOptions } from "./claim-leases.js";
import { closeOnSignals } from "./close-on-signals.js";
import { countJobs, type CountOptions, type JobCount } from "./count-jobs.js";
import { listErrorGroups, type ErrorGroup, type ErrorGroupOptions } from "./error-groups.js";
import { readListFilter, readListOptions, type Filter, type ListOptions } from "./filter.js";
import { getJob, keyOf, type KeyTarget } from "./get-job.js";
import type { UpdateOptions } from "./job-updates.js";
import { listJobs } from "./list-jobs.js";
import { readJob, readWorker, type WorkerStatus } from "./job-view.js";
import { jobForRerun, type RerunOptions } from "./rerun.js";
import { listQueues, pauseQueues, resumeQueues, type QueueStatus } from "./queues.js";
import { readResultCall, Results, type ResultOptions } from "./results.js";
import { readStats, type Stats } from "./stats.js";
import { newTokens, type Tokens } from "./tokens.js";
import { newUserJobs, type UserJobs } from "./user-jobs.js";

/** A page of a list. */
export interface JobList {
  jobs: Job[];
  /** Where the next page begins; null at the end. */
  cursor: string | null;
  /** How many jobs were read to find these. */
  examined: number;
}

/** What `holdfast()` builds a client from. */
export interface ClientParts {
  engine: EngineContext;
  maintenance: Maintenance;
  /** Null: no scheduler runs here. */
  tickMs: number | null;
}

let construct: (parts: ClientParts) => Holdfast;
let contextOf: (hf: Holdfast) => EngineContext;

/** The client: enqueues, reads and changes jobs, and starts workers. Created by `holdfast()`. */
export class Holdfast {
  readonly #engine: EngineContext;
  readonly #enqueuer: Enqueuer;
  readonly #enqueueCalls: EnqueueCalls;
  readonly #results: Results;
  readonly #changes: Changes;
  readonly #maintenance: Maintenance;
  readonly #scheduler: Scheduler;
  readonly #runsScheduler: boolean;
  readonly #scheduleWrites = new Set<Promise<unknown>>();
  readonly #workers = new Set<JobWorker>();
  readonly #detachTelemetry: () => void;
  #removeSignalHandlers: (() => void) | null = null;
  #closing: Promise<void> | null = null;
  #closed = false;
  /** Reads and changes schedules, and creates them at run time. */
  readonly schedules: Schedules;
  /** Who changed what through the API or the CLI, and when. */
  readonly audit: AuditLog;
  /** Creates, checks and revokes API tokens. */
  readonly tokens: Tokens;

  // Private, so that the types of the engine stay out of the published declarations; the functions below the class use it.
  private constructor({ engine, maintenance, tickMs }: ClientParts) {
    const requireOpen = (): EngineContext => this.#requireOpen();
    this.#engine = engine;
    this.#scheduler = new Scheduler(engine, tickMs ?? DEFAULTS.schedule.tickMs);
    this.#runsScheduler = tickMs !== null;
    this.schedules = newSchedules(requireOpen, this.#scheduler, this.#scheduleWrites);
    this.audit = newAuditLog(requireOpen);
    this.tokens = newTokens(requireOpen);
    this.#enqueuer = engine.enqueuer;
    this.#enqueueCalls = new EnqueueCalls(engine, requireOpen, engine.enqueuer);
    this.#results = new Results(engine);
    this.#changes = new Changes(requireOpen);
    this.#maintenance = maintenance;
    this.#detachTelemetry = engine.traces?.attach(this) ?? ((): void => {});
    engine.events.on("workerStopped", ({ worker }) => {
      for (const known of this.#workers) if (known.id === worker) this.#workers.delete(known);
    });
  }

  static {
    construct = (parts) => new Holdfast(parts);
    contextOf = (hf) => hf.#requireOpen();
  }

  // While the client closes, handlers in their grace time may still enqueue and read. Only after that are calls refused.
  #requireOpen(): EngineContext {
    if (this.#closed) throw new ClosedError("this Holdfast client is closed", "create a new one with holdfast()");
    return this.#engine;
  }
  /** For calls that run jobs: they are refused as soon as the client starts to close. */
  #requireNotClosing(): EngineContext {
    if (this.#closing !== null)
      throw new ClosedError("this Holdfast client is closing", "create a new one with holdfast()");
    return this.#requireOpen();
  }

  /**
   * Enqueues a job. Resolves once it is durable. With `tx` the job is part of your own transaction; on SQLite the job is then
   * written, or the error thrown, before the call returns. On other stores errors reject, as in every other call.
   */
  enqueue<Input, Type extends JobType<Input> = JobType<Input>>(
    type: JobType<Input> & Type,
    ...inputAndOptions: InputAnd<NoInfer<Input>, EnqueueOptions>
  ): Promise<EnqueueResult<JobOutput<Type>>>;
  enqueue(type: JobType, input?: unknown, options: EnqueueOptions = {}): Promise<EnqueueResult> {
    return this.#enqueueCalls.enqueue(type, input, options);
  }

  /** Enqueues many jobs of one type, from an array or a stream. Each job has its own result; an invalid one fails alone. */
  enqueueMany<Input, Type extends JobType<Input> = JobType<Input>>(
    type: JobType<Input> & Type,
    inputs: Iterable<NoInfer<Input>> | AsyncIterable<NoInfer<Input>>,
    options?: EnqueueManyOptions<NoInfer<Input>, JobOutput<NoInfer<Type>>>,
  ): Promise<EnqueueManyResult<JobOutput<Type>>[]>;
  enqueueMany<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input> = {},
  ): Promise<EnqueueManyResult[]> {
    return this.#enqueueCalls.enqueueMany(type, inputs, options);
  }

  /** Enqueues a job by the name of its type. The input is validated here if the type is known here, otherwise when it runs. */
  enqueueNamed(type: string, input?: unknown, options: EnqueueOptions = {}): Promise<EnqueueResult> {
    return this.#enqueueCalls.enqueueNamed(type, input, options);
  }

  /** The whole record of a job, or null: by its id, or by the unique key that it holds now. */
  async get<Input = unknown, Output = unknown>(target: JobId<Output> | KeyTarget): Promise<Job<Input, Output> | null> {
    return (await this.#get(target, {})) as Job<Input, Output> | null;
  }
  async #get(target: string | KeyTarget, scope: Scope): Promise<Job | null> {
    return getJob(this.#requireOpen(), target, scope);
  }

  /**
   * Jobs that match, newest first by default, one page at a time. If few of very many jobs match, a page can be short or even empty
   * although more follow: only `cursor: null` is the end. `examined` is how many jobs were read to find them.
   */
  async list(options: ListOptions = {}): Promise<JobList> {
    const engine = this.#requireOpen();
    const { filter, page } = readListOptions(options, engine.clock.now());
    const { jobs, ...others } = await listJobs(engine, filter, page);
    return { jobs: jobs.map((job) => readJob(job, { hasHistory: false })), ...others };
  }

  /**
   * How many jobs match. Stops at `atMost` (default 10,000) and after a limited time: `exact` is then false, and at least `count`
   * match.
   */
  async count(filter: Filter = {}, options: CountOptions = {}): Promise<JobCount> {
    const engine = this.#requireOpen();
    return countJobs(engine, readListFilter(filter, engine.clock.now()), options);
  }

  /**
   * Waits for a job's output. Throws `JobNotCompletedError` if the job ends dead or cancelled.
   *
   * ```ts
   * const { id } = await hf.enqueue(resize, { file });
   * const output = await hf.result(id, { timeout: "1m" });
   * ```
   *
   * The id that `enqueue` returns carries the type of the output. For an id from elsewhere pass the job type too: the call
   * then fails if the job has another type.
   */
  result<Id extends string>(id: Id, options?: ResultOptions): Promise<JobOutput<Id>>;
  result<Type extends JobType>(type: Type, id: string, options?: ResultOptions): Promise<JobOutput<Type>>;
  async result(first: string | JobType, second?: string | ResultOptions, third?: ResultOptions): Promise<unknown> {
    this.#requireOpen();
    const { id, type, options } = readResultCall(first, second, third);
    return this.#results.wait(readId(id), {}, options, type);
  }

  /** Cancels jobs by id, ids or filter. A waiting job is cancelled immediately; the signal of a running one is aborted. */
  cancel(id: string): Promise<CancelResult>;
  cancel(ids: readonly string[]): Promise<CancelResult[]>;
  cancel(filter: Filter, options?: BulkOptions): Promise<number>;
  async cancel(target: Target, options?: BulkOptions): Promise<CancelResult | CancelResult[] | number> {
    return this.#changes.cancel(target, {}, options);
  }
  /** Retries jobs by id, ids or filter: dead and cancelled ones with fresh attempts, failed ones now. */
  retry(id: string): Promise<RetryResult>;
  retry(ids: readonly string[]): Promise<RetryResult[]>;
  retry(filter: Filter, options?: BulkOptions): Promise<number>;
  async retry(target: Target, options?: BulkOptions): Promise<RetryResult | RetryResult[] | number> {
    return this.#changes.retry(target, {}, options);
  }
  /** Deletes jobs by id, ids or filter. Leased jobs are not deleted. */
  remove(id: string): Promise<RemoveResult>;
  remove(ids: readonly string[]): Promise<RemoveResult[]>;
  remove(filter: Filter, options?: BulkOptions): Promise<number>;
  async remove(target: Target, options?: BulkOptions): Promise<RemoveResult | RemoveResult[] | number> {
    return this.#changes.remove(target, {}, options);
  }

  /**
   * Changes waiting jobs, by id or filter. By id it throws `JobNotWaitingError` if the job is no longer waiting; by filter it
   * returns how many jobs changed.
   *
   * ```ts
   * await hf.update(id, { runAt: tomorrow, priority: 10 });
   * await hf.update(welcome, id, { input: { to: "ada@example.com" } }); // typed; fails if the job has another type
   * await hf.update({ queue: "slow", state: "pending" }, { queue: "fast" });
   * ```
   */
  update(id: string, changes: UpdateOptions): Promise<void>;
  update<Input>(
    type: JobType<Input>,
    id: string,
    changes: Omit<UpdateOptions, "input"> & { input?: NoInfer<Input> },
  ): Promise<void>;
  update(filter: Filter, changes: UpdateOptions, options?: BulkUpdateOptions): Promise<number>;
  async update(
    first: string | JobType | Filter,
    second: string | UpdateOptions,
    third?: UpdateOptions | BulkUpdateOptions,
  ): Promise<void | number> {
    if (isJobType(first)) return this.#changes.updateOfType(first, second as string, third as UpdateOptions);
    return this.#changes.update(first, second as UpdateOptions, {}, third as BulkUpdateOptions | undefined);
  }
  /** Makes waiting jobs due now, by id or filter. */
  promote(id: string): Promise<void>;
  promote(filter: Filter, options?: BulkUpdateOptions): Promise<number>;
  promote(target: string | Filter, options?: BulkUpdateOptions): Promise<void | number> {
    return this.#changes.promote(target, {}, options);
  }

  /**
   * Frees a unique key of scope `forever` whose job was deleted, so that a job can have it again. `held`: the job still exists;
   * `hf.remove` deletes it with its key.
   */
  async freeKey(key: string | KeyTarget): Promise<FreeKeyResult> {
    const { store, clock } = this.#requireOpen();
    return store.freeKey(typeof key === "string" ? readKey(key, undefined, clock.now()) : keyOf(key, clock.now()));
  }

  /**
   * Enqueues a copy of a job, whatever its state: a new job that is due now, with the type, input, queue, priority, user, tags,
   * attempts, timeout, retention and schedule of the old one. A new `input` is validated if the type is known here.
   */
  rerun<Output = unknown>(id: JobId<Output>, options?: RerunOptions): Promise<EnqueueResult<Output>>;
  async rerun(id: string, options: RerunOptions = {}): Promise<EnqueueResult> {
    return this.#enqueuer.enqueueBuilt(await jobForRerun(this.#requireOpen(), id, options));
  }

  /**
   * Emits an event: jobs that wait for it with `waitFor` continue, now or when they wait for it within its time. The first event of
   * a name wins; `first` is false for later ones.
   */
  emit(event: string, payload?: unknown, options: EmitOptions = {}): Promise<{ first: boolean }> {
    return emitEvent(() => this.#requireOpen(), this.#engine.store, event, payload, options);
  }

  /** The steps of a job, in the order in which its handler began them. */
  async steps(id: string): Promise<JobStep[]> {
    return listSteps(this.#requireOpen(), readId(id));
  }

  /** Counts by state, queue and type, the age of the oldest due job, and how many jobs finished in the last minute. */
  async stats(): Promise<Stats> {
    return readStats(await this.#requireOpen().store.stats());
  }

  /**
   * Stops claims from a queue, in every process; running jobs continue. The queue need not have jobs yet. Without a queue: from
   * all queues, until `resume()` without one.
   */
  async pause(...queues: [] | [queue: string]): Promise<void> {
    await pauseQueues(this.#requireOpen(), queues, null);
  }
  /** Undoes `pause` of the same queue. A queue that was paused itself stays paused when all queues are resumed. */
  async resume(...queues: [] | [queue: string]): Promise<void> {
    await resumeQueues(this.#requireOpen(), queues);
  }
  /** Whether all queues are paused, by `pause()` without a queue. */
  async isPaused(): Promise<boolean> {
    return (await this.#requireOpen().store.queues()).some(({ queue }) => queue === ALL_QUEUES);
  }
  /** All queues that have jobs (including finished ones) or are paused. */
  async queues(): Promise<QueueStatus[]> {
    return listQueues(this.#requireOpen());
  }
  /** Workers of every process with a heartbeat in the last hour. */
  async workers(): Promise<WorkerStatus[]> {
    return (await this.#requireOpen().store.workers()).map(readWorker);
  }

  /**
   * Defines a recurring job in code. Call it at every start: it creates or updates the schedule, keeps changes made at run
   * time, and does nothing if the schedule is up to date.
   *
   * ```ts
   * await hf.schedule("digest", { job: digest, cron: "0 8 * * MON-FRI", timezone: "Europe/Berlin" });
   * await hf.schedule("sync", { job: sync, input: { full: false }, every: "15m" });
   * ```
   */
  schedule<Input>(name: string, options: ScheduleOptions<Input>): Promise<Schedule>;
  schedule(name: string, options: ScheduleOptions<unknown>): Promise<Schedule> {
    return defineSchedule(this.schedules, name, options);
  }
  /** Deletes a schedule; its jobs stay. False if it does not exist. */
  unschedule(name: string): Promise<boolean> {
    return this.schedules.remove(name);
  }

  /** A view that sees and changes only this user's jobs. */
  forUser(user: string): UserJobs {
    const name = readName(user, "user", LIMITS.userLength);
    const scoped = (target: string | Filter): string | Filter =>
      typeof target === "string" ? target : { ...target, user: name };
    return newUserJobs(name, this, {
      get: (target) => this.#get(target, { user: name }),
      explain: (id) => explainJob(this.#requireOpen(), id, { user: name }),
      cancel: async (target) => (await this.#changes.cancel(scoped(target), { user: name })) as CancelResult | number,
      retry: async (target) => (await this.#changes.retry(scoped(target), { user: name })) as RetryResult | number,
      result: async ({ id, type, options }) => {
        this.#requireOpen();
        return this.#results.wait(readId(id), { user: name }, options, type);
      },
    });
  }

  /**
   * Why a job does not run, or what it does instead: the decisive reason first, each with what would change it.
   *
   * ```ts
   * const { text } = await hf.explain(id); // Queue "mail" has been paused by ada for 3m 20s.
   * ```
   */
  async explain(id: string): Promise<Explanation> {
    return explainJob(this.#requireOpen(), id, {});
  }

  /**
   * Changes of state of all jobs, in every process, from now on or after a cursor.
   *
   * ```ts
   * for await (const { id, to } of hf.follow({ queues: ["mail"], states: ["dead"] })) console.log(id, to);
   * ```
   */
  follow(options: FollowOptions = {}): Followed {
    return follow(this.#requireNotClosing(), options);
  }

  /** Failed attempts in groups of the same error, the latest first. A filter's `fingerprint` finds the jobs of a group. */
  async errorGroups(options: ErrorGroupOptions = {}): Promise<ErrorGroup[]> {
    return listErrorGroups(this.#requireOpen(), options);
  }

  /** How many jobs were enqueued, completed, failed and cancelled, and their wait and run times: by minute for a day, by hour for 30 days. */
  async history(options: HistoryOptions = {}): Promise<History> {
    return readHistory(this.#requireOpen(), options);
  }

  /** Calls `listener` on every event of this name. Returns an unsubscribe function. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    return this.#engine.events.on(name, listener);
  }

  /** Starts a worker and returns it. `await worker.stop()` stops it and waits for its running handlers. */
  work(options: WorkOptions = {}): Worker {
    const settings = readWorkOptions(options);
    const worker = new JobWorker(this.#requireNotClosing(), settings);
    this.#workers.add(worker);
    this.#maintenance.start();
    worker.start();
    if (this.#runsScheduler) this.#scheduler.start();
    warnOfUnknownTypes(this.#engine, settings);
    warnOfUnknownQueues(this.#engine, settings).catch(() => {});
    if (options.signals === true) this.#removeSignalHandlers ??= closeOnSignals(this.#engine, () => this.close());
    return worker;
  }

  /**
   * Claims jobs for a program that runs them itself. Jobs that must not run (cancelled, expired, no attempt left) are settled
   * and not returned.
   */
  async claim(options: ClaimOptions = {}): Promise<Lease[]> {
    return claimLeases(this.#requireNotClosing(), options);
  }

  /** Runs one due job until it is settled. False if none is due. For cron and tests. */
  async runNext(options: Omit<DrainOptions, "concurrency"> = {}): Promise<boolean> {
    return runNext(this.#requireNotClosing(), this.#workers, options);
  }

  /** Runs all due jobs, and the jobs that they enqueue, until none is due. Returns how many ran. */
  async drain(options: DrainOptions = {}): Promise<number> {
    return drain(this.#requireNotClosing(), this.#workers, options);
  }

  /** Reaps expired leases now instead of at the next maintenance. Returns how many. */
  async reapExpiredLeases(): Promise<number> {
    this.#requireOpen();
    return this.#maintenance.reapExpiredLeases();
  }
  /** Dead-letters waiting jobs past their expiry. Returns how many. */
  async expireOverdue(): Promise<number> {
    this.#requireOpen();
    return this.#maintenance.expireOverdue();
  }
  /** Deletes finished jobs: by the retention rules, or all of one state that finished longer ago than `olderThan`. */
  async purge(options?: PurgeOptions, bulk?: BulkOptions): Promise<number> {
    this.#requireOpen();
    return options === undefined ? this.#maintenance.purge() : this.#maintenance.purgeOlder(options, bulk);
  }
  /**
   * Runs all maintenance now: reaps expired leases, expires overdue jobs, purges by retention, and runs the store's own.
   * Workers do it periodically; call this where only `runNext` or `drain` run.
   */
  async maintain(): Promise<MaintenanceResult> {
    this.#requireOpen();
    return this.#maintenance.runAll();
  }

  /** Stops workers, waits for pending writes, and closes the store. Further calls return the same promise. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
  async #close(): Promise<void> {
    this.#removeSignalHandlers?.();
    // The scheduler and the workers stop concurrently: a slow store must not delay the workers' grace time.
    const schedulerStopped = this.#scheduler.stop();
    await Promise.all([...this.#workers].map((worker) => worker.stop()));
    await schedulerStopped;
    await Promise.allSettled(this.#scheduleWrites);
    this.#closed = true;
    this.#results.close();
    this.#engine.transitions.close();
    await this.#maintenance.stop();
    await this.#enqueuer.idle();
    await this.#engine.settler.idle();
    await Promise.all([this.#engine.history.stop(), this.#engine.errorGroups.flush()]);
    this.#detachTelemetry();
    await this.#engine.reports?.flush();
    await this.#engine.store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** For `holdfast()`. */
export function newHoldfast(parts: ClientParts): Holdfast {
  return construct(parts);
}

/** The engine of a client, for the admin API. Throws `ClosedError` if the client is closed. */
export function engineOf(hf: Holdfast): EngineContext {
  return contextOf(hf);
}

/** A filter has no handler. */
function isJobType(value: unknown): value is JobType {
  return typeof value === "object" && value !== null && "run" in value && typeof value.run === "function";
}
