import { DEFAULTS, LIMITS } from "../../defaults.js";
import { dateOf } from "../../duration.js";
import type { AbortReason } from "../../errors.js";
import { InvalidOptionError, LeaseLostError } from "../../errors.js";
import { encodeProgress, type HandlerClient, type JobType, type RunContext, type RunningJob } from "../../job/job.js";
import { storableString } from "../../storable-string.js";
import type { Note, Outcome } from "../../store.js";
import { completeInTransaction } from "./completion.js";
import { inTransaction } from "../enqueue/in-transaction.js";
import { parseStored, readSlot } from "../client/job-view.js";
import { leaseEvent, queueWaitMs, type EngineContext, type HeldLease } from "../context.js";
import { redactedInput } from "../events/reports.js";
import { handlerClient } from "./handler-client.js";
import type { ContextSource } from "./run-context.js";
import type { HandlerTrace, Traces } from "../events/telemetry.js";
import { Steps, type StepRun } from "../steps/steps.js";
import type { SettlerResult } from "./settler.js";

/** What a run asks of its worker. */
export interface RunActions {
  lost(run: Run): void;
  cancelRequested(run: Run): void;
  /** The store has settled its park. */
  parked(run: Run, outcome: Outcome, result: SettlerResult): void;
}

/** One running handler. */
export class Run implements ContextSource, StepRun {
  readonly lease: HeldLease;
  readonly type: JobType;
  /** How long the handler may run; 0: no limit. */
  readonly timeoutMs: number;
  /** Monotonic time at which the handler times out. */
  readonly timeoutAt: number;
  readonly startedMonotonic: number;
  input: unknown = undefined;
  /** The start of the handler is written to the store, or about to be. */
  startWritten = false;
  /** The handler has ended or was abandoned: whatever it still does is ignored. */
  hasEnded = false;
  /** The outcome that `completeIn` wrote inside the handler's own transaction. */
  completion: Outcome | null = null;
  /** The handler failed, and the backoff function has not returned yet. Whatever happens now, this is the outcome. */
  failing: Promise<Outcome> | null = null;
  reason: AbortReason | null = null;
  abortedAt = 0;

  readonly #engine: EngineContext;
  readonly #actions: RunActions;
  #steps: Steps | null = null;
  #controller: AbortController | undefined;
  #client: HandlerClient | undefined;
  #job: { -readonly [Key in keyof RunningJob]: RunningJob[Key] } | undefined;
  #progress: Note["progress"] = null;
  #lines: { at: number; line: string }[] = [];
  /** The note that `completeIn` wrote inside the handler's own transaction. */
  #noteInTransaction: Note | null = null;

  constructor(engine: EngineContext, lease: HeldLease, type: JobType, actions: RunActions) {
    this.#engine = engine;
    this.#actions = actions;
    this.lease = lease;
    this.type = type;
    this.startedMonotonic = engine.clock.monotonic();
    this.timeoutMs = lease.job.settings?.timeoutMs ?? type.timeoutMs ?? 0;
    this.timeoutAt = this.timeoutMs === 0 ? Number.POSITIVE_INFINITY : this.startedMonotonic + this.timeoutMs;
    lease.startedAt = engine.clock.now();
    lease.startDelayMs = Math.max(0, this.startedMonotonic - lease.claimedMonotonic);
    if (engine.traces !== null) lease.trace = this.#traced(engine.traces);
  }

  #traced(traces: Traces): HandlerTrace | null {
    const { worker } = this.lease;
    const { id, type, queue, priority, user, attempt, maxAttempts, fence, tags, schedule, parent, ...held } =
      this.lease.job;
    // A copy without the input, which is not redacted.
    const job = { id, type, queue, priority, user, attempt, maxAttempts, fence, tags, schedule, parent };
    const input = (): unknown => redactedInput(this.#engine.redact, held.input);
    return traces.run({ job, worker, waitMs: queueWaitMs(this.lease), input }, held.trace);
  }

  get id(): string {
    return this.lease.job.id;
  }

