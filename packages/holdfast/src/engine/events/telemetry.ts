import { watchResult } from "../../callbacks.js";
import { LIMITS } from "../../defaults.js";
import type { RunningJob } from "../../job/job.js";
import { jsonBytes } from "../../job/json.js";
import type { ScheduleSlot } from "../../store.js";
import type { Logger } from "./logger.js";
import type { Stats } from "../client/stats.js";

/** Trace context on its way with a job: names and values, as propagators write them (`traceparent`, `tracestate`). */
export type TraceCarrier = Readonly<Record<string, string>>;

/**
 * What a client tells of its work: every call that enqueues, and every run of a handler. `holdfast/opentelemetry` has one
 * ready; write another for another tracer. What it throws or rejects with is logged and hurts no job; nobody waits for it.
 */
export interface Telemetry {
  /** A call of `enqueue`, `enqueueMany` or `rerun` begins: one, however many jobs it brings. */
  enqueue(call: EnqueueCall): EnqueueTrace;
  /** A handler is about to run, once for each attempt. */
  run(run: TracedRun): RunTrace;
  /** The client was made: what can be asked of it. Answers a function that is called when it closes. */
  attach?(client: { stats(): Promise<Stats> }): () => void;
}

/** A call that enqueues. */
export interface EnqueueCall {
  type: string;
  /** The queue of the jobs, unless options of single jobs name another. */
  queue: string;
  /** `enqueueMany`. */
  many: boolean;
}

/** What telemetry made of a call that enqueues. */
export interface EnqueueTrace {
  /** Stored with the jobs of the call for whoever runs them. As JSON at most 1,024 bytes; a longer one is left out. */
  readonly carrier: TraceCarrier | null;
  /** The call has its answer. */
  end(end: EnqueueEnd): void;
}

export interface EnqueueEnd {
  /** Jobs that the call brought to the store. */
  jobs: number;
  /** The one job of an `enqueue`; null for `enqueueMany` and after an error. */
  id: string | null;
  /** An `enqueue` was answered with a job that was there already. */
  duplicate: boolean;
  /** What the call threw; null if it did not. */
  error: unknown;
}

/** An attempt whose handler is about to run. */
export interface TracedRun {
  job: Omit<RunningJob, "schedule" | "runAt" | "createdAt"> & { readonly schedule: ScheduleSlot | null };
  worker: string;
  /** The trace context of the enqueue; null if there was none. */
  carrier: TraceCarrier | null;
  /** From when the job was due until now. */
  waitMs: number;
  /** The input as it is stored, with what `redact` names left out. Read when asked for. */
  input(): unknown;
}

/** What telemetry made of a run. */
export interface RunTrace {
  /** Calls the handler before it returns, and gives what it gives: whatever the handler does is then part of the trace. */
  inside<Output>(handler: () => Output): Output;
  /** The store has confirmed what became of the run. */
  end(end: RunEnd): void;
}

/** `failed` will be retried; `lost`: the lease ran out first; `released`: handed back at shutdown. */
export type RunOutcome = "completed" | "failed" | "dead" | "cancelled" | "lost" | "released";

export interface RunEnd {
  outcome: RunOutcome;
  /** What the handler threw, or why it was given up; null if nothing went wrong. */
  error: unknown;
  /** How long the handler ran. */
  durationMs: number;
  /** For `failed`: when it will be tried again. */
  retryInMs: number | null;
}

/** What a call that enqueues gathers for its end. */
export interface TracedCall {
  /** For the jobs of the call. */
  readonly trace: string | null;
  jobs: number;
}

/** The engine's side of {@link Telemetry}: keeps its faults away from jobs. */
export class Traces {
  readonly #telemetry: Telemetry;
  readonly #logger: Logger;

  constructor(telemetry: Telemetry, logger: Logger) {
    this.#telemetry = telemetry;
    this.#logger = logger;
  }

  /** Makes a call that enqueues. Throws what it throws at once: inside a transaction that must roll back. */
  around<Answer extends { id: string; duplicate: boolean } | readonly unknown[]>(
    call: EnqueueCall,
    write: (call: TracedCall) => Promise<Answer>,
  ): Promise<Answer> {
    const trace = this.#guard(() => this.#telemetry.enqueue(call));
    // The carrier may be a getter, and its values too.
    const carrier = this.#guard(() => writeCarrier(trace?.carrier ?? null)) ?? null;
    const traced: TracedCall = { trace: carrier, jobs: 0 };
    const end = (more: Partial<EnqueueEnd>): void => {
      this.#guard(() => trace?.end({ jobs: traced.jobs, id: null, duplicate: false, error: null, ...more }));
    };
    try {
      const written = write(traced);
      written.then(
        (answer) => end("id" in answer ? { id: answer.id, duplicate: answer.duplicate } : {}),
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

  #guard<Answer>(call: () => Answer): Answer | undefined {
    return guarded(this.#logger, call);
  }
}

/** What a call of telemetry returns; undefined, and a line in the log, if it throws or returns a promise that rejects. */
export function guarded<Answer>(logger: Logger, call: () => Answer): Answer | undefined {
  const failed = (error: unknown): void => void logger.error({ error }, "telemetry threw");
  try {
    const answer = call();
    watchResult(answer, failed);
    return answer;
  } catch (error) {
    failed(error);
    return undefined;
  }
}

/**
 * Calls a handler inside a trace: once, whatever the trace does. What the handler returns or throws counts, and not what the trace
 * makes of it: a fault of telemetry's own must not cost an attempt.
 */
export function callInside<Output>(
  trace: RunTrace,
  handler: () => Output,
  guard: (call: () => unknown) => void,
): Output {
  let ran: { output: Output } | { error: unknown } | null = null;
  const begin = (): Output => {
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
      const traced: unknown = trace.inside(begin);
      // Once the handler runs, a promise of the trace's says what the handler's own does.
      if (ran === null) return traced;
      watchResult(traced, () => {});
    } catch (error) {
      if (ran === null || !("error" in ran) || ran.error !== error) throw error;
    }
    return undefined;
  });
  return begin();
}

/** A run as telemetry sees it; ends once. */
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

/** The carrier as it is stored. One that is too long is left out: a job matters more than its trace. */
function writeCarrier(carrier: TraceCarrier | null): string | null {
  if (carrier === null) return null;
  const entries = Object.entries(carrier).filter(([, value]) => typeof value === "string");
  const text = entries.length === 0 ? null : JSON.stringify(Object.fromEntries(entries));
  return text === null || jsonBytes(text) > LIMITS.traceBytes ? null : text;
}

/** What is stored may come from SQL, or from another version: what is no carrier is none. */
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
