import type { Clock } from "../../clock.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import { durationMs, type Duration } from "../../duration.js";
import { ClosedError, InvalidOptionError, JobNotFoundError } from "../../errors.js";
import { newId, readId } from "../../job/id.js";
import { encodeInput, namedType, type InputAnd, type Job, type JobType } from "../../job/job.js";
import { readCount, readName, readQueue, refuseUnknown, show } from "../../options.js";
import { redactor } from "../../redact.js";
import { restorer } from "../../restore.js";
import type { RetryOptions } from "../../job/retry.js";
import { isFinished, isState, type FinishedState } from "../../job/state.js";
import type { CancelResult, QueueRecord, RemoveResult, RetryResult, Scope, Store } from "../../store.js";
import { announce, announceClaim } from "../events/publish.js";
import { AuditLog } from "./audit.js";
import { Changes, type BulkOptions, type Target } from "./changes.js";
import { readClock, readLogger, readPort, readTick, readTypes, safeRandom } from "./client-options.js";
import { holdLease, type EngineContext, type HeldLease } from "../context.js";
import { Cursors } from "./cursors.js";
import { Enqueuer, type EnqueueResult, type EnqueueManyResult, type EnqueueManyOptions } from "../enqueue/enqueuer.js";
import { Emitter, type EventName, type Listener } from "../events/events.js";
import { readListOptions, type Filter, type ListOptions } from "./filter.js";
import { inTransaction } from "../enqueue/in-transaction.js";
import { Lease } from "../worker/lease.js";
import { safeLogger, silentLogger, type Logger } from "../events/logger.js";
import { Maintenance, readAuditRetention, readRetention, keptMs } from "../maintenance.js";
import type { MaintenanceResult, RetentionOptions } from "../maintenance.js";
import type { EnqueueOptions } from "../enqueue/new-job.js";
import { openStore } from "../open-store.js";
import { tellOutages } from "../events/outage-log.js";
import { triage } from "../worker/outcome.js";
import { readJob, readWorker, type WorkerStatus } from "./job-view.js";
import { Reports, type ErrorReporter } from "../events/reports.js";
import { readResultCall, Results, type ResultOptions } from "./results.js";
import type { ScheduleOptions } from "../scheduler/schedule-definition.js";
import { Scheduler } from "../scheduler/scheduler.js";
import { Schedules, type Schedule } from "../scheduler/schedules.js";
import { Settler } from "../worker/settler.js";
import { readRetryDefaults } from "../worker/retry-defaults.js";
import { readStats, withFinished, type Stats } from "./stats.js";
import { Tokens } from "./tokens.js";
import { Traces, type Telemetry } from "../events/telemetry.js";
import { scheduleKey } from "../enqueue/unique.js";
import { UserJobs } from "./user-jobs.js";
import { warnOfQueues, warnOfTypes } from "../events/unknown-names.js";
import { readWorkOptions, Worker, type WorkOptions } from "../worker/worker.js";

export interface HoldfastOptions {
  /** `"sqlite:jobs.db"`, `"sqlite::memory:"`, `"postgres://…"`, `"dynamodb://jobs"`, or a store. Default `"sqlite:holdfast.db"`. */
  store?: string | Store;
  /** The job types this process can run. */
  jobs?: readonly JobType[];
  /** Attempts and backoff of job types that set none; what a type sets counts, field by field. */
  retry?: RetryOptions;
  /** How long finished jobs are kept, and the audit log. Default: completed and cancelled 7 days, dead 30, audit 90. */
  retention?: RetentionOptions;
  /** How often the scheduler looks when it knows of no nearer slot (default 5 s), or `false`: none runs here. */
  scheduler?: SchedulerOptions | false;
  /** pino-shaped, or `false` for silence. Default: warnings and errors on stderr. */
  logger?: Logger | false;
  /** Spans and metrics of enqueues and runs; `openTelemetry()` of `holdfast/opentelemetry`. */
  telemetry?: Telemetry;
  /** Where failed attempts are reported; `sentry()` of `holdfast/sentry`. */
  reporter?: ErrorReporter;
  /** What of a job's input is left out of reports and spans, as paths: `"input.password"`, `"**.token"`. */
  redact?: readonly string[];
  /** Source of time; `fakeClock()` of `holdfast/testing` in tests. Its functions must not throw. */
  clock?: Clock;
  /** Source of chance for jitter, from 0 to 1. Where it gives anything else, 0.5 is taken. */
  random?: () => number;
}

