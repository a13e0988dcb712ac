import { watchResult } from "../../callbacks.js";
import { InvalidOptionError } from "../../errors.js";
import { show } from "../../options.js";
import type { FinishedState, State } from "../../job/state.js";
import type { SlotReason } from "../../store.js";

/** Fields of every event about a job. */
export interface JobEvent {
  id: string;
  type: string;
  queue: string;
}
export interface LeaseEvent extends JobEvent {
  worker: string;
  attempt: number;
}

/**
 * The events of `hf.on`. They report what this process did, once the store has confirmed it; for the work of other processes
 * read the store (`hf.get`, `hf.list`, `hf.stats`).
 */
export interface Events {
  enqueued: JobEvent & { replaced: boolean };
  claimed: LeaseEvent;
  /** `waitMs`: from the due time until the handler started. Not emitted for jobs that end within about 20 ms. */
  started: LeaseEvent & { waitMs: number };
  progress: LeaseEvent & { fraction: number; note: string | null; data: object | null };
  /** A handler wrote a line to its job's log. */
  log: LeaseEvent & { line: string };
  completed: LeaseEvent & { output: unknown; durationMs: number; waitMs: number };
  /** An attempt failed and will be retried. */
  failed: LeaseEvent & { error: ErrorEvent; retryInMs: number; durationMs: number; waitMs: number };
  /** A job is dead: no attempts left, `NotRetryable`, expired, or no handler. Both times are null if no handler ran. */
  dead: JobEvent & { attempt: number; error: ErrorEvent; durationMs: number | null; waitMs: number | null };
  cancelled: JobEvent;
  /** A job was released for another worker. */
  released: LeaseEvent;
  /** A job waits for its steps, without a worker: until a time, or (null) without limit. */
  parked: LeaseEvent & { until: Date | null };
  retried: { id: string };
  /** A waiting job was changed by `hf.update` or `hf.promote`. */
  updated: { id: string };
  removed: { id: string };
  /** A lease expired before the outcome was recorded; another worker has claimed the job, or will. */
  lost: LeaseEvent;
  /** A handler ignored its abort signal and was abandoned; its capacity is free again. */
  stuck: LeaseEvent;
  /** An expired lease was reaped by maintenance, or its job was claimed again. */
  recovered: JobEvent & { to: State };
  /** A job passed its expiry before it could run; `dead` follows. */
  expired: JobEvent;
  /** Retention deleted finished jobs. `state: null`: jobs of any state, of types with a retention of their own. */
  purged: { state: FinishedState | null; count: number };
  /** The queue `*` stands for all queues. */
  paused: { queue: string };
  resumed: { queue: string };
  /** A slot of a schedule became a job. `reason`: it is late or was run manually; null if it is on time. */
  fired: { schedule: string; slot: Date; id: string; reason: SlotReason | null };
  /** A slot of a schedule, or every slot up to `through`, did not become a job. `heldBy`: the unfinished job that it overlaps. */
  skipped: {
    schedule: string;
    slot: Date;
    through: Date | null;
    reason: SlotReason;
    heldBy: string | null;
  };
  /** The schedule was defined in code, but the code of no live worker defines it any more. */
  undefinedSchedule: { schedule: string };
  workerStarted: { worker: string };
  workerStopped: { worker: string };
  /**
   * A store call failed. The engine retries its own calls; the admin API does not. Also emitted when the store refuses a
   * single outcome.
   */
  outage: { doing: string; error: unknown };
  /** The store is available again after an outage. */
  outageEnded: { doing: string };
}

export interface ErrorEvent {
  message: string;
  code: string | null;
}

export type EventName = keyof Events;

/** The compiler checks that none is missing. */
const NAMES: Readonly<Record<EventName, true>> = {
  enqueued: true,
  claimed: true,
  started: true,
  progress: true,
  log: true,
  completed: true,
  failed: true,
  dead: true,
  cancelled: true,
  released: true,
  parked: true,
  retried: true,
  updated: true,
  removed: true,
  lost: true,
  stuck: true,
  recovered: true,
  expired: true,
  purged: true,
  paused: true,
  resumed: true,
  fired: true,
  skipped: true,
  undefinedSchedule: true,
  workerStarted: true,
  workerStopped: true,
  outage: true,
  outageEnded: true,
};
/** May return a promise, which is not awaited. If it throws or rejects, the error is logged. */
export type Listener<Name extends EventName> = (event: Events[Name]) => unknown;

/** A typed event emitter. A listener that fails affects neither the engine nor other listeners. */
export class Emitter {
  readonly #listeners = new Map<EventName, Set<Listener<never>>>();
  readonly #onListenerError: (name: EventName, error: unknown) => void;

  constructor(onListenerError: (name: EventName, error: unknown) => void) {
    this.#onListenerError = onListenerError;
  }

  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    // Without this check, in JavaScript a listener for a misspelled event would never be called.
    if (!Object.hasOwn(NAMES, name)) {
      throw new InvalidOptionError("event", `${show(name)} is none of ${Object.keys(NAMES).join(", ")}`);
    }
    if (typeof listener !== "function") throw new InvalidOptionError("listener", `${show(listener)} is not a function`);
    let listeners = this.#listeners.get(name);
    if (listeners === undefined) this.#listeners.set(name, (listeners = new Set()));
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  /** For hot paths: without listeners the event need not be created. */
  hasListeners(name: EventName): boolean {
    const listeners = this.#listeners.get(name);
    return listeners !== undefined && listeners.size > 0;
  }

  emit<Name extends EventName>(name: Name, event: Events[Name]): void {
    const listeners = this.#listeners.get(name);
    if (listeners === undefined || listeners.size === 0) return;
    // All listeners get the same object, so none may change it.
    Object.freeze(event);
    // A copy: a listener that unsubscribes and subscribes again would otherwise be called in an endless loop.
    const now = [...listeners];
    for (const listener of now) {
      try {
        const result = (listener as Listener<Name>)(event);
        if (result !== undefined) watchResult(result, (error) => this.#onListenerError(name, error));
      } catch (error) {
        this.#onListenerError(name, error);
      }
    }
  }
}
