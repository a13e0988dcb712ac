/** A source of time. Production uses {@link systemClock}; tests use the fake clock of `holdfast/testing`. */
export interface Clock {
  /** Wall-clock milliseconds since 1970. */
  now(): number;
  /** Milliseconds that never jump back; used to judge a lease without trusting the wall clock. */
  monotonic(): number;
  /** Calls `callback` once after `ms`. A timer with `background` set does not keep the process alive. */
  after(ms: number, callback: () => void, options?: { background?: boolean }): Timer;
  /** Stores hand over work that takes real time: a clock that is moved by hand waits for it before time goes on. */
  waitFor?(work: Promise<unknown>): void;
}

export interface Timer {
  cancel(): void;
}

// Node turns a longer delay into 1 ms; a timer that fires early is re-armed by its owner, one that fires at once is a busy loop.
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  after(ms, callback, options) {
    const timeout = setTimeout(callback, Math.min(Math.max(0, ms), LONGEST_TIMER_MS));
    if (options?.background) timeout.unref();
    return { cancel: () => clearTimeout(timeout) };
  },
};
