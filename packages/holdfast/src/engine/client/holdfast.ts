import { DEFAULTS, LIMITS } from "../../defaults.js";
import { ClosedError, InvalidOptionError } from "../../errors.js";
import { readId } from "../../job/uuid.js";
import type { JobId, JobOutput } from "../../job/job-id.js";
import { namedType, type InputAnd, type Job, type JobType } from "../../job/job.js";
import { readName, readQueue, show } from "../../options.js";
import type { CancelResult, QueueRecord, RemoveResult, RetryResult, Scope } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { EnqueueManyOptions } from "../enqueue/bulk-enqueue.js";
import type { EnqueueManyResult, EnqueueResult } from "../enqueue/enqueue-result.js";
import { Enqueuer } from "../enqueue/enqueuer.js";
import { inTransaction } from "../enqueue/in-transaction.js";
import type { EnqueueOptions } from "../enqueue/new-job.js";
import type { EventName, Listener } from "../events/events.js";
import { warnOfUnknownQueues, warnOfUnknownTypes } from "../events/unknown-names.js";
import type { Maintenance, MaintenanceResult, PurgeOptions } from "../maintenance.js";
import type { ScheduleOptions } from "../scheduler/schedule-definition.js";
import { Scheduler } from "../scheduler/scheduler.js";
import { defineSchedule, newSchedules, type Schedule, type Schedules } from "../scheduler/schedules.js";
import { drain, runNext, type DrainOptions } from "../worker/drain.js";
import type { Lease } from "../worker/claimed-lease.js";
import { readWorkOptions, type WorkOptions } from "../worker/work-options.js";
import { JobWorker, type Worker } from "../worker/worker.js";
import { newAuditLog, type AuditLog } from "./audit.js";
import { Changes, type BulkOptions, type Target } from "./changes.js";
import { claimLeases, type ClaimOptions } from "./claim-leases.js";
import { closeOnSignals } from "./close-on-signals.js";
import { readListOptions, type Filter, type ListOptions } from "./filter.js";
import { readJob, readWorker, type WorkerStatus } from "./job-view.js";
import { jobForRerun, type RerunOptions } from "./rerun.js";
import { readResultCall, Results, type ResultOptions } from "./results.js";
import { readStats, withFinished, type Stats } from "./stats.js";
import { newTokens, type Tokens } from "./tokens.js";
import { newUserJobs, type UserJobs } from "./user-jobs.js";

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
    this.#enqueuer = new Enqueuer(engine);
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
    if (options?.tx === undefined) return this.#enqueue(type, input, options);
    return this.#inTransaction(() => this.#enqueuer.enqueueInTransaction(readType(type), input, options));
  }
  async #enqueue(type: JobType, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    this.#requireOpen();
    return this.#enqueuer.enqueue(readType(type), input, options);
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
    if (options?.tx === undefined) return this.#enqueueMany(type, inputs, options);
    return this.#inTransaction(() => this.#enqueuer.enqueueManyInTransaction(readType(type), inputs, options));
  }
  async #enqueueMany<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
  ): Promise<EnqueueManyResult[]> {
    this.#requireOpen();
    return this.#enqueuer.enqueueMany(readType(type), inputs, options);
  }

  /** Enqueues a job by the name of its type. The input is validated here if the type is known here, otherwise when it runs. */
  enqueueNamed(type: string, input?: unknown, options: EnqueueOptions = {}): Promise<EnqueueResult> {
    if (options?.tx === undefined) return this.#enqueueNamed(type, input, options);
    return this.#inTransaction(() => this.#enqueuer.enqueueInTransaction(this.#typeNamed(type), input, options));
  }
  async #enqueueNamed(type: string, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    this.#requireOpen();
    return this.#enqueuer.enqueue(this.#typeNamed(type), input, options);
  }
  #typeNamed(type: string): JobType {
    return this.#engine.types.get(readName(type, "type", LIMITS.typeLength)) ?? namedType(type);
  }

  #inTransaction<Result>(call: () => Promise<Result>): Promise<Result> {
    return inTransaction(this.#engine.store, () => {
      this.#requireOpen();
      return call();
    });
  }

  /** The whole record of a job, or null. */
  async get<Input = unknown, Output = unknown>(id: JobId<Output>): Promise<Job<Input, Output> | null> {
    return (await this.#get(id, {})) as Job<Input, Output> | null;
  }
  async #get(id: string, scope: Scope): Promise<Job | null> {
    const stored = await this.#requireOpen().store.get(readId(id), scope);
    return stored === null ? null : readJob(stored);
  }

  /**
   * Jobs that match, newest first, one page at a time. If few of very many jobs match, a page can be short or even empty
   * although more follow: only `cursor: null` is the end.
   */
  async list(options: ListOptions = {}): Promise<{ jobs: Job[]; cursor: string | null }> {
    const { store, cursors } = this.#requireOpen();
    const { filter, page } = readListOptions(options);
    const from = page.cursor === null ? null : await cursors.decrypt(page.cursor);
    const { jobs, cursor } = await store.list(filter, { ...page, cursor: from });
    return { jobs: jobs.map(readJob), cursor: cursor === null ? null : await cursors.encrypt(cursor) };
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
   * Enqueues a new job with the type, input, queue, priority, user and tags of an old one, whatever its state. A new `input` is
   * validated if the type is known here.
   */
  rerun<Output = unknown>(id: JobId<Output>, options?: RerunOptions): Promise<EnqueueResult<Output>>;
  async rerun(id: string, options: RerunOptions = {}): Promise<EnqueueResult> {
    return this.#enqueuer.enqueueBuilt(await jobForRerun(this.#requireOpen(), id, options));
  }

  /** Counts by state, queue and type, the age of the oldest due job, and how many jobs finished in the last minute. */
  async stats(): Promise<Stats> {
    return readStats(await this.#requireOpen().store.stats());
  }

  /** Stops claims from a queue, in every process; running jobs continue. The queue need not have jobs yet. */
  async pause(queue: string): Promise<void> {
    const { store, events } = this.#requireOpen();
    await store.pause(readQueue(queue, "queue", ""));
    events.emit("paused", { queue });
  }
  async resume(queue: string): Promise<void> {
    const { store, events } = this.#requireOpen();
    await store.resume(readQueue(queue, "queue", ""));
    events.emit("resumed", { queue });
  }
  /** All queues that have jobs (including finished ones) or are paused. */
  async queues(): Promise<QueueRecord[]> {
    const { store } = this.#requireOpen();
    const [waiting, { counts }] = await Promise.all([store.queues(), store.stats()]);
    return withFinished(waiting, counts);
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
      get: (id) => this.#get(id, { user: name }),
      cancel: async (target) => (await this.#changes.cancel(scoped(target), { user: name })) as CancelResult | number,
      retry: async (target) => (await this.#changes.retry(scoped(target), { user: name })) as RetryResult | number,
      result: async ({ id, type, options }) => {
        this.#requireOpen();
        return this.#results.wait(readId(id), { user: name }, options, type);
      },
    });
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
    await this.#maintenance.stop();
    await this.#enqueuer.idle();
    await this.#engine.settler.idle();
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

function readType(type: JobType): JobType {
  if (typeof type?.type !== "string" || typeof type.run !== "function") {
    throw new InvalidOptionError("type", `${show(type)} is not a job type; pass what job({ … }) returned`);
  }
  return type;
}
