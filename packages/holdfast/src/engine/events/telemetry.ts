import { watchResult } from "../../callbacks.js";
import { LIMITS } from "../../defaults.js";
import type { RunningJob } from "../../job/job.js";
import { jsonBytes } from "../../job/json.js";
import type { ScheduleSlot } from "../../store.js";
import type { Logger } from "./logger.js";
import type { Stats } from "../client/stats.js";

/** Trace context stored with a job, as propagators write it (`traceparent`, `tracestate`). */
export type TraceCarrier = Readonly<Record<string, string>>;

/**
 * Called by the client for every enqueue call and every run of a handler. `holdfast/opentelemetry` provides one; implement it for
 * another tracer. If it throws or rejects, the error is logged; no job is affected by it or waits for it.
 */
export interface Telemetry {
  /** A call of `enqueue`, `enqueueMany` or `rerun` starts; once per call, however many jobs it enqueues. */
  enqueue(call: EnqueueCall): EnqueueTrace;
  /** A handler is about to run; once per attempt. */
  run(run: TracedRun): RunTrace;
  /** The client was created. Returns a function that is called when it closes. */
  attach?(client: { stats(): Promise<Stats> }): () => void;
}

/** An enqueue call. */
export interface EnqueueCall {
  type: string;
  /** The queue of the jobs, unless `each` sets another for single jobs. */
  queue: string;
  /** Whether it is `enqueueMany`. */
  many: boolean;
}

/** The trace of an enqueue call. */
export interface EnqueueTrace {
  /** Stored with the jobs of the call. At most 1,024 bytes of JSON; a longer one is not stored. */
  readonly carrier: TraceCarrier | null;
  /** The call has ended. */
  end(end: EnqueueEnd): void;
}

export interface EnqueueEnd {
  /** Jobs that the call sent to the store. */
  jobs: number;
  /** The one job of an `enqueue`; null for `enqueueMany` and after an error. */
  id: string | null;
  /** `enqueue` returned an existing job. */
  duplicate: boolean;
  /** What the call threw; null if it succeeded. */
  error: unknown;
}

/** An attempt whose handler is about to run. */
export interface TracedRun {
  job: Omit<RunningJob, "schedule" | "runAt" | "createdAt"> & { readonly schedule: ScheduleSlot | null };
  worker: string;
  /** The trace context of the enqueue; null if there was none. */
  carrier: TraceCarrier | null;
  /** Time since the job was due. */
  waitMs: number;
  /** The stored input, redacted. Parsed when called. */
  input(): unknown;
}

/** The trace of a run. */
export interface RunTrace {
  /** Calls the handler synchronously and returns its result, so that what the handler does is part of the trace. */
  inside<Output>(handler: () => Output): Output;
  /** The store has confirmed the outcome. */
  end(end: RunEnd): void;
}

/** `failed`: will be retried; `lost`: the lease expired first; `released`: given up for another worker, for example at shutdown. */
export type RunOutcome = "completed" | "failed" | "dead" | "cancelled" | "lost" | "released";

export interface RunEnd {
  outcome: RunOutcome;
  /** What the handler threw, or why the job is dead; null if it succeeded. */
  error: unknown;
  /** How long the handler ran. */
  durationMs: number;
  /** For `failed`: the delay before the retry. */
  retryInMs: number | null;
}

/** The state of a traced enqueue call. */
export interface TracedCall {
  /** Trace context for the jobs of the call. */
  readonly trace: string | null;
  jobs: number;
}

/** Calls {@link Telemetry}, so that its errors cannot affect jobs. */
export class Traces {
  readonly #telemetry: Telemetry;
  readonly #logger: Logger;

  constructor(telemetry: Telemetry, logger: Logger) {
    this.#telemetry = telemetry;
    this.#logger = logger;
  }

