import type { Clock, Timer } from "../clock.js";
import { durationMs, type Duration } from "../duration.js";
import { WaitTimeoutError } from "../errors.js";

interface Waiting {
  at: number;
  order: number;
  callback: () => void;
}

/**
 * A clock that stands still until it is told to move. Drives engine and store alike: give it to `holdfast({ clock })`.
 *
 * ```ts
 * const clock = fakeClock();
 * const hf = await holdfast({ store: "sqlite::memory:", jobs: [welcome], clock });
 * await hf.enqueue(welcome, { to }, { delay: "1h" });
 * await clock.advance("1h");
 * ```
 */
export interface FakeClock extends Clock {
  /**
   * Moves time forward, firing what falls due on the way, in order, and lets everything it starts settle. Time stands still while a
   * store of Holdfast's is at work, on a file or over the network; other I/O, such as a handler's `fetch`, is not known to the clock.
   */
  advance(by: Duration): Promise<void>;
  /** Sets the wall clock without firing anything, as an operator or NTP would; monotonic time goes on untouched. */
  setWall(ms: number): void;
  /** Lets work that needs no time of this clock's (promises, calls of stores) run until it rests. */
  settle(): Promise<void>;
}

export function fakeClock(start: Date | number = Date.UTC(2026, 0, 1)): FakeClock {
  let elapsed = 0;
  let wallOffset = Number(start);
  let order = 0;
  const timers = new Set<Waiting>();
  const working = new Set<Promise<unknown>>();

  function nextDue(until: number): Waiting | undefined {
    let next: Waiting | undefined;
    for (const timer of timers) {
      if (timer.at > until) continue;
      if (next === undefined || timer.at < next.at || (timer.at === next.at && timer.order < next.order)) next = timer;
    }
    return next;
  }

  async function settle(): Promise<void> {
    const began = performance.now();
    for (;;) {
      for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
      if (working.size === 0) return;
      await settledWithin([...working], began + LONGEST_MS - performance.now());
    }
  }

  return {
    // Whole milliseconds, as Date.now gives them, also inside a timer set for a fraction.
    now: () => Math.floor(wallOffset + elapsed),
    monotonic: () => elapsed,
    after(ms, callback): Timer {
      const timer: Waiting = { at: elapsed + Math.max(0, ms), order: order++, callback };
      timers.add(timer);
      return { cancel: () => timers.delete(timer) };
    },
    setWall(ms) {
      wallOffset = ms - elapsed;
    },
    async advance(by) {
      const until = elapsed + durationMs(by, "by");
      await settle();
      for (let timer = nextDue(until); timer !== undefined; timer = nextDue(until)) {
        timers.delete(timer);
        elapsed = Math.max(elapsed, timer.at);
        timer.callback();
        await settle();
      }
      elapsed = until;
      await settle();
    },
    settle,
    waitFor(work) {
      working.add(work);
      const done = (): void => void working.delete(work);
      work.then(done, done);
    },
  };
}

// An answer of an in-memory store takes a few turns of the event loop: batch, write, answer, and what the answer starts.
const TURNS = 12;
// What keeps a store at work for so long is not going to end while the clock stands still.
const LONGEST_MS = 10_000;

/** Waits for all of them, for so long in real time. */
async function settledWithin(work: readonly Promise<unknown>[], ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => (timer = setTimeout(resolve, Math.max(0, ms), "late")));
  const outcome = await Promise.race([Promise.allSettled(work), late]);
  clearTimeout(timer);
  if (outcome !== "late") return;
  throw new WaitTimeoutError(
    `the fake clock has waited ${LONGEST_MS / 1_000} s of real time for the store, and goes no further. Is a lock held, or does a job enqueue another without end?`,
  );
}
