import { InvalidOptionError } from "holdfast";
import {
  durationMs,
  optionKeys,
  refuseUnknown,
  systemClock,
  type Clock,
  type Duration,
  type Timer,
} from "holdfast/pack";

export interface PrunerOptions {
  /** Whether the queue is enabled now. While it is, the pruner deletes nothing: the scheduled job does. */
  queueEnabled: boolean | (() => boolean | Promise<boolean>);
  /** From one second to 24 days. Default `"1h"`. */
  every?: Duration;
  /** Called with an error of a run; the next one follows at its time. Default: errors are ignored. */
  onError?: (error: unknown) => void;
}

/** Deletes old rows at an interval, without the queue. */
export interface Pruner {
  /** Begins: the first run is at once. Does nothing if it has begun. */
  start(): void;
  /** Ends, after the chunk in progress. */
  stop(): Promise<void>;
}

const KEYS = optionKeys<PrunerOptions>({ queueEnabled: true, every: true, onError: true });
// A timer of Node cannot wait longer.
const MAX_EVERY_MS = 24 * 86_400_000;

/** `prune` deletes what is due, and ends early if its signal aborts. */
export function createPruner(
  prune: (signal: AbortSignal) => Promise<unknown>,
  options: PrunerOptions,
  clock: Clock = systemClock,
): Pruner {
  refuseUnknown(options, KEYS, "legacyPruner");
  const { queueEnabled, every = "1h", onError = () => {} } = options;
  if (typeof queueEnabled !== "boolean" && typeof queueEnabled !== "function") {
    throw new InvalidOptionError("queueEnabled", "must be true, false, or a function that returns one of them");
  }
  if (typeof onError !== "function") throw new InvalidOptionError("onError", "must be a function");
  const everyMs = durationMs(every, "every");
  if (everyMs < 1_000 || everyMs > MAX_EVERY_MS) {
    throw new InvalidOptionError("every", "must be a duration from one second to 24 days");
  }
  let running: { stopping: AbortController; timer: Timer | null; work: Promise<void> } | null = null;

  async function runOnce(signal: AbortSignal): Promise<void> {
    try {
      const isEnabled = typeof queueEnabled === "function" ? await queueEnabled() : queueEnabled;
      // A setting that is missing must not count as a queue that is disabled.
      if (typeof isEnabled !== "boolean")
        throw new InvalidOptionError("queueEnabled", "returned neither true nor false");
      if (!isEnabled) await prune(signal);
    } catch (error) {
      if (signal.aborted) return;
      // A callback of the user must end neither the timer nor the process.
      new Promise((resolve) => resolve(onError(error))).catch(() => {});
    }
  }

  return {
    start() {
      if (running !== null) return;
      const state = { stopping: new AbortController(), timer: null as Timer | null, work: Promise.resolve() };
      running = state;
      const tick = (): void => {
        state.work = runOnce(state.stopping.signal).then(() => {
          if (!state.stopping.signal.aborted) state.timer = clock.after(everyMs, tick, { background: true });
        });
        clock.waitFor?.(state.work);
      };
      tick();
    },
    async stop() {
      const state = running;
      running = null;
      state?.stopping.abort();
      state?.timer?.cancel();
      await state?.work;
    },
  };
}
