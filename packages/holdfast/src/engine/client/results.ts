import type { Timer } from "../../clock.js";
import { DEFAULTS } from "../../defaults.js";
import { durationMs, type Duration } from "../../duration.js";
import {
  ClosedError,
  InvalidOptionError,
  JobNotCompletedError,
  JobNotFoundError,
  StoreUnreadableError,
  WaitTimeoutError,
} from "../../errors.js";
import type { JobType } from "../../job/job.js";
import { fromJson } from "../../job/json.js";
import { isLive } from "../../live-worker.js";
import { isFinished } from "../../job/state.js";
import type { Scope, StoredJob } from "../../store.js";
import type { EngineContext } from "../context.js";

export interface ResultOptions {
  /** Throw `WaitTimeoutError` after this long. Default: wait forever. */
  timeout?: Duration;
  signal?: AbortSignal;
}

export interface ResultCall {
  id: string;
  type: string | null;
  options: ResultOptions;
}

/** `result(id, options)` or `result(type, id, options)`. */
export function readResultCall(
  first: string | JobType,
  second?: string | ResultOptions,
  third?: ResultOptions,
): ResultCall {
  if (typeof first === "object" && first !== null)
    return { id: second as string, type: first.type, options: third ?? {} };
  return { id: first, type: null, options: (second as ResultOptions | undefined) ?? {} };
}

interface Waiter {
  id: string;
  type: string | null;
  scope: Scope;
  resolve(output: unknown): void;
  reject(error: unknown): void;
  /** Monotonic time since which the job has been due, or of the last check for workers. */
  dueSince: number | null;
}

// After a job has been due for this long without being claimed, check whether a worker serves its queue.
const UNCLAIMED_MS = 5_000;
// With more waiters than this, a hint starts a poll only after a short delay, and all hints during the delay share that poll.
const MAX_IMMEDIATE_WAITERS = 16;
const SHARED_POLL_DELAY_MS = 20;
// A "finished" hint can be about any job, and any PostgreSQL role can send false ones. After a few polls in a row that found
// nothing, the next poll is delayed by a multiple of the time the last one took: hints cost at most a tenth of the time.
const FREE_POLLS = 3;
const PAUSE_PER_POLL = 9;
const MIN_PAUSE_MS = 10;
const MAX_PAUSE_MS = 1_000;

/** `hf.result`: waits for jobs to finish. Subscribes and polls only while there are waiters. */
export class Results {
  readonly #engine: EngineContext;
  readonly #waiters = new Set<Waiter>();
  #unsubscribe: (() => void) | null = null;
  #pollTimer: Timer | null = null;
  #hintTimer: Timer | null = null;
  #polling = false;
  #pollAgain = false;
  /** Polls in a row that followed a hint and found nothing. */
  #emptyPolls = 0;
  #pauseMs = 0;
  #warned = false;

  constructor(engine: EngineContext) {
    this.#engine = engine;
  }

  /** With `type`, waiting for a job of another type fails: its output would have the wrong type. */
  async wait(id: string, scope: Scope, options: ResultOptions, type: string | null): Promise<unknown> {
    options.signal?.throwIfAborted();
    const timeoutMs = options.timeout === undefined ? null : durationMs(options.timeout, "timeout");
    let timer: Timer | null = null;
    let onAbort: (() => void) | null = null;
    let waiter: Waiter | null = null;
    try {
      return await new Promise((resolve, reject) => {
        waiter = { id, type, scope, resolve, reject, dueSince: null };
        if (timeoutMs !== null) {
          timer = this.#engine.clock.after(timeoutMs, () => void this.#timeOut(waiter, timeoutMs));
        }
        onAbort = (): void => reject(options.signal?.reason);
        options.signal?.addEventListener("abort", onAbort);
        this.#add(waiter);
      });
    } finally {
      (timer as Timer | null)?.cancel();
      if (onAbort !== null) options.signal?.removeEventListener("abort", onAbort);
      if (waiter !== null) this.#remove(waiter);
    }
  }

