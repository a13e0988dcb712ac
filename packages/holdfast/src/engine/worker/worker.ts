import { hostname } from "node:os";
import { isThenable } from "../../callbacks.js";
import type { Timer } from "../../clock.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import {
  ClosedError,
  HoldfastError,
  InvalidInputError,
  InvalidOutputError,
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  NotCommittedError,
  PayloadTooLargeError,
  WorkerStoppingError,
  type AbortReason,
} from "../../errors.js";
import { newId } from "../../job/uuid.js";
import { readCount } from "../../options.js";
import { decodeInput, encodeOutput, type RunContext } from "../../job/job.js";
import type { Hint, LeaseResult, Outcome } from "../../store.js";
import { cancelChildren } from "../steps/cancel-children.js";
import { Claimer } from "./claimer.js";
import { isCommitted } from "./completion.js";
import { leaseEvent, type EngineContext, type HeldLease } from "../context.js";
import { retrySettings } from "./retry-settings.js";
import { LeaseKeeper } from "./lease-keeper.js";
import { publishLost, publishOutcome, publishStart, publishStuck } from "../events/publish.js";
import { retryUntilExpired } from "../retry-busy.js";
import { cancelled, completed, deferUnknownType, failed, released } from "./decide-outcome.js";
import { Run, type RunActions } from "./run.js";
import { HandlerContext } from "./run-context.js";
import { settleInBackground } from "./settle-outcome.js";
import type { SettlerResult } from "./settler.js";
import type { WorkerSettings } from "./work-options.js";

// The start of a handler is written after this long, unless the handler ends first.
const START_DELAY_MS = 20;
// How often log lines and progress of running handlers are written.
const NOTE_INTERVAL_MS = 200;
const MAX_WARNED_TYPES = 100;

/** A worker. `hf.work()` creates and starts one. */
export interface Worker {
  readonly id: string;
  /** How many handlers are running. */
  readonly running: number;
  /** How many handlers may run concurrently. Can be changed at any time. Lowering it does not interrupt running handlers. */
  concurrency: number;
  /** Whether this worker is paused. */
  readonly paused: boolean;
  /** Whether an operator drains this worker, through the admin API: it claims no more jobs, and its running handlers continue. */
  readonly draining: boolean;
  /** Starts claiming. `hf.work()` calls it; on a running worker it does nothing. */
  start(): void;
  /** Stops claiming until `resume`. Running handlers continue; jobs that have not started are released for other workers. */
  pause(): void;
  resume(): void;
  /** Stops claiming, waits for handlers up to the grace time, then aborts them and releases their jobs. */
  stop(): Promise<void>;
}

/**
 * Claims jobs, runs their handlers and settles their outcomes. {@link Claimer} decides when to claim and how many jobs,
 * {@link LeaseKeeper} extends leases and enforces deadlines, and this class runs the handlers.
 */
