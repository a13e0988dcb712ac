import { durationMs } from "../../duration.js";
import { InvalidOptionError, isCancel, isNotRetryable, retryAfterOf } from "../../errors.js";
import type { JobSignal } from "../../job/job.js";
import { describeError } from "../../job/error-record.js";
import { readRetry, type Backoff } from "../../job/retry.js";
import { ParkedError, StepFailedError, StepNotCommittedError, StepTimeoutError } from "../../job/step-errors.js";
import type { StepContext, StepOptions } from "../../job/step-types.js";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import type { StepFailure, StoredStep } from "../../store.js";
import { inTransaction } from "../enqueue/in-transaction.js";
import { decodeStepValue, encodeStepValue } from "./step-values.js";
import type { Steps } from "./steps.js";

interface StepSettings {
  maxAttempts: number;
  backoff: Backoff;
  /** 0: none. */
  timeoutMs: number;
}

/** Runs the function of a step until it succeeds or has no attempts left, and stores how it ended. */
export async function runStep(
  steps: Steps,
  name: string,
  run: (step: StepContext) => unknown,
  options: StepOptions,
): Promise<unknown> {
  const settings = readSettings(options);
  const stored = steps.stored.get(name, "run");
  if (stored !== null && stored.state !== "waiting") return resultOf(steps, name, stored);
  if (stored !== null) await steps.wait(stored.until, () => false);
  // Reserved before the function runs: it must not have its effect if its result has no place.
  steps.stored.place(name);
  for (let tries = stored?.tries ?? 0; ;) {
    steps.assertUsable(name);
    const call = new StepCall(steps, name, tries + 1, settings.timeoutMs);
    const end = await steps.active(() => call.run(run));
    if (end.state === "kept") return resultOf(steps, name, end.step);
    if (end.state === "done") {
      const value = encodeStepValue(name, end.value);
      return resultOf(steps, name, await steps.save(name, { kind: "run", to: "done", tries, value }));
    }
    const { error } = end;
    steps.assertUsable(name);
    tries++;
    const retryAfter = retryAfterOf(error);
    const mayRetry = tries < settings.maxAttempts && !isNotRetryable(error) && !isCancel(error);
    // These say what happens to the whole job, so they are no result of the step.
    if (isNotRetryable(error) || isCancel(error) || (retryAfter !== undefined && !mayRetry)) throw error;
    if (!mayRetry) throw await failedStep(steps, name, error, tries);
    const delayMs =
      retryAfter === undefined
        ? await settings.backoff(tries, error, steps.engine.random)
        : durationMs(retryAfter as string, "RetryAfter");
    await pauseStep(steps, name, tries, delayMs);
  }
}

function readSettings({ retry, timeout }: StepOptions): StepSettings {
  const { maxAttempts, backoff } = readRetry(retry);
  return {
    maxAttempts: retry === undefined ? 1 : maxAttempts,
    backoff,
    timeoutMs: timeout === undefined ? 0 : durationMs(timeout, "timeout"),
  };
}

function resultOf(steps: Steps, name: string, stored: StoredStep): unknown {
  if (stored.state === "done") return decodeStepValue(stored.value);
  throw steps.failure(name, new StepFailedError(name, stored.failure ?? { message: "unknown", code: null }));
}

/** Stores the failure. Another run may have stored another end before. */
async function failedStep(steps: Steps, name: string, error: unknown, tries: number): Promise<Error> {
  const { message, code } = describeError(error, { message: LIMITS.errorLength, stack: 0, causes: 0, dataBytes: 0 });
  const failure: StepFailure = { message, code };
  const stored = await steps.save(name, { kind: "run", to: "failed", tries, failure });
  return steps.failure(name, new StepFailedError(name, stored.failure ?? failure, { cause: error }));
}

/** A long pause parks the job: only then is it stored. */
async function pauseStep(steps: Steps, name: string, tries: number, forMs: number): Promise<void> {
  if (forMs <= DEFAULTS.parkMs) {
    await steps.wait(steps.storeNow + forMs, () => false);
    return;
  }
  const { until } = await steps.save(name, { kind: "run", to: "waiting", tries, forMs });
  await steps.wait(until, () => false);
}

