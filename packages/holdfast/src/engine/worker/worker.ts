import { hostname } from "node:os";
import { isThenable } from "../../callbacks.js";
import type { Timer } from "../../clock.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import { durationMs, type Duration } from "../../duration.js";
import {
  ClosedError,
  InvalidInputError,
  InvalidOptionError,
  InvalidOutputError,
  JobCancelledError,
  JobTimeoutError,
  LeaseLostError,
  NotCommittedError,
  PayloadTooLargeError,
  WorkerStoppingError,
  type AbortReason,
} from "../../errors.js";
import { newId } from "../../job/id.js";
import { decodeInput, encodeOutput, type JobType, type RunContext } from "../../job/job.js";
import { readCount, readName, readQueue, refuseUnknown } from "../../options.js";
import type { Hint, LeaseResult, Outcome, SettleResult } from "../../store.js";
import { Claimer } from "./claimer.js";
import { isCommitted } from "./completion.js";
import { failurePolicy, leaseEvent, type EngineContext, type HeldLease } from "../context.js";
import { LeaseKeeper } from "./lease-keeper.js";
import { announce, announceLost, announceStart, announceStuck } from "../events/publish.js";
import { cancelled, completed, failed, released, unknownType } from "./outcome.js";
import { Run } from "./run.js";
import { Context } from "./run-context.js";
import { unlocked } from "./retry-busy.js";

export interface WorkOptions {
  /** Handlers at once. Default 4. */
  concurrency?: number;
  /** Default: every queue. */
  queues?: readonly string[];
  /**
   * Only these types. Default: every type of the queues. Costs every job an index from the first use on; types that need
   * workers of their own are better off with a queue of their own.
   */
  types?: readonly (string | JobType)[];
  /** How long a claim holds a job before others may take it; extended while the handler runs. Default 30 s. */
  lease?: Duration;
  /** How often to look for work when nothing wakes the worker. Default 1 s. */
  poll?: Duration;
  /** How long `stop` waits for handlers before it aborts them. Default 30 s. */
  grace?: Duration;
  /** What to do with a type that has no handler here. `wait` (default) leaves it to other workers for a while. */
  unknownType?: "wait" | "dead";
  /** Stop gracefully on SIGTERM and SIGINT. Default false. */
  signals?: boolean;
}

const WORK_FIELDS: ReadonlySet<string> = new Set([
  "concurrency",
  "queues",
  "types",
  "lease",
  "poll",
  "grace",
  "unknownType",
  "signals",
]);
// How soon a handler's start is written if no end comes first, and how often its notes are.
const MARK_MS = 20;
const NOTE_MS = 200;
const MOST_UNKNOWN = 100;

export interface WorkerSettings {
  concurrency: number;
  queues: readonly string[] | null;
  types: readonly string[] | null;
  leaseMs: number;
  pollMs: number;
  graceMs: number;
  unknownTypeDies: boolean;
}

export function readWorkOptions(options: WorkOptions): WorkerSettings {
  refuseUnknown(options, WORK_FIELDS, "work");
  const leaseMs = durationMs(options.lease ?? DEFAULTS.leaseMs, "lease");
  if (leaseMs < 100) throw new InvalidOptionError("lease", "must be at least 100 ms");
  const pollMs = durationMs(options.poll ?? DEFAULTS.pollMs, "poll");
  if (pollMs < 1) throw new InvalidOptionError("poll", "must be longer than 0");
  if (options.unknownType !== undefined && !["wait", "dead"].includes(options.unknownType)) {
    throw new InvalidOptionError("unknownType", `${JSON.stringify(options.unknownType)} is none of "wait", "dead"`);
  }
  const names = (
    list: readonly string[] | undefined,
    field: string,
    read: (name: unknown, field: string) => string,
  ): readonly string[] | null => {
    if (list === undefined) return null;
    if (!Array.isArray(list) || list.length === 0)
      throw new InvalidOptionError(field, "must be a list that is not empty");
    return list.map((name, index) => read(name, `${field}.${index}`));
  };
  return {
    concurrency: readCount(options.concurrency ?? DEFAULTS.concurrency, "concurrency", 1, LIMITS.concurrency),
    queues: names(options.queues, "queues", readQueue),
    types: names(
      Array.isArray(options.types) ? options.types.map(typeName) : (options.types as undefined),
      "types",
      (name, field) => readName(name, field, LIMITS.typeLength),
    ),
    leaseMs,
    pollMs,
    graceMs: durationMs(options.grace ?? DEFAULTS.graceMs, "grace"),
    unknownTypeDies: options.unknownType === "dead",
  };
}

