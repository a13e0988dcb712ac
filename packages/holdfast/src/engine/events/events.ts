import { watchResult } from "../../callbacks.js";
import { InvalidOptionError } from "../../errors.js";
import { show } from "../../options.js";
import type { FinishedState, State } from "../../job/state.js";
import type { SlotReason } from "../../store.js";

/** What every event about a job says. */
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
 * What `hf.on` can listen to. Events tell what this process did, once the store has confirmed it; for what other
 * processes do, ask the store (`hf.get`, `hf.list`, `hf.stats`).
 */
export interface Events {
  enqueued: JobEvent & { replaced: boolean };
  claimed: LeaseEvent;
  /** `waitMs`: from when the job was due until its handler began. A job that ends within a moment is never told as started. */
  started: LeaseEvent & { waitMs: number };
  progress: LeaseEvent & { fraction: number; note: string | null };
  /** A handler wrote a line to its job's log. */
  log: LeaseEvent & { line: string };
  completed: LeaseEvent & { output: unknown; durationMs: number; waitMs: number };
  /** An attempt failed and will be tried again. */
  failed: LeaseEvent & { error: ErrorEvent; retryInMs: number; durationMs: number; waitMs: number };
  /** A job was given up: attempts used, told not to retry, expired, or no handler. Both times are null if none ran now. */
  dead: JobEvent & { attempt: number; error: ErrorEvent; durationMs: number | null; waitMs: number | null };
  cancelled: JobEvent;
  /** Handed back for another worker. */
  released: LeaseEvent;
  retried: { id: string };
  removed: { id: string };
  /** A lease ran out under a handler or an outcome; the job is or will be with another worker. */
  lost: LeaseEvent;
  /** A handler ignored its signal and was abandoned; its slot is free again. */
  stuck: LeaseEvent;
  /** A lease that ran out was laid down, by maintenance or by claiming it again. */
  recovered: JobEvent & { to: State };
  /** A job passed its expiry before it could run; `dead` follows. */
  expired: JobEvent;
  /** Retention deleted finished jobs. */
  purged: { state: FinishedState; count: number };
  paused: { queue: string };
  resumed: { queue: string };
  /** A slot of a schedule became a job. `reason` says that it is late or was run by hand; null if it is on time. */
  fired: { schedule: string; slot: Date; id: string; reason: SlotReason | null };
  /** A slot of a schedule did not become a job, or all up to `through` did not; `heldBy` is the run that is live. */
  skipped: {
    schedule: string;
    slot: Date;
    through: Date | null;
    reason: SlotReason;
    heldBy: string | null;
  };
  /** Code once defined this schedule, and no live worker's code does any more. */
  undefinedSchedule: { schedule: string };
  workerStarted: { worker: string };
  workerStopped: { worker: string };
  /** The store failed a call of the engine's own, which goes on trying, or one of the admin API. */
  outage: { doing: string; error: unknown };
  /** The store answers again after an outage. */
  outageEnded: { doing: string };
}

export interface ErrorEvent {
  message: string;
  code: string | null;
}

export type EventName = keyof Events;

/** The compiler sees to it that none is missing. */
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
  retried: true,
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
/** May return a promise, which nobody waits for; what it throws or rejects with is logged. */
export type Listener<Name extends EventName> = (event: Events[Name]) => unknown;

/** A typed emitter. A listener that fails is reported and hurts nobody. */
export class Emitter {
  readonly #listeners = new Map<EventName, Set<Listener<never>>>();
  readonly #onListenerError: (name: EventName, error: unknown) => void;

  constructor(onListenerError: (name: EventName, error: unknown) => void) {
    this.#onListenerError = onListenerError;
  }

  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void {
    // In plain JavaScript a listener to a misspelt event would wait for ever.
    if (!Object.hasOwn(NAMES, name)) {
      throw new InvalidOptionError("event", `${show(name)} is none of ${Object.keys(NAMES).join(", ")}`);
    }
    if (typeof listener !== "function") throw new InvalidOptionError("listener", `${show(listener)} is not a function`);
    let listeners = this.#listeners.get(name);
    if (listeners === undefined) this.#listeners.set(name, (listeners = new Set()));
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  /** Spares the hot path the making of events nobody hears. */
  hasListeners(name: EventName): boolean {
    const listeners = this.#listeners.get(name);
    return listeners !== undefined && listeners.size > 0;
  }

  emit<Name extends EventName>(name: Name, event: Events[Name]): void {
    const listeners = this.#listeners.get(name);
    if (listeners === undefined || listeners.size === 0) return;
    // One event for all: what one listener does to it must not reach the next.
    Object.freeze(event);
    // A copy: a listener that subscribes itself anew would otherwise be called again and again for the same event.
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