type CallEnd =
  | { state: "done"; value: unknown }
  | { state: "failed"; error: unknown }
  /** Its own transaction has stored the result. */
  | { state: "kept"; step: StoredStep };

/** One call of a step's function. */
class StepCall {
  readonly #steps: Steps;
  readonly #name: string;
  readonly #attempt: number;
  readonly #timeoutMs: number;
  #hasEnded = false;
  /** It called `keepIn`. */
  #wasKept = false;

  constructor(steps: Steps, name: string, attempt: number, timeoutMs: number) {
    this.#steps = steps;
    this.#name = name;
    this.#attempt = attempt;
    this.#timeoutMs = timeoutMs;
  }

  async run(run: (step: StepContext) => unknown): Promise<CallEnd> {
    const end = await this.#call(run).then(
      (value): CallEnd => ({ state: "done", value }),
      (error: unknown): CallEnd => ({ state: "failed", error }),
    );
    this.#hasEnded = true;
    if (end.state === "failed" && end.error instanceof ParkedError) throw end.error;
    if (!this.#wasKept) return end;
    // Whatever the function did afterwards: if its transaction has committed, the result is stored.
    await this.#steps.stored.read(this.#steps.engine.store, this.#steps.id);
    const step = this.#steps.stored.get(this.#name, "run");
    if (step !== null && step.state !== "waiting") return { state: "kept", step };
    return end.state === "failed" ? end : { state: "failed", error: new StepNotCommittedError(this.#name) };
  }

  #call(run: (step: StepContext) => unknown): Promise<unknown> {
    if (this.#timeoutMs === 0) return this.#invoke(run, this.#steps.run.signal);
    const controller = new AbortController();
    const { signal } = this.#steps.run;
    const abort = (): void => controller.abort(signal.reason);
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    return new Promise<unknown>((resolve, reject) => {
      const timer = this.#steps.engine.clock.after(this.#timeoutMs, () => {
        const error = new StepTimeoutError(this.#name, this.#timeoutMs);
        controller.abort(error);
        reject(error);
      });
      this.#invoke(run, controller.signal)
        .then(resolve, reject)
        .finally(() => {
          timer.cancel();
          signal.removeEventListener("abort", abort);
        });
    });
  }

  async #invoke(run: (step: StepContext) => unknown, signal: JobSignal): Promise<unknown> {
    return run({
      idempotencyKey: `${this.#steps.id}/${this.#name}`,
      signal,
      attempt: this.#attempt,
      keepIn: (tx, kept) => inTransaction(this.#steps.engine.store, () => this.#keepIn(tx, kept)),
    });
  }

  /** Not async: with a synchronous driver the result must be stored, or the error thrown, before this returns. */
  #keepIn(tx: unknown, value: unknown): Promise<void> {
    const { store } = this.#steps.engine;
    if (!store.capabilities.transactions)
      throw new InvalidOptionError("tx", "is not supported by this store; return the result from the step instead");
    this.#steps.assertUsable(this.#name);
    if (this.#hasEnded) throw new InvalidOptionError("keepIn", "must be called before the step's function ends");
    const { id, fence } = this.#steps.run.lease.job;
    const written = store.saveStepIn(tx, {
      id,
      fence,
      name: this.#name,
      member: 0,
      order: this.#steps.stored.place(this.#name),
      kind: "run",
      to: "done",
      tries: this.#attempt - 1,
      topic: null,
      value: encodeStepValue(this.#name, value),
      failure: null,
      forMs: null,
      wake: "last",
      child: null,
    });
    this.#wasKept = true;
    const check = ({ status }: { status: string }): void => {
      if (status === "lost") this.#steps.run.lost();
      this.#steps.assertUsable(this.#name);
    };
    if (written instanceof Promise) return written.then(check);
    check(written);
    return Promise.resolve();
  }
}
