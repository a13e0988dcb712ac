import { durationMs, systemClock, type Clock, type Duration, type Timer } from "holdfast/pack";

export interface PrunerOptions {
  /** Whether the queue is enabled now. While it is, the pruner deletes nothing: the scheduled job does. */
  queueEnabled: boolean | (() => boolean);
  /** Default `"1h"`. */
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

/** `prune` deletes what is due, and ends early if its signal aborts. */
export function createPruner(
  prune: (signal: AbortSignal) => Promise<unknown>,
  { queueEnabled, every = "1h", onError = () => {} }: PrunerOptions,
  clock: Clock = systemClock,
): Pruner {
  const everyMs = Math.max(1_000, durationMs(every, "every"));
  const isEnabled = (): boolean => (typeof queueEnabled === "function" ? queueEnabled() : queueEnabled);
  let running: { stopping: AbortController; timer: Timer | null; work: Promise<void> } | null = null;

  async function runOnce(signal: AbortSignal): Promise<void> {
    try {
      if (!isEnabled()) await prune(signal);
    } catch (error) {
      if (signal.aborted) return;
      try {
        onError(error);
      } catch {
        // A callback of the user must not end the timer.
      }
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