export interface SchedulerOptions {
  /** 1 s to 1 h. Slots known by then are met to the millisecond; only news of others can be so late. */
  tick?: Duration;
}

const OPTION_FIELDS: ReadonlySet<string> = new Set([
  "store",
  "jobs",
  "retry",
  "retention",
  "scheduler",
  "logger",
  "telemetry",
  "reporter",
  "redact",
  "clock",
  "random",
]);

/** Opens the store, brings its schema up to date, and gives the client. Starts no timer, no worker. */
export async function holdfast(options: HoldfastOptions = {}): Promise<Holdfast> {
  refuseUnknown(options, OPTION_FIELDS, "holdfast");
  const clock = readClock(options.clock);
  const retry = readRetryDefaults(options.retry);
  const types = readTypes(options.jobs ?? [], retry);
  const retention = readRetention(options.retention ?? {});
  const auditMs = readAuditRetention(options.retention ?? {});
  const tickMs = readTick(options.scheduler ?? {});
  const redact = redactor(options.redact ?? []);
  const telemetry = readPort(options.telemetry, "telemetry", ["enqueue", "run"]);
  const reporter = readPort(options.reporter, "reporter", ["report"]);
  const logger = options.logger === false ? silentLogger : safeLogger(readLogger(options.logger));
  if ("store" in options && options.store === undefined) {
    const problem = "is undefined; is the environment variable set? Leave it out for the file holdfast.db";
    throw new InvalidOptionError("store", problem);
  }
  const given = "store" in options ? options.store : "sqlite:holdfast.db";
  if (typeof given !== "string" && typeof given?.migrate !== "function") {
    throw new InvalidOptionError("store", `${show(given)} is neither the URL of a store nor a store`);
  }
  const store = typeof given === "string" ? await openStore(given, { clock }) : given;
  const events = new Emitter((name, error) => void logger.error({ event: name, error }, "an event listener threw"));
  const engine: EngineContext = {
    store,
    clock,
    random: options.random === undefined ? Math.random : safeRandom(options.random, logger),
    types,
    retry,
    events,
    logger,
    settler: new Settler(store, clock, events, keptMs(retention)),
    traces: telemetry === null ? null : new Traces(telemetry, logger),
    reports: reporter === null ? null : new Reports(reporter, logger, redact),
    cursors: new Cursors(store),
    redact,
    restore: restorer(options.redact ?? []),
    defined: new Set(),
    defining: new Set(),
    toldQueues: new Set(),
    inserting: new Set(),
  };
  tellOutages(engine);
  try {
    await store.migrate();
  } catch (error) {
    await store.close().catch(() => {});
    throw error;
  }
  return new Holdfast(engine, new Maintenance(engine, retention, auditMs), tickMs, auditMs);
}

export interface ClaimOptions {
  queues?: readonly string[];
  types?: readonly (string | JobType)[];
  /** At most this many, 1 to 500. Default 1. */
  limit?: number;
  lease?: Duration;
}
export interface RerunOptions {
  /** Instead of the old job's. */
  input?: unknown;
}

const RERUN_FIELDS: ReadonlySet<string> = new Set(["input"]);
const PURGE_FIELDS: ReadonlySet<string> = new Set(["state", "olderThan"]);
const CLAIM_FIELDS: ReadonlySet<string> = new Set(["queues", "types", "limit", "lease"]);

/** What `runNext` and `drain` take: that of a worker, and how they are stopped. */
export interface DrainOptions extends Pick<
  WorkOptions,
  "queues" | "types" | "concurrency" | "lease" | "grace" | "unknownType"
> {
  /** Aborted, nothing more is claimed; jobs under way have the grace time to end, as with `stop` of a worker. */
  signal?: AbortSignal;
}

/** The client: enqueues, looks, changes, and starts workers. Made by {@link holdfast}. */
export class Holdfast {
  readonly #engine: EngineContext;
  readonly #enqueuer: Enqueuer;
  readonly #results: Results;
  readonly #changes: Changes;
  readonly #maintenance: Maintenance;
  readonly #scheduler: Scheduler;
  readonly #runsScheduler: boolean;
  readonly #writingSchedules = new Set<Promise<unknown>>();
  /** Schedules: looks at them, changes them, makes them at run time. */
  readonly schedules: Schedules;
  /** Who changed what by API or command, and when. */
  readonly audit: AuditLog;
  /** Tokens of the API: makes, checks and revokes them. */
  readonly tokens: Tokens;
  readonly #workers = new Set<Worker>();
  #closing: Promise<void> | null = null;
  #closed = false;
  readonly #detach: () => void;

