/** A source of time. Production uses {@link systemClock}; tests use the fake clock of `holdfast/testing`. */
export interface Clock {
  /** Wall-clock milliseconds since 1970. */
  now(): number;
  /** Monotonic milliseconds, for leases and timeouts that must not depend on the wall clock. */
  monotonic(): number;
  /** Calls `callback` once after `ms`. A timer with `background` set does not keep the process alive. */
  after(ms: number, callback: () => void, options?: { background?: boolean }): Timer;
  /** Stores register calls that take real time here. A fake clock waits for them before it advances. */
  waitFor?(work: Promise<unknown>): void;
}

export interface Timer {
  cancel(): void;
}

// Node turns a longer delay into 1 ms, which would make a busy loop. A timer that fires too early is set again by its owner.
const MAX_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, callback, options) {
    const timeout = setTimeout(callback, Math.min(Math.max(0, ms), MAX_TIMER_MS));
    if (options?.background) timeout.unref();
    return { cancel: () => clearTimeout(timeout) };
  },
};