  /** The error names the job's state: "not finished" alone does not help to find the cause. */
  async #timeOut(waiter: Waiter | null, timeoutMs: number): Promise<void> {
    if (waiter === null) return;
    const job = await this.#engine.store.get(waiter.id, waiter.scope).catch(() => null);
    const error = job?.error === null || job?.error === undefined ? "" : ` (${job.error.message})`;
    const state = job === null ? "" : `; it is ${job.state}${error}`;
    waiter.reject(new WaitTimeoutError(`job ${waiter.id} has not finished within ${timeoutMs} ms${state}`));
  }

  close(): void {
    const error = new ClosedError("the client was closed while waiting for a result", "call result() of a new client");
    for (const waiter of this.#waiters) waiter.reject(error);
  }

  #add(waiter: Waiter): void {
    this.#waiters.add(waiter);
    this.#unsubscribe ??= this.#engine.store.listen((hint) => {
      if (hint.kind === "finished") this.#onHint();
    });
    this.#schedulePoll();
    void this.#poll();
  }

  #remove(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    if (this.#waiters.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    this.#pollTimer?.cancel();
    this.#pollTimer = null;
    this.#hintTimer?.cancel();
    this.#hintTimer = null;
  }

  #schedulePoll(): void {
    this.#pollTimer ??= this.#engine.clock.after(DEFAULTS.pollMs, () => {
      this.#pollTimer = null;
      if (this.#waiters.size === 0) return;
      this.#schedulePoll();
      void this.#poll();
    });
  }

  /** A job has finished. With few waiters this polls immediately; with many, hints share a poll, which reads a job per waiter. */
  #onHint(): void {
    if (this.#polling) {
      this.#pollAgain = true;
      return;
    }
    const inMs = Math.max(this.#pauseMs, this.#waiters.size <= MAX_IMMEDIATE_WAITERS ? 0 : SHARED_POLL_DELAY_MS);
    if (inMs === 0) void this.#pollAfterHint();
    else {
      this.#hintTimer ??= this.#engine.clock.after(inMs, () => {
        this.#hintTimer = null;
        void this.#pollAfterHint();
      });
    }
  }

  async #pollAfterHint(): Promise<void> {
    const startedAt = performance.now();
    this.#emptyPolls++;
    await this.#poll();
    const pauseMs = PAUSE_PER_POLL * Math.round(performance.now() - startedAt);
    const isFree = this.#emptyPolls <= FREE_POLLS;
    this.#pauseMs = isFree ? 0 : Math.min(MAX_PAUSE_MS, Math.max(MIN_PAUSE_MS, pauseMs));
  }

  /** Reads every awaited job. One poll runs at a time, however many hints arrive. */
  async #poll(): Promise<void> {
    if (this.#polling) {
      this.#pollAgain = true;
      return;
    }
    this.#polling = true;
    this.#pollAgain = false;
    await Promise.all([...this.#waiters].map((waiter) => this.#check(waiter)));
    this.#polling = false;
    if (this.#pollAgain && this.#waiters.size > 0) this.#onHint();
  }

  async #check(waiter: Waiter): Promise<void> {
    try {
      const job = await this.#engine.store.get(waiter.id, waiter.scope);
      if (job === null) waiter.reject(new JobNotFoundError(waiter.id));
      else if (waiter.type !== null && waiter.type !== job.type) {
        waiter.reject(new InvalidOptionError("type", `job ${job.id} is of type ${job.type}, not ${waiter.type}`));
      } else if (isFinished(job.state)) {
        this.#emptyPolls = 0;
        finish(waiter, job);
      } else if (!this.#warned) await this.#warnIfUnclaimed(waiter, job);
    } catch (error) {
      // Waiting does not fix missing permissions or tables.
      if (error instanceof ClosedError || error instanceof StoreUnreadableError) waiter.reject(error);
      else this.#engine.events.emit("outage", { doing: "result", error });
    }
  }

  /** Without this, a forgotten `hf.work()` would leave the caller waiting forever without a message. Logged once. */
  async #warnIfUnclaimed(waiter: Waiter, job: StoredJob): Promise<void> {
    const { clock, store, logger } = this.#engine;
    if (job.dueAt === null || job.dueAt > clock.now()) {
      waiter.dueSince = null;
      return;
    }
    waiter.dueSince ??= clock.monotonic();
    if (clock.monotonic() - waiter.dueSince < UNCLAIMED_MS) return;
    waiter.dueSince = clock.monotonic();
    const workers = await store.workers().catch(() => null);
    const now = clock.now();
    const isServed = workers?.some(
      (worker) => isLive(worker, now) && (worker.queues === null || worker.queues.includes(job.queue)),
    );
    if (this.#warned || isServed !== false) return;
    this.#warned = true;
    logger.warn(
      { type: job.type, queue: job.queue },
      `job ${job.id} is due, but no live worker claims from its queue; did you call hf.work()?`,
    );
  }
}

function finish(waiter: Waiter, job: StoredJob): void {
  if (job.state === "completed") waiter.resolve(job.output === null ? null : fromJson(job.output));
  else
    waiter.reject(
      new JobNotCompletedError(job.id, job.state === "dead" ? "dead" : "cancelled", job.error?.message ?? null),
    );
}