  /** @internal */
  constructor(engine: EngineContext, maintenance: Maintenance, tickMs: number | null, auditMs: number | null) {
    this.#engine = engine;
    this.#scheduler = new Scheduler(engine, tickMs ?? DEFAULTS.schedule.tickMs);
    this.#runsScheduler = tickMs !== null;
    this.schedules = new Schedules(() => this.#open(), this.#scheduler, this.#writingSchedules);
    this.audit = new AuditLog(() => this.#open(), auditMs);
    this.tokens = new Tokens(() => this.#open());
    this.#enqueuer = new Enqueuer(engine);
    this.#results = new Results(engine);
    this.#changes = new Changes(() => this.#open());
    this.#maintenance = maintenance;
    this.#detach = engine.traces?.attach(this) ?? nothing;
    engine.events.on("workerStopped", ({ worker }) => {
      for (const known of this.#workers) if (known.id === worker) this.#workers.delete(known);
    });
  }

  /** @internal What the client is made of, for the parts that are built on it. */
  static engineOf(hf: Holdfast): EngineContext {
    return hf.#open();
  }

  // Handlers in their grace time still enqueue and look; only when they have ended is the client shut.
  #open(): EngineContext {
    if (this.#closed) throw new ClosedError("this Holdfast client is closed", "make a new one with holdfast()");
    return this.#engine;
  }
  /** For what would run jobs: refused from the moment of closing. */
  #running(): EngineContext {
    if (this.#closing !== null)
      throw new ClosedError("this Holdfast client is closing", "make a new one with holdfast()");
    return this.#open();
  }

  /**
   * Adds a job. Resolves once it is durable. With `tx` the job is part of your own transaction; on SQLite the job is
   * written, or the error thrown, before the call returns. On other stores errors reject, as those of every call do.
   */
  enqueue<Input>(
    type: JobType<Input>,
    ...inputAndOptions: InputAnd<NoInfer<Input>, EnqueueOptions>
  ): Promise<EnqueueResult>;
  enqueue(type: JobType, input?: unknown, options: EnqueueOptions = {}): Promise<EnqueueResult> {
    if (options?.tx === undefined) return this.#enqueueSoon(type, input, options);
    return this.#inTransaction(() => this.#enqueuer.enqueueIn(readType(type), input, options));
  }
  async #enqueueSoon(type: JobType, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    this.#open();
    return this.#enqueuer.enqueue(readType(type), input, options);
  }

  /** Adds many jobs of one type, from a list or a stream. Each has its own answer; a bad one does not spoil the rest. */
  enqueueMany<Input>(
    type: JobType<Input>,
    inputs: Iterable<NoInfer<Input>> | AsyncIterable<NoInfer<Input>>,
    options: EnqueueManyOptions<NoInfer<Input>> = {},
  ): Promise<EnqueueManyResult[]> {
    if (options?.tx === undefined) return this.#enqueueManySoon(type, inputs, options);
    return this.#inTransaction(() => this.#enqueuer.enqueueManyIn(readType(type), inputs, options));
  }
  async #enqueueManySoon<Input>(
    type: JobType,
    inputs: Iterable<Input> | AsyncIterable<Input>,
    options: EnqueueManyOptions<Input>,
  ): Promise<EnqueueManyResult[]> {
    this.#open();
    return this.#enqueuer.enqueueMany(readType(type), inputs, options);
  }

  /** Adds a job by the name of its type. The input is checked if the type is known here; otherwise where it runs. */
  enqueueNamed(type: string, input?: unknown, options: EnqueueOptions = {}): Promise<EnqueueResult> {
    if (options?.tx === undefined) return this.#enqueueNamedSoon(type, input, options);
    return this.#inTransaction(() => this.#enqueuer.enqueueIn(this.#named(type), input, options));
  }
  async #enqueueNamedSoon(type: string, input: unknown, options: EnqueueOptions): Promise<EnqueueResult> {
    this.#open();
    return this.#enqueuer.enqueue(this.#named(type), input, options);
  }
  #named(type: string): JobType {
    return this.#engine.types.get(readName(type, "type", LIMITS.typeLength)) ?? namedType(type);
  }

