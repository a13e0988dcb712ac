import { DEFAULTS } from "../../defaults.js";
import { durationMs, instantMs, type Duration } from "../../duration.js";
import { InvalidOptionError, JobCancelledError, type AbortReason } from "../../errors.js";
import type { JobSignal, JobType } from "../../job/job.js";
import { DuplicateStepError, ParkedError, StepResultError, StepTooLateError } from "../../job/step-errors.js";
import {
  readStepName,
  refuseUnknownStepOptions,
  type SpawnAllOptions,
  type StepContext,
  type StepName,
  type StepOptions,
} from "../../job/step-types.js";
import { eventTopic } from "../../job/stored-step.js";
import type { Outcome, StepWrite, StoredStep } from "../../store.js";
import type { EngineContext, HeldLease } from "../context.js";
import { parked } from "../worker/decide-outcome.js";
import type { SettlerResult } from "../worker/settler.js";
import { spawnAll, spawnOne } from "./children.js";
import { readEventName } from "./event-name.js";
import { OpenWaits } from "./open-waits.js";
import { retryDuringOutage } from "./outage-retry.js";
import { runStep } from "./run-step.js";
import { failedStepsIn } from "./failed-steps.js";
import { StoredSteps } from "./stored-steps.js";
import { decodeStepValue } from "./step-values.js";

/** The run of a handler, as its steps see it. */
export interface StepRun {
  readonly lease: HeldLease;
  readonly type: JobType;
  readonly signal: JobSignal;
  readonly reason: AbortReason | null;
  readonly hasEnded: boolean;
  /** The lease is lost. */
  lost(): void;
  cancelRequested(): void;
  /** Stores the log lines and progress of the handler. */
  storeNotes(): Promise<void>;
  /** The store has settled the outcome of a park: the run has ended, whatever the handler does. */
  parked(outcome: Outcome, result: SettlerResult): void;
}

// How often a run that cannot be parked, because a step runs, looks whether its waits have ended.
const WATCH_MS = 2_000;

/**
 * The steps of one run of a handler. A run whose branches all wait is parked: its outcome is settled, its waits throw
 * {@link ParkedError}, and the handler runs again when a wait ends.
 */
export class Steps {
  readonly engine: EngineContext;
  readonly run: StepRun;
  readonly stored: StoredSteps = new StoredSteps();
  readonly #waits: OpenWaits;
  readonly #names = new Set<string>();
  /** Which step threw each failure. */
  readonly #failures = new Map<unknown, string>();
  #loaded: Promise<void> | null = null;
  /** Functions of steps that run, and writes about steps. The job is not parked meanwhile. */
  #active = 0;
  /** This run has stored the end of a step: attempts start again at 0 when it parks. */
  #hasProgressed = false;
  #isParkScheduled = false;
  #isWatching = false;
  #parking: Promise<void> | null = null;
  #isParked = false;
  #handlerEnded = false;

  constructor(engine: EngineContext, run: StepRun) {
    this.engine = engine;
    this.run = run;
    this.#waits = new OpenWaits(engine.clock);
  }

  get id(): string {
    return this.run.lease.job.id;
  }

  /** The store's time, as this process reckons it since the claim. */
  get storeNow(): number {
    const { claimedAt, claimedMonotonic } = this.run.lease;
    return claimedAt + Math.max(0, this.engine.clock.monotonic() - claimedMonotonic);
  }

