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
  /** Give up after this long. Default: wait for ever. */
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
  /** Monotonic time since which the job is seen to be due, or since which workers were last looked for. */
  dueSince: number | null;
}

// A job that is due for so long and nobody takes makes us look whether there is a worker at all.
const UNTAKEN_MS = 5_000;
const FEW = 16;
const SHARED_LOOK_MS = 20;
// Hints are about any job, and any login of a PostgreSQL may send some that are not true. After a few in a row that were for
// nothing there is a rest of so many times what a look took: hints cost a tenth of the time at most.
const FREE_LOOKS = 3;
const REST_PER_LOOK = 9;
const SHORTEST_REST_MS = 10;
const LONGEST_REST_MS = 1_000;

/** `hf.result`: waits for jobs to end. Listens and polls only while someone waits. */
export class Results {
  readonly #engine: EngineContext;
  readonly #waiters = new Set<Waiter>();
  #unlisten: (() => void) | null = null;
  #timer: Timer | null = null;
  #soon: Timer | null = null;
  #looking = false;
  #lookAgain = false;
  /** Looks in a row that hints led to, and that were for nothing. */
  #inVain = 0;
  #restMs = 0;
  #warned = false;

  constructor(engine: EngineContext) {
    this.#engine = engine;
  }

  /** With `type` given, a job of another type is refused: its output would pass for what it is not. */
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
          timer = this.#engine.clock.after(timeoutMs, () => void this.#giveUp(waiter, timeoutMs));
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

  /** Says where the job stands: "not finished" alone sends people looking in the wrong place. */
  async #giveUp(waiter: Waiter | null, timeoutMs: number): Promise<void> {
    if (waiter === null) return;
    const job = await this.#engine.store.get(waiter.id, waiter.scope).catch(() => null);
    const error = job?.error === null || job?.error === undefined ? "" : ` (${job.error.message})`;
    const stands = job === null ? "" : `; it is ${job.state}${error}`;
    waiter.reject(new WaitTimeoutError(`job ${waiter.id} has not finished within ${timeoutMs} ms${stands}`));
  }

  close(): void {
    const error = new ClosedError("the client was closed while waiting for a result", "ask again from a new one");
    for (const waiter of this.#waiters) waiter.reject(error);
  }

  #add(waiter: Waiter): void {
    this.#waiters.add(waiter);
    this.#unlisten ??= this.#engine.store.listen((hint) => {
      if (hint.kind === "finished") this.#lookSoon();
    });
    this.#poll();
    void this.#look();
  }

  #remove(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    if (this.#waiters.size > 0) return;
    this.#unlisten?.();
    this.#unlisten = null;
    this.#timer?.cancel();
    this.#timer = null;
    this.#soon?.cancel();
    this.#soon = null;
  }

  #poll(): void {
    this.#timer ??= this.#engine.clock.after(DEFAULTS.pollMs, () => {
      this.#timer = null;
      if (this.#waiters.size === 0) return;
      this.#poll();
      void this.#look();
    });
  }

  /** Few waiters are served at once; many share a look now and then, or every hint would cost a read for each. */
  #lookSoon(): void {
    if (this.#looking) {
      this.#lookAgain = true;
      return;
    }
    const inMs = Math.max(this.#restMs, this.#waiters.size <= FEW ? 0 : SHARED_LOOK_MS);
    if (inMs === 0) void this.#lookByHint();
    else {
      this.#soon ??= this.#engine.clock.after(inMs, () => {
        this.#soon = null;
        void this.#lookByHint();
      });
    }
  }

  async #lookByHint(): Promise<void> {
    const begun = performance.now();
    this.#inVain++;
    await this.#look();
    const restMs = REST_PER_LOOK * Math.round(performance.now() - begun);
    const isFree = this.#inVain <= FREE_LOOKS;
    this.#restMs = isFree ? 0 : Math.min(LONGEST_REST_MS, Math.max(SHORTEST_REST_MS, restMs));
  }

  /** Looks at every awaited job; one look at a time, however many hints arrive. */
  async #look(): Promise<void> {
    if (this.#looking) {
      this.#lookAgain = true;
      return;
    }
    this.#looking = true;
    this.#lookAgain = false;
    await Promise.all([...this.#waiters].map((waiter) => this.#lookAt(waiter)));
    this.#looking = false;
    if (this.#lookAgain && this.#waiters.size > 0) this.#lookSoon();
  }

  async #lookAt(waiter: Waiter): Promise<void> {
    try {
      const job = await this.#engine.store.get(waiter.id, waiter.scope);
      if (job === null) waiter.reject(new JobNotFoundError(waiter.id));
      else if (waiter.type !== null && waiter.type !== job.type) {
        waiter.reject(new InvalidOptionError("type", `job ${job.id} is of type ${job.type}, not ${waiter.type}`));
      } else if (isFinished(job.state)) {
        this.#inVain = 0;
        conclude(waiter, job);
      } else if (!this.#warned) await this.#warnIfUntaken(waiter, job);
    } catch (error) {
      // Rights or tables that are missing do not come by waiting.
      if (error instanceof ClosedError || error instanceof StoreUnreadableError) waiter.reject(error);
      else this.#engine.events.emit("outage", { doing: "result", error });
    }
  }

  /** A forgotten `hf.work()` would otherwise be silence for ever. Told once. */
  async #warnIfUntaken(waiter: Waiter, job: StoredJob): Promise<void> {
    const { clock, store, logger } = this.#engine;
    if (job.dueAt === null || job.dueAt > clock.now()) {
      waiter.dueSince = null;
      return;
    }
    waiter.dueSince ??= clock.monotonic();
    if (clock.monotonic() - waiter.dueSince < UNTAKEN_MS) return;
    waiter.dueSince = clock.monotonic();
    const workers = await store.workers().catch(() => null);
    const now = clock.now();
    const isTaken = workers?.some(
      (worker) => isLive(worker, now) && (worker.queues === null || worker.queues.includes(job.queue)),
    );
    if (this.#warned || isTaken !== false) return;
    this.#warned = true;
    logger.warn(
      { type: job.type, queue: job.queue },
      `job ${job.id} is due and no live worker was seen for its queue; did you call hf.work()?`,
    );
  }
}

function conclude(waiter: Waiter, job: StoredJob): void {
  if (job.state === "completed") waiter.resolve(job.output === null ? null : fromJson(job.output));
  else
    waiter.reject(
      new JobNotCompletedError(job.id, job.state === "dead" ? "dead" : "cancelled", job.error?.message ?? null),
    );
}