  #inTransaction<Result>(call: () => Promise<Result>): Promise<Result> {
    return inTransaction(this.#engine.store, () => {
      this.#open();
      return call();
    });
  }

  /** The whole record of a job, or null. */
  async get<Input = unknown, Output = unknown>(id: string): Promise<Job<Input, Output> | null> {
    return (await this.#get(id, {})) as Job<Input, Output> | null;
  }
  async #get(id: string, scope: Scope): Promise<Job | null> {
    const stored = await this.#open().store.get(readId(id), scope);
    return stored === null ? null : readJob(stored);
  }

  /**
   * Jobs that match, newest first, a page at a time. Where few match among very many, a page may be short, even empty,
   * while there is a `cursor`: only `cursor: null` is the end.
   */
  async list(options: ListOptions = {}): Promise<{ jobs: Job[]; cursor: string | null }> {
    const { store, cursors } = this.#open();
    const { filter, page } = readListOptions(options);
    const from = page.cursor === null ? null : await cursors.open(page.cursor);
    const { jobs, cursor } = await store.list(filter, { ...page, cursor: from });
    return { jobs: jobs.map(readJob), cursor: cursor === null ? null : await cursors.seal(cursor) };
  }

  /**
   * Waits for a job's output. Throws `JobNotCompletedError` if it ends dead or cancelled.
   *
   * ```ts
   * const { id } = await hf.enqueue(resize, { file });
   * const output = await hf.result(resize, id, { timeout: "1m" });
   * ```
   */
  result(id: string, options?: ResultOptions): Promise<unknown>;
  result<Input, Output>(type: JobType<Input, Output>, id: string, options?: ResultOptions): Promise<Awaited<Output>>;
  async result(first: string | JobType, second?: string | ResultOptions, third?: ResultOptions): Promise<unknown> {
    this.#open();
    const { id, type, options } = readResultCall(first, second, third);
    return this.#results.wait(readId(id), {}, options, type);
  }

  /** Cancels by id (waiting: at once; running: its signal is aborted), by a list of ids, or all that match a filter. */
  cancel(id: string): Promise<CancelResult>;
  cancel(ids: readonly string[]): Promise<CancelResult[]>;
  cancel(filter: Filter, options?: BulkOptions): Promise<number>;
  async cancel(target: Target, options?: BulkOptions): Promise<CancelResult | CancelResult[] | number> {
    return this.#changes.cancel(target, {}, options);
  }
  /** Runs dead or cancelled jobs again with fresh attempts, and failed ones now. By id, ids, or all that match a filter. */
  retry(id: string): Promise<RetryResult>;
  retry(ids: readonly string[]): Promise<RetryResult[]>;
  retry(filter: Filter, options?: BulkOptions): Promise<number>;
  async retry(target: Target, options?: BulkOptions): Promise<RetryResult | RetryResult[] | number> {
    return this.#changes.retry(target, {}, options);
  }
  /** Deletes jobs that are not leased, for good. By id, ids, or all that match a filter. */
  remove(id: string): Promise<RemoveResult>;
  remove(ids: readonly string[]): Promise<RemoveResult[]>;
  remove(filter: Filter, options?: BulkOptions): Promise<number>;
  async remove(target: Target, options?: BulkOptions): Promise<RemoveResult | RemoveResult[] | number> {
    return this.#changes.remove(target, {}, options);
  }

  /**
   * A new job with the type, input, queue, priority, user and tags of an old one, whatever became of that. Another `input`
   * is checked if the type is known here.
   */
  async rerun(id: string, options: RerunOptions = {}): Promise<EnqueueResult> {
    const { store, clock, types } = this.#open();
    refuseUnknown(options, RERUN_FIELDS, "rerun");
    const old = await store.get(readId(id));
    if (old === null) throw new JobNotFoundError(id);
    const { type, queue, priority, user, maxAttempts, tags, schedule } = old;
    const given = options.input !== undefined;
    const input = given ? await encodeInput(types.get(type) ?? namedType(type), options.input) : old.input;
    const fresh = { id: newId(clock.now()), type, queue, priority, user, input, maxAttempts, tags, schedule };
    // A run of a schedule that does not overlap stays one.
    const key = schedule !== null && old.key === scheduleKey(schedule.name) ? old.key : null;
    const unique = key === null ? null : ({ key, scope: "live", periodMs: 0, onConflict: "keep" } as const);
    return this.#enqueuer.add({ ...fresh, runAt: null, delayMs: 0, expiresAt: null, unique, trace: null });
  }

  /** Counts by state, queue and type, the age of the oldest due job, and what ended in the last minute. */
  async stats(): Promise<Stats> {
    return readStats(await this.#open().store.stats());
  }

  /** Stops the claiming from a queue, in every process; jobs under way go on. The queue need not have jobs yet. */
  async pause(queue: string): Promise<void> {
    const { store, events } = this.#open();
    await store.pause(readQueue(queue, "queue", ""));
    events.emit("paused", { queue });
  }
  async resume(queue: string): Promise<void> {
    const { store, events } = this.#open();
    await store.resume(readQueue(queue, "queue", ""));
    events.emit("resumed", { queue });
  }
  /** Queues that have jobs, be they finished, and those that were paused. */
  async queues(): Promise<QueueRecord[]> {
    const { store } = this.#open();
    const [waiting, { counts }] = await Promise.all([store.queues(), store.stats()]);
    return withFinished(waiting, counts);
  }
  /** Workers heard of in the last hour, in every process. */
  async workers(): Promise<WorkerStatus[]> {
    return (await this.#open().store.workers()).map(readWorker);
  }

  /**
   * Defines a recurring job in code. Repeat it at every start: it puts the schedule in place, keeps what was changed at
   * run time, and does nothing if all is as it should be.
   *
   * ```ts
   * await hf.schedule("digest", { job: digest, cron: "0 8 * * MON-FRI", timezone: "Europe/Berlin" });
   * await hf.schedule("sync", { job: sync, input: { full: false }, every: "15m" });
   * ```
   */
  schedule<Input>(name: string, options: ScheduleOptions<Input>): Promise<Schedule>;
  schedule(name: string, options: ScheduleOptions<unknown>): Promise<Schedule> {
    return this.schedules.define(name, options);
  }
  /** Deletes a schedule; its jobs stay. False: there was none. */
  unschedule(name: string): Promise<boolean> {
    return this.schedules.remove(name);
  }

  /** A view that sees and touches only this user's jobs. */
  forUser(user: string): UserJobs {
    const name = readName(user, "user", LIMITS.userLength);
    return new UserJobs(name, this, {
      get: (id) => this.#get(id, { user: name }),
      cancel: async (target) =>
        (await this.#changes.cancel(scoped(target, name), { user: name })) as CancelResult | number,
      retry: async (target) =>
        (await this.#changes.retry(scoped(target, name), { user: name })) as RetryResult | number,
      result: async ({ id, type, options }) => {
        this.#open();
        return this.#results.wait(readId(id), { user: name }, options, type);
      },
    });
  }

  /** Calls `listener` on every event of this name; the answer stops that. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    return this.#engine.events.on(name, listener);
  }

  /** Starts a worker. Returns at once; `await worker.stop()` drains it. */
  work(options: WorkOptions = {}): Worker {
    const settings = readWorkOptions(options);
    const worker = new Worker(this.#running(), settings);
    this.#workers.add(worker);
    this.#maintenance.start();
    worker.start();
    if (this.#runsScheduler) this.#scheduler.start();
    if (this.#engine.types.size === 0) {
      this.#engine.logger.warn({}, "this worker has no handler for any job type; pass holdfast({ jobs: [ … ] })");
    } else warnOfTypes(this.#engine, settings);
    warnOfQueues(this.#engine, settings).catch(nothing);
    if (options.signals === true && this.#offSignals === nothing) this.#stopOnSignals();
    return worker;
  }

  #stopOnSignals(): void {
    let stopping = false;
    const stop = (): void => {
      // One Ctrl-C may come twice: from the terminal, and from a runner such as tsx that hands its signals on.
      if (stopping) return;
      stopping = true;
      // A signal after that finds the handlers gone and ends the process at once.
      this.#engine.clock.after(SAME_SIGNAL_MS, off, { background: true });
      this.#offSignals = nothing;
      this.close().catch((error: unknown) => this.#engine.logger.error({ error }, "closing on a signal failed"));
    };
    const off = (): void => {
      process.off("SIGTERM", stop);
      process.off("SIGINT", stop);
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
    this.#offSignals = off;
  }
  #offSignals: () => void = nothing;

  /** Leases jobs to you, for a runner of your own. What must not run is laid down and not handed out. */
  async claim(options: ClaimOptions = {}): Promise<Lease[]> {
    const engine = this.#running();
    refuseUnknown(options, CLAIM_FIELDS, "claim");
    const { limit: wanted = 1, ...rest } = options;
    const limit = readCount(wanted, "limit", 1, LIMITS.batchJobs);
    const { queues, types, leaseMs } = readWorkOptions(rest);
    const worker = `claim:${process.pid}`;
    for (;;) {
      const sentAt = engine.clock.monotonic();
      const claim = await engine.store.claim({ queues, types, limit, bytes: LIMITS.batchBytes, worker, leaseMs });
      const held = claim.jobs.map((job) => holdLease(job, worker, { at: claim.at, sentAt, leaseMs }));
      const leases: HeldLease[] = [];
      const laidDown: Promise<void>[] = [];
      for (const lease of held) {
        announceClaim(engine, lease);
        const down = triage(lease, claim.at);
        if (down === null) leases.push(lease);
        else
          laidDown.push(
            engine.settler.settle(down, lease.deadline).then((answer) => announce(engine, lease, down, answer)),
          );
      }
      await Promise.all(laidDown);
      if (leases.length > 0 || claim.jobs.length === 0) return leases.map((lease) => new Lease(engine, lease, leaseMs));
    }
  }

  /** Runs one due job to its end. False if there was none. For cron and tests. */
  async runNext(options: DrainOptions = {}): Promise<boolean> {
    return this.#aside({ ...options, concurrency: 1 }, async (worker) => {
      for (;;) {
        const { claimed, ran } = await worker.once(1);
        if (ran > 0 || claimed === 0) return ran > 0;
      }
    });
  }

  /** Runs everything that is due, and what that enqueues, until nothing is. Answers how many jobs ran. */
  async drain(options: DrainOptions = {}): Promise<number> {
    return this.#aside(options, async (worker) => {
      let total = 0;
      for (;;) {
        const { claimed, ran } = await worker.once(100);
        total += ran;
        if (claimed === 0) return total;
      }
    });
  }

  async #aside<Answer>(
    { signal, ...options }: DrainOptions,
    use: (worker: Worker) => Promise<Answer>,
  ): Promise<Answer> {
    const worker = new Worker(this.#running(), readWorkOptions(options));
    this.#workers.add(worker);
    const stop = (): void => void worker.stop().catch(nothing);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
    try {
      return await use(worker);
    } finally {
      signal?.removeEventListener("abort", stop);
      await worker.stop();
      this.#workers.delete(worker);
    }
  }

  /** Lays down leases that ran out, now rather than at the next turn of maintenance. Answers how many. */
  async reapExpiredLeases(): Promise<number> {
    this.#open();
    return this.#maintenance.reapExpiredLeases();
  }
  /** Lays down waiting jobs past their expiry. Answers how many. */
  async expireOverdue(): Promise<number> {
    this.#open();
    return this.#maintenance.expireOverdue();
  }
  /** Deletes finished jobs: by the retention rules, or all of a state that ended longer ago than `olderThan`. */
  async purge(options?: { state: FinishedState; olderThan: Duration }, bulk?: BulkOptions): Promise<number> {
    const { clock } = this.#open();
    if (options === undefined) return this.#maintenance.purge();
    refuseUnknown(options, PURGE_FIELDS, "purge");
    if (!isState(options.state) || !isFinished(options.state)) {
      throw new InvalidOptionError("state", `${show(options.state)} is none of completed, dead, cancelled`);
    }
    const before = clock.now() - durationMs(options.olderThan, "olderThan");
    return this.#maintenance.purgeState(options.state, { before, keep: null }, bulk);
  }

  /**
   * Does all maintenance now: stale leases, expiry, retention, the store's own upkeep. A worker does it by itself; call
   * this where only `runNext` or `drain` run.
   */
  async maintain(): Promise<MaintenanceResult> {
    this.#open();
    return this.#maintenance.all();
  }

  /** Stops workers, flushes what is under way, closes the store. Again: the same promise. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }
  async #close(): Promise<void> {
    this.#offSignals();
    // First what makes work, then what does it; a store that is slow to answer the one must not hold up the other.
    const scheduled = this.#scheduler.stop();
    await Promise.all([...this.#workers].map((worker) => worker.stop()));
    await scheduled;
    await Promise.allSettled(this.#writingSchedules);
    this.#closed = true;
    this.#results.close();
    await this.#maintenance.stop();
    await this.#enqueuer.idle();
    await this.#engine.settler.idle();
    this.#detach();
    await this.#engine.reports?.flush();
    await this.#engine.store.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

// Signals that come within this are one and the same.
const SAME_SIGNAL_MS = 1_000;

function nothing(): void {}

function readType(type: JobType): JobType {
  if (typeof type?.type !== "string" || typeof type.run !== "function") {
    throw new InvalidOptionError("type", "is not a job type; pass what job({ … }) returned");
  }
  return type;
}

function scoped(target: string | Filter, user: string): string | Filter {
  return typeof target === "string" ? target : { ...target, user };
}