  step(name: StepName, run: (step: StepContext) => unknown, options: StepOptions = {}): Promise<unknown> {
    return this.#begin(name, async (step) => {
      if (typeof run !== "function") throw new InvalidOptionError("step", "needs a function as its second argument");
      refuseUnknownStepOptions(options);
      return runStep(this, step, run, options);
    });
  }

  sleep(name: StepName, time: Duration | Date): Promise<void> {
    return this.#begin(name, async (step) => {
      const forMs = time instanceof Date ? instantMs(time, "time") - this.engine.clock.now() : durationMs(time, "time");
      const stored = this.stored.get(step, "sleep");
      if (stored === null && forMs <= 0) return;
      const { until } = stored ?? (await this.save(step, { kind: "sleep", to: "waiting", forMs }));
      await this.wait(until, () => false);
      this.#hasProgressed = true;
    });
  }

  waitFor(name: StepName, on: { event: string; timeout?: Duration }): Promise<unknown> {
    return this.#begin(name, async (step) => {
      const topic = eventTopic(readEventName(on?.event));
      const forMs = on.timeout === undefined ? null : durationMs(on.timeout, "timeout");
      const isOver = (): boolean => this.stored.get(step, "event")?.state !== "waiting";
      let stored = this.stored.get(step, "event");
      stored ??= await this.save(step, { kind: "event", to: "waiting", topic, forMs });
      if (stored.state === "waiting") await this.wait(stored.until, isOver);
      stored = this.stored.get(step, "event") ?? stored;
      // Its time is over. If the event came before this is stored, the store returns its payload.
      if (stored.state === "waiting") stored = await this.save(step, { kind: "event", to: "done" });
      this.#hasProgressed = true;
      return decodeStepValue(stored.value) ?? null;
    });
  }

  spawn(name: StepName, type: JobType, input: unknown, options: SpawnAllOptions = {}): Promise<unknown> {
    return this.#begin(name, (step) => spawnOne(this, step, { type, input, options }));
  }

  spawnAll(name: StepName, type: JobType, inputs: readonly unknown[], options: SpawnAllOptions = {}): Promise<unknown> {
    return this.#begin(name, (step) => spawnAll(this, step, { type, inputs, options }));
  }

  /** The names of the failed steps that an error of the handler comes from: the next attempt runs them again. */
  failedSteps(error: unknown): readonly string[] {
    return failedStepsIn(error, this.#failures);
  }

  /** The error of a failed step, remembered in case it ends the attempt. */
  failure<Failure extends Error>(step: string, error: Failure): Failure {
    this.#failures.set(error, step);
    return error;
  }

  /** The handler has ended. Resolves when a park that began before is decided. */
  async handlerEnded(): Promise<void> {
    this.#handlerEnded = true;
    await this.#parking;
  }

  /** The run was aborted. */
  aborted(reason: AbortReason): void {
    this.#waits.fail(reason);
  }

  /** Counts `work` as active. */
  async active<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#active++;
    try {
      return await work();
    } finally {
      this.#active--;
      this.#parkSoon();
    }
  }

  /** Stores a step, and returns it as it is stored then. */
  save(step: string, write: Partial<StepWrite> & Pick<StepWrite, "kind" | "to">): Promise<StoredStep> {
    return this.active(async () => {
      const { id, fence } = this.run.lease.job;
      const place = this.stored.place(step);
      const result = await this.engine.stepWriter.save(
        { ...NO_STEP, id, fence, name: step, order: place, ...write },
        this.run.lease,
      );
      if (result.status === "refused") throw refusal(step, write.kind, result.error);
      if (result.status === "lost") this.run.lost();
      if (result.status === "cancel") this.run.cancelRequested();
      this.assertUsable(step);
      const { step: stored } = result as { step: StoredStep };
      this.stored.set(stored);
      if (stored.state !== "waiting") this.#hasProgressed = true;
      return stored;
    });
  }

  /** Waits until a time (null: without limit), or until what is stored shows that the wait has ended. */
  async wait(until: number | null, hasEnded: () => boolean): Promise<void> {
    const now = this.storeNow;
    if (hasEnded() || (until !== null && until <= now)) return;
    const ended = this.#waits.add(until, now, hasEnded);
    this.#parkSoon();
    await ended;
    this.#parkSoon();
  }

  /** Throws if no step may run any more. */
  assertUsable(step: string): void {
    if (this.#isParked) throw new ParkedError(this.id);
    // A process that was suspended goes on before its timers fire. Another run may have stored the step meanwhile.
    if (!this.run.hasEnded && this.engine.clock.monotonic() >= this.run.lease.deadline) this.run.lost();
    if (this.run.reason !== null) throw this.run.reason;
    if (this.#handlerEnded || this.run.hasEnded) throw new StepTooLateError(step, this.id);
  }

  #begin<Result>(name: StepName, work: (step: string) => Promise<Result>): Promise<Result> {
    const result = this.#run(name, work);
    // A handler that does not wait for a step must not end the process when the step fails.
    result.catch(() => {});
    return result;
  }

  async #run<Result>(name: StepName, work: (step: string) => Promise<Result>): Promise<Result> {
    const step = readStepName(name);
    this.assertUsable(step);
    if (this.#names.has(step)) throw new DuplicateStepError(step);
    this.#names.add(step);
    await (this.#loaded ??= this.#load());
    // Something else than a step kept this branch from its wait. The park decides whether it goes on.
    if (this.#parking !== null) await this.#parking;
    this.assertUsable(step);
    return work(step);
  }

  /** A job has no steps at its first claim. */
  async #load(): Promise<void> {
    if (this.run.lease.job.fence === 1) return;
    await this.active(() => this.#read());
    this.run.lease.resumed = !this.stored.isEmpty;
  }

  #read(): Promise<void> {
    const { store } = this.engine;
    return retryDuringOutage(this.engine, "read steps", this.run.lease, () => this.stored.read(store, this.id));
  }

  /** Later, because other branches of the handler may begin a step in this iteration of the event loop. */
  #parkSoon(): void {
    if (this.#isParkScheduled || this.#waits.size === 0) return;
    this.#isParkScheduled = true;
    setImmediate(() => {
      this.#isParkScheduled = false;
      this.#parkIfWaiting();
    });
  }

  #parkIfWaiting(): void {
    const { run } = this;
    if (this.#waits.size === 0 || this.#parking !== null || this.#handlerEnded || run.hasEnded || run.reason !== null)
      return;
    if (this.#active > 0) {
      this.#watch();
      return;
    }
    const next = this.#waits.next();
    if (next !== null && next.inMs <= DEFAULTS.parkMs) return;
    this.#parking = this.#park(next?.until ?? null)
      .catch((error: unknown) => this.#waits.fail(error))
      .finally(() => {
        this.#parking = null;
      });
  }

  async #park(until: number | null): Promise<void> {
    const { lease } = this.run;
    await this.run.storeNotes();
    const outcome = parked(lease, {
      until,
      wakes: this.stored.wakes,
      storeNow: this.storeNow,
      hasProgressed: this.#hasProgressed,
    });
    const result = await this.engine.settler.settle(outcome, lease.deadline);
    if (result === "awake") {
      await this.#read();
      this.#waits.check();
      this.#parkSoon();
    } else if (result === "lost" || result === "dropped") {
      this.run.lost();
    } else {
      this.#isParked = true;
      this.run.parked(outcome, result);
      this.#waits.fail(result === "cancelled" ? new JobCancelledError(this.id) : new ParkedError(this.id));
    }
  }

  /** While a step runs, other branches go on when their waits end. */
  #watch(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    const look = async (): Promise<void> => {
      this.#isWatching = false;
      if (this.#waits.size === 0 || this.#handlerEnded || this.run.hasEnded || this.#parking !== null) return;
      // An error shows in the next write.
      if (this.#active > 0) await this.#read().catch(() => {});
      this.#waits.check();
      this.#parkSoon();
    };
    this.engine.clock.after(WATCH_MS, () => void look(), { background: true });
  }
}

function refusal(step: string, kind: StepWrite["kind"], error: string): Error {
  return kind === "job"
    ? new InvalidOptionError(`the child job of step "${step}"`, `was refused by the store: ${error}`)
    : new StepResultError(step, `was refused by the store: ${error}`);
}

const NO_STEP = {
  member: 0,
  tries: 0,
  topic: null,
  value: null,
  failure: null,
  forMs: null,
  wake: "last",
  child: null,
} as const;