  /** Traces an enqueue call. A synchronous error is thrown synchronously: a caller's transaction must roll back on it. */
  traceEnqueue<Result extends { id: string; duplicate: boolean } | readonly unknown[]>(
    call: EnqueueCall,
    write: (call: TracedCall) => Promise<Result>,
  ): Promise<Result> {
    const trace = this.#guard(() => this.#telemetry.enqueue(call));
    // Reading the carrier can throw: it may be a getter.
    const carrier = this.#guard(() => writeCarrier(trace?.carrier ?? null)) ?? null;
    const traced: TracedCall = { trace: carrier, jobs: 0 };
    const end = (more: Partial<EnqueueEnd>): void => {
      this.#guard(() => trace?.end({ jobs: traced.jobs, id: null, duplicate: false, error: null, ...more }));
    };
    try {
      const written = write(traced);
      written.then(
        (result) => end("id" in result ? { id: result.id, duplicate: result.duplicate } : {}),
        (error: unknown) => end({ error }),
      );
      return written;
    } catch (error) {
      end({ error });
      throw error;
    }
  }

  run(run: Omit<TracedRun, "carrier">, stored: string | null): HandlerTrace | null {
    const trace = this.#guard(() => this.#telemetry.run({ ...run, carrier: readCarrier(stored) }));
    return trace === undefined ? null : new HandlerTrace(trace, (call) => this.#guard(call));
  }

  attach(client: { stats(): Promise<Stats> }): () => void {
    const detach = this.#guard(() => this.#telemetry.attach?.(client));
    return () => {
      this.#guard(() => detach?.());
    };
  }

  #guard<Result>(call: () => Result): Result | undefined {
    return guarded(this.#logger, call);
  }
}

/** Returns the result of a telemetry call, or undefined if it throws. Logs the error of a throw or a rejected promise. */
export function guarded<Result>(logger: Logger, call: () => Result): Result | undefined {
  const failed = (error: unknown): void => void logger.error({ error }, "telemetry threw");
  try {
    const result = call();
    watchResult(result, failed);
    return result;
  } catch (error) {
    failed(error);
    return undefined;
  }
}

/**
 * Calls a handler inside a trace, exactly once, whatever the trace does. The handler's own result or error is used, not what the
 * trace returns: an error in telemetry must not cost an attempt.
 */
export function callInside<Output>(
  trace: RunTrace,
  handler: () => Output,
  guard: (call: () => unknown) => void,
): Output {
  let ran: { output: Output } | { error: unknown } | null = null;
  const runOnce = (): Output => {
    if (ran === null) {
      try {
        ran = { output: handler() };
      } catch (error) {
        ran = { error };
      }
    }
    if ("error" in ran) throw ran.error;
    return ran.output;
  };
  guard(() => {
    try {
      const traced: unknown = trace.inside(runOnce);
      // If the handler ran, the trace's promise mirrors the handler's: its rejection is not an error of telemetry.
      if (ran === null) return traced;
      watchResult(traced, () => {});
    } catch (error) {
      if (ran === null || !("error" in ran) || ran.error !== error) throw error;
    }
    return undefined;
  });
  return runOnce();
}

/** The trace of one run. It ends once. */
export class HandlerTrace {
  ranMs = 0;
  readonly #trace: RunTrace;
  readonly #guard: (call: () => unknown) => void;
  #ended = false;

  constructor(trace: RunTrace, guard: (call: () => unknown) => void) {
    this.#trace = trace;
    this.#guard = guard;
  }

  inside<Output>(handler: () => Output): Output {
    return callInside(this.#trace, handler, this.#guard);
  }

  end(outcome: RunOutcome, error: unknown = null, retryInMs: number | null = null): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#guard(() => this.#trace.end({ outcome, error, durationMs: this.ranMs, retryInMs }));
  }
}

/** The carrier as JSON; null if it is too long: the job matters more than its trace. */
function writeCarrier(carrier: TraceCarrier | null): string | null {
  if (carrier === null) return null;
  const entries = Object.entries(carrier).filter(([, value]) => typeof value === "string");
  const text = entries.length === 0 ? null : JSON.stringify(Object.fromEntries(entries));
  return text === null || jsonBytes(text) > LIMITS.traceBytes ? null : text;
}

/** Returns null for anything that is not a carrier: the column can be written by SQL or by another version. */
export function readCarrier(stored: string | null): TraceCarrier | null {
  if (stored === null) return null;
  try {
    const carrier: unknown = JSON.parse(stored);
    if (typeof carrier !== "object" || carrier === null || Array.isArray(carrier)) return null;
    const entries = Object.entries(carrier).filter(([, value]) => typeof value === "string");
    return entries.length === 0 ? null : Object.fromEntries(entries);
  } catch {
    return null;
  }
}