export class JobWorker implements Worker {
  readonly id: string;
  readonly #engine: EngineContext;
  readonly #settings: { -readonly [Key in keyof WorkerSettings]: WorkerSettings[Key] };
  #paused = false;
  #draining = false;
  readonly #claimer: Claimer;
  readonly #keeper: LeaseKeeper;
  readonly #runs = new Set<Run>();
  #phase: "new" | "working" | "stopping" | "stopped" = "new";
  #stopped: Promise<void> | null = null;
  #unsubscribe: (() => void) | null = null;
  /** Runs whose start is not yet written to the store. */
  readonly #unwrittenStarts = new Set<Run>();
  #startTimer: Timer | null = null;
  #noteTimer: Timer | null = null;
  /** Types without a handler that were logged. */
  readonly #warnedTypes = new Set<string>();
  /** Handlers started so far. */
  #started = 0;
  /** Jobs that do not run, but whose outcome is not decided yet: of unknown types, or waiting for their backoff function. */
  #undecided = 0;
  readonly #actions: RunActions = {
    lost: (run) => this.#abortLost(run),
    cancelRequested: (run) => this.#abort(run, new JobCancelledError(run.lease.job.id)),
    parked: (run, outcome, result) => this.#parked(run, outcome, result),
  };
  /** Resolved at the next change of what is running. */
  #changeWaiters: (() => void)[] = [];

  constructor(engine: EngineContext, settings: WorkerSettings) {
    this.#engine = engine;
    this.#settings = settings;
    this.id = `${hostname()}:${process.pid}:${newId(engine.clock.now()).slice(-12)}`;
    this.#claimer = new Claimer(engine, this.id, settings, {
      running: () => this.#runs.size,
      start: (lease) => this.#start(lease),
      continueUnderNewLease: (lease) => this.#continueUnderNewLease(lease),
      extendLeases: () => this.#keeper.extendNow(),
    });
    this.#keeper = new LeaseKeeper(engine, settings, {
      id: this.id,
      runs: () => this.#runs,
      ready: () => this.#claimer.ready(),
      dropReady: (lease) => this.#claimer.drop(lease),
      lost: (run) => this.#abortLost(run),
      cancel: (id) => this.#cancel(id),
      timedOut: (run) => this.#abort(run, new JobTimeoutError(run.timeoutMs)),
      abandon: (run) => this.#abandon(run),
      setDraining: (draining) => this.#setDraining(draining),
    });
  }

  get running(): number {
    return this.#runs.size;
  }

  get concurrency(): number {
    return this.#settings.concurrency;
  }
  set concurrency(given: number) {
    this.#settings.concurrency = readCount(given, "concurrency", 1, LIMITS.concurrency);
    if (this.#phase === "working") this.#claimer.wake(0);
  }

  get paused(): boolean {
    return this.#paused;
  }
  pause(): void {
    this.#paused = true;
    this.#claimer.pause();
  }
  resume(): void {
    this.#paused = false;
    if (!this.#draining) this.#claimer.resume();
  }

  get draining(): boolean {
    return this.#draining;
  }
  #setDraining(draining: boolean): void {
    if (this.#draining === draining) return;
    this.#draining = draining;
    this.#engine.logger.info({ worker: this.id }, draining ? "drains: claims no more jobs" : "claims jobs again");
    if (draining) this.#claimer.pause();
    else if (!this.#paused) this.#claimer.resume();
  }

  start(): void {
    if (this.#phase === "working") return;
    if (this.#phase !== "new") throw new ClosedError("this worker has been stopped", "call hf.work() for a new one");
    this.#phase = "working";
    this.#unsubscribe = this.#engine.store.listen((hint) => this.#onHint(hint));
    this.#keeper.start();
    this.#claimer.start();
    this.#engine.events.emit("workerStarted", { worker: this.id });
  }

  stop(): Promise<void> {
    if (this.#phase === "new") this.#phase = "stopped";
    if (this.#phase === "stopped") return this.#stopped ?? Promise.resolve();
    this.#stopped ??= this.#shutDown();
    return this.#stopped;
  }

  /** Claims once, at most `limit` jobs, and waits until they are settled. For `runNext` and `drain`. */
  async runBatch(limit: number): Promise<{ claimed: number; ran: number }> {
    if (this.#phase === "new") {
      this.#phase = "working";
      this.#keeper.extendPeriodically();
    }
    // The client is closing: nothing more is claimed.
    if (this.#phase !== "working") return { claimed: 0, ran: 0 };
    const before = this.#started;
    const claimed = await this.#claimer.claimOnce(limit);
    while (this.#runs.size > 0 || this.#undecided > 0 || this.#claimer.ready().length > 0) await this.#nextChange();
    await this.#engine.settler.idle();
    return { claimed, ran: this.#started - before };
  }

  async #shutDown(): Promise<void> {
    const { events, settler } = this.#engine;
    this.#phase = "stopping";
    await this.#claimer.stop();
    // A pending runBatch() must not wait for jobs that were released.
    this.#notifyChange();
    this.#logWait();
    await this.#waitForRuns(this.#settings.graceMs);
    this.#logLate();
    for (const run of this.#runs) this.#abort(run, new WorkerStoppingError());
    await this.#waitForRuns(DEFAULTS.abortWaitMs);
    this.#logIgnored();
    for (const run of this.#runs) this.#finish(run, run.failing ?? this.#outcomeAfterAbort(run));
    while (this.#undecided > 0) await this.#nextChange();
    await settler.idle();
    this.#startTimer?.cancel();
    this.#noteTimer?.cancel();
    await this.#keeper.stop();
    this.#phase = "stopped";
    if (this.#unsubscribe === null) return;
    this.#unsubscribe();
    events.emit("workerStopped", { worker: this.id });
  }

  #logWait(): void {
    const { graceMs } = this.#settings;
    const jobs = this.#runs.size;
    if (jobs === 0 || graceMs === 0) return;
    const message = `stopping: waiting up to ${graceMs / 1_000}s for ${jobs} ${jobs === 1 ? "job" : "jobs"}`;
    this.#engine.logger.info({ worker: this.id }, message);
  }

  #logLate(): void {
    const jobs = [...this.#runs].filter(({ failing }) => failing === null).map(({ lease }) => lease.job.id);
    if (jobs.length === 0) return;
    const what = jobs.length === 1 ? "1 job is" : `${jobs.length} jobs are`;
    this.#engine.logger.info({ worker: this.id, jobs }, `stopping: time is up, ${what} aborted`);
  }

  #logIgnored(): void {
    const runs = [...this.#runs].filter(({ reason }) => reason instanceof WorkerStoppingError);
    if (runs.length === 0) return;
    const message =
      runs.length === 1
        ? "1 handler ignored its signal; its job was released"
        : `${runs.length} handlers ignored their signals; their jobs were released`;
    this.#engine.logger.warn({ jobs: runs.map(({ lease }) => lease.job.id) }, message);
  }

  /** Waits until no handler runs, at most `ms`. */
  async #waitForRuns(ms: number): Promise<void> {
    if (this.#runs.size === 0 || ms === 0) return;
    let timedOut = false;
    const timer = this.#engine.clock.after(ms, () => {
      timedOut = true;
      this.#notifyChange();
    });
    while (this.#runs.size > 0 && !timedOut) await this.#nextChange();
    timer.cancel();
  }

  #nextChange(): Promise<void> {
    return new Promise((resolve) => this.#changeWaiters.push(resolve));
  }
  #notifyChange(): void {
    if (this.#changeWaiters.length > 0) for (const resolve of this.#changeWaiters.splice(0)) resolve();
  }

  #onHint(hint: Hint): void {
    if (hint.kind === "work") this.#claimer.wake(hint.inMs);
    else if (hint.kind === "cancel") this.#keeper.confirmCancellation(hint.ids);
  }

  #cancel(id: string): void {
    for (const run of this.#runs) if (run.lease.job.id === id) this.#abort(run, new JobCancelledError(id));
    const ready = this.#claimer.ready().find((lease) => lease.job.id === id);
    if (ready !== undefined && this.#claimer.drop(ready))
      this.#settle(ready, cancelled(ready, this.#engine.clock.now()));
  }

  #start(lease: HeldLease): void {
    const { clock, types, events } = this.#engine;
    if (clock.monotonic() >= lease.deadline) {
      events.emit("lost", leaseEvent(lease));
      this.#notifyChange();
      return;
    }
    const type = types.get(lease.job.type);
    if (type === undefined) {
      void this.#deferUnknownType(lease);
      return;
    }
    const run = new Run(this.#engine, lease, type, this.#actions);
    this.#started++;
    this.#runs.add(run);
    this.#keeper.watch(run);
    void this.#run(run);
  }

  #continueUnderNewLease(lease: HeldLease): boolean {
    for (const run of this.#runs) {
      if (run.lease.job.id !== lease.job.id || run.reason instanceof LeaseLostError) continue;
      run.continueUnder(lease);
      this.#writeStartSoon(run);
      this.#engine.logger.warn(
        { job: lease.job.id },
        "the clock was set forward; this worker claimed its running job again and continues it",
      );
      return true;
    }
    return false;
  }

  /** Logs once per type: otherwise nothing would point to a forgotten registration for ten minutes. */
  #warnOfUnknownType(type: string): void {
    if (this.#warnedTypes.has(type) || this.#warnedTypes.size >= MAX_WARNED_TYPES) return;
    this.#warnedTypes.add(type);
    const known = [...this.#engine.types.keys()].join(", ");
    this.#engine.logger.warn(
      { type, known: known === "" ? "none" : known },
      "no handler for this type here; its jobs wait for a worker that has one. Missing from holdfast({ jobs })?",
    );
  }

  async #deferUnknownType(lease: HeldLease): Promise<void> {
    const { clock } = this.#engine;
    const deadLetterNow = this.#settings.deadLetterUnknownTypes;
    this.#warnOfUnknownType(lease.job.type);
    this.#undecided++;
    const hasRecentHandler = !deadLetterNow && (await this.#keeper.hasRecentHandler(lease.job.type));
    this.#settle(lease, deferUnknownType(lease, clock.now(), { deadLetterNow, hasRecentHandler }));
    this.#undecided--;
    this.#notifyChange();
  }

  async #run(run: Run): Promise<void> {
    const { lease, type } = run;
    let outcome: Outcome | null;
    // An invalid input or output will be invalid next time too; an error of the handler or the schema may not recur.
    let inHandler = false;
    try {
      // After a lost lease the start is written before the handler runs. Otherwise a job that crashes its worker would look
      // as if it had never started, and no attempt would ever be counted.
      if (lease.job.losses > 0 && !(await this.#writeStart(run))) return;
      const input = decodeInput(type, lease.job.input);
      run.input = isThenable(input) ? await input : input;
      this.#writeStartSoon(run);
      inHandler = true;
      const context = new HandlerContext(run) as RunContext<unknown> as RunContext<never>;
      const output = lease.trace === null ? type.run(context) : lease.trace.inside(() => type.run(context));
      const value = isThenable(output) ? await output : output;
      inHandler = false;
      if (run.hasSteps) await run.steps.handlerEnded();
      if (run.hasEnded) return;
      if (run.completion === null) outcome = completed(lease, encodeOutput(type.type, value));
      else outcome = await this.#outcomeAfterThrow(run, new NotCommittedError(lease.job.id), false);
    } catch (error) {
      if (run.hasSteps) await run.steps.handlerEnded();
      // It was parked: what its handler throws after that is ignored.
      if (run.hasEnded) return;
      const thrown = this.#outcomeAfterThrow(run, error, inHandler);
      if (thrown instanceof Promise && run.completion === null) run.failing = thrown;
      outcome = thrown instanceof Promise ? await thrown : thrown;
    }
    // If the handler's own transaction committed, the job is completed, whatever the handler did afterwards.
    if (run.completion !== null && !run.hasEnded) {
      if (await isCommitted(this.#engine, lease)) outcome = run.completion;
      else run.requeueTransactionNote();
    }
    if (run.hasEnded) return;
    const note = run.takeNote();
    if (note !== null) await this.#engine.store.note([note]).catch((error: unknown) => this.#emitOutage("note", error));
    // A shutdown may have released the job while the note was written.
    if (!run.hasEnded) this.#finish(run, outcome);
  }

  /** Writes that the handler starts. False if it must not start: the lease is lost, or the job was cancelled. */
  async #writeStart(run: Run): Promise<boolean> {
    const { lease } = run;
    const { id, fence } = lease.job;
    let result: LeaseResult;
    try {
      const start = { id, fence, startedAt: lease.startedAt ?? 0 };
      result = await retryUntilExpired(this.#engine, lease, () => this.#engine.store.start([start]));
    } catch (error) {
      // The handler has not started: an outage must not cost the job an attempt.
      this.#emitOutage("start", error);
      lease.startedAt = null;
      if (!run.hasEnded) this.#finish(run, released(lease, this.#engine.clock.now(), DEFAULTS.pollMs));
      return false;
    }
    if (run.hasEnded) return false;
    run.startWritten = true;
    if (result === "lost") {
      this.#abortLost(run);
      this.#finish(run, null);
      return false;
    }
    if (result === "cancel") {
      this.#finish(run, cancelled(lease, this.#engine.clock.now()));
      return false;
    }
    publishStart(this.#engine, lease);
    this.#noteSoon();
    return true;
  }

  /** Writes the start a little later: a job that ends before that never needs the write. */
  #writeStartSoon(run: Run): void {
    if (run.startWritten) return;
    this.#unwrittenStarts.add(run);
    this.#startTimer ??= this.#engine.clock.after(START_DELAY_MS, () => void this.#writeStarts(), { background: true });
  }

  async #writeStarts(): Promise<void> {
    this.#startTimer = null;
    const runs = [...this.#unwrittenStarts].filter((run) => !run.hasEnded);
    this.#unwrittenStarts.clear();
    if (runs.length === 0) return;
    for (const run of runs) run.startWritten = true;
    this.#noteSoon();
    try {
      const starts = runs.map(({ lease }) => ({
        id: lease.job.id,
        fence: lease.job.fence,
        startedAt: lease.startedAt ?? 0,
      }));
      const results = await this.#engine.store.start(starts);
      for (const [index, run] of runs.entries()) {
        if (results[index] === "lost") this.#abortLost(run);
        else if (results[index] === "busy") {
          run.startWritten = false;
          if (!run.hasEnded) this.#writeStartSoon(run);
        } else publishStart(this.#engine, run.lease);
        if (results[index] === "cancel") this.#abort(run, new JobCancelledError(run.lease.job.id));
      }
    } catch (error) {
      this.#emitOutage("start", error);
      // Without a written start, no attempt is counted if this worker crashes.
      for (const run of runs) {
        run.startWritten = false;
        if (!run.hasEnded) this.#writeStartSoon(run);
      }
    }
  }

  #noteSoon(): void {
    this.#noteTimer ??= this.#engine.clock.after(NOTE_INTERVAL_MS, () => void this.#writeNotes(), { background: true });
  }

  async #writeNotes(): Promise<void> {
    this.#noteTimer = null;
    if (this.#runs.size === 0) return;
    this.#noteSoon();
    const taken = [...this.#runs].map((run) => ({ run, note: run.takeNote() }));
    const notes = taken.map(({ note }) => note).filter((note) => note !== null);
    if (notes.length === 0) return;
    try {
      await this.#engine.store.note(notes);
    } catch (error) {
      this.#emitOutage("note", error);
      for (const { run, note } of taken) if (note !== null) run.requeueNote(note);
    }
  }

  /** An error of a handler that was aborted is usually the abort itself: then the reason of the abort decides. */
  #outcomeAfterThrow(run: Run, error: unknown, byHandler: boolean): Outcome | null | Promise<Outcome> {
    const { reason } = run;
    if (
      reason instanceof JobCancelledError ||
      reason instanceof LeaseLostError ||
      reason instanceof WorkerStoppingError
    )
      return this.#outcomeAfterAbort(run);
    return reason instanceof JobTimeoutError ? this.#failed(run, reason, false) : this.#failed(run, error, byHandler);
  }

  #outcomeAfterAbort(run: Run): Outcome | null | Promise<Outcome> {
    if (run.reason instanceof LeaseLostError) return null;
    if (run.reason instanceof JobCancelledError) return cancelled(run.lease, this.#engine.clock.now());
    if (run.reason instanceof WorkerStoppingError) return released(run.lease, this.#engine.clock.now());
    return this.#failed(run, run.reason, false);
  }

  #failed(run: Run, error: unknown, byHandler: boolean): Outcome | Promise<Outcome> {
    if (run.hasSteps) return this.#failedWithSteps(run, error, byHandler);
    return this.#failure(run, error, byHandler);
  }

  /** The next attempt runs the failed steps again that this failure comes from. */
  #failedWithSteps(run: Run, error: unknown, byHandler: boolean): Outcome | Promise<Outcome> {
    const reopen = run.steps.failedSteps(error);
    const outcome = this.#failure(run, error, byHandler);
    if (reopen.length === 0) return outcome;
    return outcome instanceof Promise ? outcome.then((later) => ({ ...later, reopen })) : { ...outcome, reopen };
  }

  #failure(run: Run, error: unknown, byHandler: boolean): Outcome | Promise<Outcome> {
    run.lease.thrown = { error };
    const policy = retrySettings(this.#engine, run.lease);
    if (byHandler) return failed(run.lease, error, policy);
    const storeStack = !isOneOf(error, [HoldfastError]);
    return failed(run.lease, error, { ...policy, retry: !isOneOf(error, PAYLOAD_ERRORS), storeStack });
  }

  /** The job waits without a lease. Its handler is left to its end. */
  #parked(run: Run, outcome: Outcome, result: SettlerResult): void {
    this.#release(run);
    publishOutcome(this.#engine, run.lease, outcome, result);
    if (result === "cancelled") this.#cancelChildren(run);
    this.#notifyChange();
    this.#claimer.startAndClaim();
  }

  #cancelChildren({ lease }: Run): void {
    void cancelChildren(this.#engine, [lease.job.id]).catch((error: unknown) => this.#emitOutage("cancel", error));
  }

  #abortLost(run: Run): void {
    this.#abort(run, new LeaseLostError(run.lease.job.id));
  }

  #abort(run: Run, reason: AbortReason): void {
    run.abort(reason);
    this.#keeper.watch(run);
  }

  /** The handler ignored its abort signal for too long: its capacity is freed, and whatever it still returns is ignored. */
  #abandon(run: Run): void {
    const outcome = this.#outcomeAfterAbort(run);
    publishStuck(this.#engine, run.lease, run.reason, outcome instanceof Promise ? null : outcome);
    this.#finish(run, outcome);
  }

  /** Frees the capacity and settles the outcome; null if the lease is lost and nothing can be settled. */
  #finish(run: Run, outcome: Outcome | null | Promise<Outcome>): void {
    this.#release(run);
    if (run.hasSteps && outcome !== null && "to" in outcome && outcome.to === "cancelled") this.#cancelChildren(run);
    if (outcome === null) publishLost(this.#engine, run.lease);
    else if (outcome instanceof Promise) void this.#settleLater(run.lease, outcome);
    // Already settled by the handler's own transaction.
    else if (outcome === run.completion) publishOutcome(this.#engine, run.lease, outcome, "applied");
    else this.#settle(run.lease, outcome);
    this.#notifyChange();
    this.#claimer.startAndClaim();
  }

  /** Frees the capacity that a run takes. */
  #release(run: Run): void {
    run.hasEnded = true;
    this.#runs.delete(run);
    this.#unwrittenStarts.delete(run);
    const ranMs = this.#engine.clock.monotonic() - run.startedMonotonic;
    this.#claimer.recordDuration(ranMs);
    if (run.lease.trace !== null) run.lease.trace.ranMs = ranMs;
  }

  /** Waits for the backoff function first. A worker that stops waits for it. */
  async #settleLater(lease: HeldLease, outcome: Promise<Outcome>): Promise<void> {
    this.#undecided++;
    this.#settle(lease, await outcome);
    this.#undecided--;
    this.#notifyChange();
  }

  #settle(lease: HeldLease, outcome: Outcome): void {
    settleInBackground(this.#engine, lease, outcome, this.#onRefused);
  }

  /** The store refuses this outcome. The job is settled as dead: otherwise it would run again and again. */
  readonly #onRefused = (lease: HeldLease, outcome: Outcome, error: Error): void => {
    this.#emitOutage("settle", error);
    if (outcome.to === "dead") {
      lease.trace?.end("lost", error);
      return;
    }
    lease.thrown = { error };
    // Without a retry there is no backoff to wait for.
    const dead = failed(lease, error, { ...retrySettings(this.#engine, lease), retry: false }) as Outcome;
    settleInBackground(this.#engine, lease, dead, (_lease, _dead, second) => lease.trace?.end("lost", second));
  };

  #emitOutage(doing: string, error: unknown): void {
    this.#engine.events.emit("outage", { doing, error });
  }
}

/** The stored input or the handler's output is invalid, so a retry cannot help. */
const PAYLOAD_ERRORS = [InvalidInputError, InvalidOutputError, PayloadTooLargeError, SyntaxError];

function isOneOf(error: unknown, kinds: readonly (new (...args: never[]) => Error)[]): boolean {
  try {
    return kinds.some((kind) => error instanceof kind);
  } catch {
    // A schema can throw a proxy that throws even here.
    return false;
  }
}