/**
 * Claims jobs, runs their handlers and brings the outcomes to the store. `hf.work()` makes and starts one.
 *
 * Inside, three parts share the work: {@link Claimer} decides when to claim and how much, {@link LeaseKeeper} extends
 * leases and watches deadlines, and this class runs handlers.
 */
export class Worker {
  readonly id: string;
  readonly #engine: EngineContext;
  readonly #settings: WorkerSettings;
  readonly #claimer: Claimer;
  readonly #keeper: LeaseKeeper;
  readonly #runs = new Set<Run>();
  #phase: "new" | "working" | "stopping" | "stopped" = "new";
  #stopped: Promise<void> | null = null;
  #unlisten: (() => void) | null = null;
  #markTimer: Timer | null = null;
  #noteTimer: Timer | null = null;
  readonly #unmarked = new Set<Run>();
  readonly #unknown = new Set<string>();
  #begun = 0;
  /** Jobs of unknown types on their way to being laid aside. */
  #aside = 0;
  #changed: (() => void)[] = [];

  constructor(engine: EngineContext, settings: WorkerSettings) {
    this.#engine = engine;
    this.#settings = settings;
    this.id = `${hostname()}:${process.pid}:${newId(engine.clock.now()).slice(-12)}`;
    this.#claimer = new Claimer(engine, this.id, settings, {
      running: () => this.#runs.size,
      begin: (lease) => this.#begin(lease),
      adopt: (lease) => this.#adopt(lease),
      extendAll: () => this.#keeper.extendNow(),
    });
    this.#keeper = new LeaseKeeper(engine, settings, {
      id: this.id,
      runs: () => this.#runs,
      ready: () => this.#claimer.ready(),
      dropReady: (lease) => this.#claimer.drop(lease),
      lost: (run) => this.#lost(run),
      cancel: (id) => this.#cancel(id),
      timedOut: (run) => this.#abort(run, new JobTimeoutError(run.type.timeoutMs)),
      writeOff: (run) => this.#writeOff(run),
    });
  }

  /** Handlers under way. */
  get running(): number {
    return this.#runs.size;
  }

  /** Begins to claim. Called by `hf.work()`; again on a running worker it does nothing. */
  start(): void {
    if (this.#phase === "working") return;
    if (this.#phase !== "new") throw new ClosedError("this worker has been stopped", "call hf.work() for a new one");
    this.#phase = "working";
    this.#unlisten = this.#engine.store.listen((hint) => this.#hear(hint));
    this.#keeper.start();
    this.#claimer.start();
    this.#engine.events.emit("workerStarted", { worker: this.id });
  }

  /** Stops claiming, waits for handlers up to the grace time, aborts and releases what is left. */
  stop(): Promise<void> {
    if (this.#phase === "new") this.#phase = "stopped";
    if (this.#phase === "stopped") return this.#stopped ?? Promise.resolve();
    this.#stopped ??= this.#shutDown();
    return this.#stopped;
  }

  /** @internal Claims once, at most `limit` jobs, and runs them to their end. For `runNext` and `drain`. */
  async once(limit: number): Promise<{ claimed: number; ran: number }> {
    if (this.#phase === "new") {
      this.#phase = "working";
      this.#keeper.watchLeases();
    }
    // The client is being closed: what is not claimed now stays for others.
    if (this.#phase !== "working") return { claimed: 0, ran: 0 };
    const before = this.#begun;
    const claimed = await this.#claimer.claimOnce(limit);
    while (this.#runs.size > 0 || this.#aside > 0 || this.#claimer.ready().length > 0) await this.#change();
    await this.#engine.settler.idle();
    return { claimed, ran: this.#begun - before };
  }

  async #shutDown(): Promise<void> {
    const { events, settler } = this.#engine;
    this.#phase = "stopping";
    await this.#claimer.stop();
    // Whoever waits for a batch of `once` waits no longer for what was given back.
    this.#notifyChange();
    this.#logWait();
    await this.#waitForRuns(this.#settings.graceMs);
    this.#logLate();
    for (const run of this.#runs) this.#abort(run, new WorkerStoppingError());
    await this.#waitForRuns(DEFAULTS.abortWaitMs);
    this.#logIgnored();
    for (const run of this.#runs) this.#finish(run, this.#afterAbort(run));
    while (this.#aside > 0) await this.#change();
    await settler.idle();
    this.#markTimer?.cancel();
    this.#noteTimer?.cancel();
    await this.#keeper.stop();
    this.#phase = "stopped";
    if (this.#unlisten === null) return;
    this.#unlisten();
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
    const jobs = [...this.#runs].map(({ lease }) => lease.job.id);
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
    while (this.#runs.size > 0 && !timedOut) await this.#change();
    timer.cancel();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve));
  }
  #notifyChange(): void {
    if (this.#changed.length > 0) for (const resolve of this.#changed.splice(0)) resolve();
  }

  #hear(hint: Hint): void {
    if (hint.kind === "work") this.#claimer.wake(hint.inMs);
    else if (hint.kind === "cancel") this.#keeper.confirm(hint.ids);
  }

  #cancel(id: string): void {
    for (const run of this.#runs) if (run.lease.job.id === id) this.#abort(run, new JobCancelledError(id));
    const ready = this.#claimer.ready().find((lease) => lease.job.id === id);
    if (ready !== undefined && this.#claimer.drop(ready)) this.#settle(ready, cancelled(ready));
  }

  /** Takes a lease out of the ready ones into a slot. */
  #begin(lease: HeldLease): void {
    const { clock, types, events } = this.#engine;
    if (clock.monotonic() >= lease.deadline) {
      events.emit("lost", leaseEvent(lease));
      this.#notifyChange();
      return;
    }
    const type = types.get(lease.job.type);
    if (type === undefined) {
      void this.#layAside(lease);
      return;
    }
    const run = new Run(this.#engine, lease, type);
    this.#begun++;
    this.#runs.add(run);
    this.#keeper.watch(run);
    void this.#run(run);
  }

  #adopt(lease: HeldLease): boolean {
    for (const run of this.#runs) {
      if (run.lease.job.id !== lease.job.id || run.reason instanceof LeaseLostError) continue;
      run.renewed(lease);
      this.#markSoon(run);
      this.#engine.logger.warn({ job: lease.job.id }, "the clock was set forward; the job's lease was renewed");
      return true;
    }
    return false;
  }

  /** Once for each type: a forgotten registration would otherwise be silence for ten minutes. */
  #warnOfUnknown(type: string): void {
    if (this.#unknown.has(type) || this.#unknown.size >= MOST_UNKNOWN) return;
    this.#unknown.add(type);
    const known = [...this.#engine.types.keys()].join(", ");
    this.#engine.logger.warn(
      { type, known: known === "" ? "none" : known },
      "no handler for this type here; its jobs wait for a worker that has one. Missing from holdfast({ jobs })?",
    );
  }

  async #layAside(lease: HeldLease): Promise<void> {
    const { clock } = this.#engine;
    const atOnce = this.#settings.unknownTypeDies;
    this.#warnOfUnknown(lease.job.type);
    this.#aside++;
    const listedElsewhere = !atOnce && (await this.#keeper.isListed(lease.job.type));
    this.#settle(lease, unknownType(lease, clock.now(), { atOnce, listedElsewhere }));
    this.#aside--;
    this.#notifyChange();
  }

  async #run(run: Run): Promise<void> {
    const { lease, type } = run;
    let outcome: Outcome | null;
    // An input or output that is wrong now will be wrong next time; what handler or schema throw may not be.
    let inHandler = false;
    try {
      // After any loss the start is written first: otherwise a job that kills its worker would look unbegun for ever.
      if (lease.job.losses > 0 && !(await this.#markNow(run))) return;
      const input = decodeInput(type, lease.job.input);
      run.input = isThenable(input) ? await input : input;
      this.#markSoon(run);
      inHandler = true;
      const context = new Context(run) as RunContext<unknown> as RunContext<never>;
      const output = lease.trace === null ? type.run(context) : lease.trace.inside(() => type.run(context));
      const value = isThenable(output) ? await output : output;
      inHandler = false;
      if (run.completion === null) outcome = completed(lease, encodeOutput(type.type, value));
      else outcome = this.#afterThrow(run, new NotCommittedError(lease.job.id), true);
    } catch (error) {
      outcome = this.#afterThrow(run, error, inHandler || !isPayloadError(error));
    }
    // Once the handler's own transaction has committed, nothing that came after it counts.
    if (run.completion !== null && !run.over) {
      if (await isCommitted(this.#engine, lease)) outcome = run.completion;
      else run.uncompleted();
    }
    if (run.over) return;
    const note = run.takeNote();
    if (note !== null) await this.#engine.store.note([note]).catch((error: unknown) => this.#report("note", error));
    // A shutdown may have released the job while the note was written.
    if (!run.over) this.#finish(run, outcome);
  }

  /** Writes the start mark and waits for it. False: the lease is gone, and so is the run. */
  async #markNow(run: Run): Promise<boolean> {
    const { lease } = run;
    const { id, fence } = lease.job;
    let answer: LeaseResult | undefined;
    try {
      const mark = { id, fence, startedAt: lease.startedAt ?? 0 };
      answer = await unlocked(this.#engine, lease, () => this.#engine.store.start([mark]));
    } catch (error) {
      // The handler has not begun: the store's trouble must not cost the job an attempt.
      this.#report("start", error);
      lease.startedAt = null;
      if (!run.over) this.#finish(run, released(lease, DEFAULTS.pollMs));
      return false;
    }
    if (run.over) return false;
    run.marked = true;
    if (answer === "lost") {
      this.#lost(run);
      this.#finish(run, null);
      return false;
    }
    if (answer === "cancel") {
      this.#finish(run, cancelled(lease));
      return false;
    }
    announceStart(this.#engine, lease);
    this.#noteSoon();
    return true;
  }

  /** A job that ends within a moment never pays for its start mark. */
  #markSoon(run: Run): void {
    if (run.marked) return;
    this.#unmarked.add(run);
    this.#markTimer ??= this.#engine.clock.after(MARK_MS, () => void this.#writeMarks(), { background: true });
  }

  async #writeMarks(): Promise<void> {
    this.#markTimer = null;
    const runs = [...this.#unmarked].filter((run) => !run.over);
    this.#unmarked.clear();
    if (runs.length === 0) return;
    for (const run of runs) run.marked = true;
    this.#noteSoon();
    try {
      const marks = runs.map(({ lease }) => ({
        id: lease.job.id,
        fence: lease.job.fence,
        startedAt: lease.startedAt ?? 0,
      }));
      const answers = await this.#engine.store.start(marks);
      for (const [index, run] of runs.entries()) {
        if (answers[index] === "lost") this.#lost(run);
        else if (answers[index] === "busy") {
          run.marked = false;
          if (!run.over) this.#markSoon(run);
        } else announceStart(this.#engine, run.lease);
        if (answers[index] === "cancel") this.#abort(run, new JobCancelledError(run.lease.job.id));
      }
    } catch (error) {
      this.#report("start", error);
      // Unmarked, a job whose worker dies would get its attempt back as if its handler had never begun.
      for (const run of runs) {
        run.marked = false;
        if (!run.over) this.#markSoon(run);
      }
    }
  }

  #noteSoon(): void {
    this.#noteTimer ??= this.#engine.clock.after(NOTE_MS, () => void this.#writeNotes(), { background: true });
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
      this.#report("note", error);
      for (const { run, note } of taken) if (note !== null) run.putBackNote(note);
    }
  }

  /** What a throw means depends on whether the handler was asked to stop. */
  #afterThrow(run: Run, error: unknown, retry: boolean): Outcome | null {
    const { reason } = run;
    if (
      reason instanceof JobCancelledError ||
      reason instanceof LeaseLostError ||
      reason instanceof WorkerStoppingError
    )
      return this.#afterAbort(run);
    return reason instanceof JobTimeoutError ? this.#failed(run, reason) : this.#failed(run, error, retry);
  }

  #afterAbort(run: Run): Outcome | null {
    if (run.reason instanceof LeaseLostError) return null;
    if (run.reason instanceof JobCancelledError) return cancelled(run.lease);
    if (run.reason instanceof WorkerStoppingError) return released(run.lease);
    return this.#failed(run, run.reason);
  }

  #failed(run: Run, error: unknown, retry = true): Outcome {
    run.lease.thrown = { error };
    return failed(run.lease, error, { ...failurePolicy(this.#engine, run.lease), retry });
  }

  #lost(run: Run): void {
    this.#abort(run, new LeaseLostError(run.lease.job.id));
  }

  #abort(run: Run, reason: AbortReason): void {
    run.abort(reason);
    this.#keeper.watch(run);
  }

  /** The handler ignored its signal for too long: its slot is freed, and its end will not matter. */
  #writeOff(run: Run): void {
    const outcome = this.#afterAbort(run);
    announceStuck(this.#engine, run.lease, run.reason, outcome);
    this.#finish(run, outcome);
  }

  /** Frees the slot and sends the outcome on its way; null where there is none to record. */
  #finish(run: Run, outcome: Outcome | null): void {
    run.over = true;
    this.#runs.delete(run);
    this.#unmarked.delete(run);
    const ranMs = this.#engine.clock.monotonic() - run.startedMonotonic;
    this.#claimer.ran(ranMs);
    if (run.lease.trace !== null) run.lease.trace.ranMs = ranMs;
    if (outcome === null) announceLost(this.#engine, run.lease);
    // Settled already, by the handler's own transaction.
    else if (outcome === run.completion) announce(this.#engine, run.lease, outcome, "applied");
    else this.#settle(run.lease, outcome);
    this.#notifyChange();
    this.#claimer.pump();
  }

  #settle(lease: HeldLease, outcome: Outcome): void {
    this.#engine.settler.add(outcome, lease.deadline, (answer) => this.#settled(lease, outcome, answer));
  }

  #settled(lease: HeldLease, outcome: Outcome, answer: SettleResult | Error): void {
    if (!(answer instanceof Error)) {
      announce(this.#engine, lease, outcome, answer);
      return;
    }
    // The store refuses this very outcome: keep the job from going round for ever on it.
    this.#report("settle", answer);
    if (outcome.to === "dead") {
      lease.trace?.end("lost", answer);
      return;
    }
    lease.thrown = { error: answer };
    const refused = failed(lease, answer, { ...failurePolicy(this.#engine, lease), retry: false });
    this.#engine.settler.add(refused, lease.deadline, (second) => {
      if (second instanceof Error) lease.trace?.end("lost", second);
      else announce(this.#engine, lease, refused, second);
    });
  }

  #report(doing: string, error: unknown): void {
    this.#engine.events.emit("outage", { doing, error });
  }
}

/** Says that the stored text or the handler's output is wrong, not that something failed meanwhile. */
function isPayloadError(error: unknown): boolean {
  try {
    return [InvalidInputError, InvalidOutputError, PayloadTooLargeError, SyntaxError].some(
      (kind) => error instanceof kind,
    );
  } catch {
    // A schema threw a proxy that throws even at this.
    return false;
  }
}

function typeName(type: string | JobType | null): string {
  return typeof type === "object" && type !== null ? type.type : (type as string);
}