  get job(): RunningJob {
    if (this.#job === undefined) {
      const held = this.lease.job;
      const { id, type, queue, priority, user, attempt, maxAttempts, tags, schedule, parent, runAt, createdAt } = held;
      this.#job = {
        id,
        type,
        queue,
        priority,
        user,
        attempt,
        maxAttempts,
        fence: held.fence,
        tags,
        schedule: readSlot(schedule),
        parent,
        runAt: dateOf(runAt),
        createdAt: dateOf(createdAt),
      };
    }
    return this.#job;
  }

  /** This process claimed the job again while it was running: it continues under the new lease. */
  continueUnder({ job, deadline }: HeldLease): void {
    this.lease.job.fence = job.fence;
    this.lease.deadline = deadline;
    this.startWritten = false;
    // Not an assignment: the handler may have frozen the object.
    if (this.#job !== undefined) Reflect.set(this.#job, "fence", job.fence);
  }

  /** Created on first use: a controller costs more than all other parts of a small job. */
  get signal(): RunContext<unknown>["signal"] {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.reason !== null) this.#controller.abort(this.reason);
    }
    return this.#controller.signal;
  }

  log(line: string): void {
    if (this.hasEnded) return;
    const kept = storableString(String(line), LIMITS.logLineLength);
    this.#lines.push({ at: this.#engine.clock.now(), line: kept });
    if (this.#lines.length > LIMITS.logLines) this.#lines.shift();
    const { events } = this.#engine;
    if (events.hasListeners("log")) events.emit("log", { ...leaseEvent(this.lease), line: kept });
  }

  /** Created on first use: few handlers enqueue. */
  get hf(): HandlerClient {
    return (this.#client ??= handlerClient(this.#engine, this.lease.job));
  }

  /** Created on first use: a handler without steps has none. */
  get steps(): Steps {
    return (this.#steps ??= new Steps(this.#engine, this));
  }
  get hasSteps(): boolean {
    return this.#steps !== null;
  }
  lost(): void {
    this.#actions.lost(this);
  }
  cancelRequested(): void {
    this.#actions.cancelRequested(this);
  }
  parked(outcome: Outcome, result: SettlerResult): void {
    this.#actions.parked(this, outcome, result);
  }
  async storeNotes(): Promise<void> {
    const note = this.takeNote();
    // Notes are no promise: the job's outcome does not wait for the end of an outage.
    if (note !== null) await this.#engine.store.note([note]).catch(() => this.requeueNote(note));
  }

  progress(fraction: number, note?: string | object): void {
    if (typeof fraction !== "number" || !(fraction >= 0 && fraction <= 1)) {
      const isPercent = Number.isInteger(fraction) && fraction > 1 && fraction <= 100;
      const advice = isPercent ? `; for ${fraction} % pass ${fraction / 100}` : "";
      throw new InvalidOptionError("progress", `${String(fraction)} is not a fraction from 0 to 1${advice}`);
    }
    if (this.hasEnded) return;
    const data = typeof note === "object" && note !== null ? encodeProgress(note) : null;
    const isText = note !== undefined && typeof note !== "object";
    const text = isText ? storableString(String(note), LIMITS.logLineLength) : null;
    this.#progress = { fraction, note: text, data };
    const { events } = this.#engine;
    if (!events.hasListeners("progress")) return;
    events.emit("progress", {
      ...leaseEvent(this.lease),
      fraction,
      note: text,
      data: parseStored(data) as object | null,
    });
  }

  /**
   * Not async: with a synchronous driver the job must be settled, or the error thrown, before this returns. Only then does an
   * error roll back the handler's transaction.
   */
  completeIn(tx: unknown, output?: unknown): Promise<void> {
    return inTransaction(this.#engine.store, () => this.#completeIn(tx, output));
  }

  #completeIn(tx: unknown, output: unknown): Promise<void> {
    const { id } = this.lease.job;
    if (this.hasEnded) throw new LeaseLostError(id);
    const note = this.takeNote();
    const settled = (outcome: Outcome): void => {
      this.completion = outcome;
      this.#noteInTransaction = note;
    };
    const failed = (error: unknown): never => {
      if (note !== null) this.requeueNote(note);
      throw error;
    };
    try {
      const outcome = completeInTransaction(this.#engine, this.lease, tx, output, note);
      if (outcome instanceof Promise) return outcome.then(settled, failed);
      settled(outcome);
      return Promise.resolve();
    } catch (error) {
      return failed(error);
    }
  }

  abort(reason: AbortReason): void {
    if (this.reason !== null || this.hasEnded || this.failing !== null) return;
    this.reason = reason;
    this.abortedAt = this.#engine.clock.monotonic();
    this.#controller?.abort(reason);
    this.#steps?.aborted(reason);
  }

  /** Monotonic time of the next deadline: timeout or end of the lease; once aborted, when the worker abandons it. */
  get nextDeadline(): number {
    // The wait for a backoff function has its own limit.
    if (this.failing !== null) return Number.POSITIVE_INFINITY;
    return this.reason === null ? Math.min(this.timeoutAt, this.lease.deadline) : this.abortedAt + DEFAULTS.abandonMs;
  }

  /** The handler's own transaction did not commit: its note has to be written again. */
  requeueTransactionNote(): void {
    if (this.#noteInTransaction !== null) this.requeueNote(this.#noteInTransaction);
    this.#noteInTransaction = null;
  }

  /** A note could not be written: its content goes into the next one. */
  requeueNote(note: Note): void {
    this.#progress ??= note.progress;
    this.#lines = [...note.log, ...this.#lines].slice(-LIMITS.logLines);
  }

  /** Progress and log lines since the last note. */
  takeNote(): Note | null {
    if (this.#progress === null && this.#lines.length === 0) return null;
    const { id, fence } = this.lease.job;
    const note: Note = { id, fence, progress: this.#progress, log: this.#lines };
    this.#progress = null;
    this.#lines = [];
    return note;
  }
}
