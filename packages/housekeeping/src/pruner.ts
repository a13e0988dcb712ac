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
  /**
   * Whether the queue is enabled. While it is, the pruner deletes nothing: the scheduled job does. A function is asked before each run, and
   * may take 30 s.
   */
  queueEnabled: boolean | (() => boolean | Promise<boolean>);
  /** From one second to 24 days. Default `"1h"`. */
  every?: Duration;
  /** Called with an error of a run; the next one follows at its time. Default: errors are ignored. */
  onError?: (error: unknown) => void;
}

/** Deletes old rows at an interval, without the queue. */
export interface Pruner {
  /** Begins: the first run is after one minute. Does nothing if it has begun, or if `queueEnabled` is true. */
  start(): void;
  /** Ends, after the chunk in progress, or after 30 s. */
  stop(): Promise<void>;
}

const KEYS = optionKeys<PrunerOptions>({ queueEnabled: true, every: true, onError: true });
// A timer of Node cannot wait longer.
const MAX_EVERY_MS = 24 * 86_400_000;
/** Not at once: a process that starts has more urgent work, and one that crashes at every start would delete each time. */
const FIRST_MS = 60_000;
/** How long `stop` waits for a chunk, for example while the database does not respond. */
const STOP_MS = 30_000;
/** How long `queueEnabled` may take to respond. */
const ENABLED_MS = 30_000;

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

  async function isQueueEnabled(signal: AbortSignal): Promise<boolean> {
    if (typeof queueEnabled === "boolean") return queueEnabled;
    let timer: Timer | undefined;
    let onAbort = (): void => {};
    const late = new Promise<never>((_resolve, reject) => {
      onAbort = () => reject(new Error("the pruner was stopped"));
      signal.addEventListener("abort", onAbort);
      const onLate = (): void => reject(new Error(`queueEnabled did not respond within ${ENABLED_MS / 1_000} s`));
      timer = clock.after(ENABLED_MS, onLate, { background: true });
    });
    try {
      return await Promise.race([new Promise<boolean>((resolve) => resolve(queueEnabled())), late]);
    } finally {
      timer?.cancel();
      signal.removeEventListener("abort", onAbort);
    }
  }

  async function runOnce(signal: AbortSignal): Promise<void> {
    try {
      const isEnabled = await isQueueEnabled(signal);
      // A setting that is missing must not count as a queue that is disabled.
      if (typeof isEnabled !== "boolean")
        throw new InvalidOptionError("queueEnabled", "returned neither true nor false");
      if (isEnabled) return;
      const pruning = prune(signal);
      // Not for queueEnabled, which may wait for a timer of this clock.
      clock.waitFor?.(pruning.catch(() => {}));
      await pruning;
    } catch (error) {
      if (signal.aborted) return;
      // A callback of the user must end neither the timer nor the process.
      new Promise((resolve) => resolve(onError(error))).catch(() => {});
    }
  }

  return {
    start() {
      if (running !== null || queueEnabled === true) return;
      const state = { stopping: new AbortController(), timer: null as Timer | null, work: Promise.resolve() };
      running = state;
      const tick = (): void => {
        state.work = runOnce(state.stopping.signal).then(() => {
          if (!state.stopping.signal.aborted) state.timer = clock.after(everyMs, tick, { background: true });
        });
      };
      state.timer = clock.after(Math.min(FIRST_MS, everyMs), tick, { background: true });
    },
    async stop() {
      const state = running;
      running = null;
      if (state === null) return;
      state.stopping.abort();
      state.timer?.cancel();
      let timer: Timer | undefined;
      const late = new Promise<void>((resolve) => (timer = clock.after(STOP_MS, resolve)));
      await Promise.race([state.work, late]);
      timer?.cancel();
    },
  };
}
