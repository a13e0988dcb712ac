import type { Clock, Timer } from "../clock.js";
import { durationMs, type Duration } from "../duration.js";
import { WaitTimeoutError } from "../errors.js";

interface Waiting {
  at: number;
  order: number;
  callback: () => void;
}

/**
 * A clock that moves only when you advance it. Pass it to `holdfast({ clock })`; engine and store both use it.
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
   * Moves time forward, fires due timers in order, and waits for the work they start. Time does not move while a Holdfast store is
   * working, on a file or over the network. The clock does not wait for other I/O, such as a handler's `fetch`.
   */
  advance(by: Duration): Promise<void>;
  /** Sets the wall clock without firing timers, like an operator or NTP. Monotonic time does not change. */
  setWall(ms: number): void;
  /** Waits for work that does not depend on this clock (promises, store calls). */
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
    const startedAt = performance.now();
    for (;;) {
      for (let nth = 0; nth < ITERATIONS; nth++) await new Promise((resolve) => setImmediate(resolve));
      if (working.size === 0) return;
      await settledWithin([...working], startedAt + MAX_WAIT_MS - performance.now());
    }
  }

  return {
    // Whole milliseconds like Date.now, even in a timer set for a fraction.
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

// A call of an in-memory store takes a few iterations of the event loop: batch, write, response, and what the response starts.
const ITERATIONS = 12;
// Work that takes longer will probably not end until the clock moves.
const MAX_WAIT_MS = 10_000;

/** Waits for all of them, at most `ms` of real time. */
async function settledWithin(work: readonly Promise<unknown>[], ms: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => (timer = setTimeout(resolve, Math.max(0, ms), "late")));
  const outcome = await Promise.race([Promise.allSettled(work), late]);
  clearTimeout(timer);
  if (outcome !== "late") return;
  throw new WaitTimeoutError(
    `the fake clock timed out after ${MAX_WAIT_MS / 1_000} s of real time waiting for the store. Check for a held lock, or for jobs that endlessly enqueue others`,
  );
}
