import type { Clock, Timer } from "../clock.js";
import { durationMs, type Duration } from "../duration.js";

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
  /** Moves time forward, firing what falls due on the way, in order, and lets everything it starts settle. */
  advance(by: Duration): Promise<void>;
  /** Sets the wall clock without firing anything, as an operator or NTP would; monotonic time goes on untouched. */
  setWall(ms: number): void;
  /** Lets work that needs no time (promises, in-memory stores) run until it rests. */
  settle(): Promise<void>;
}

export function fakeClock(start: Date | number = Date.UTC(2026, 0, 1)): FakeClock {
  let elapsed = 0;
  let wallOffset = Number(start);
  let order = 0;
  const timers = new Set<Waiting>();

  function nextDue(until: number): Waiting | undefined {
    let next: Waiting | undefined;
    for (const timer of timers) {
      if (timer.at > until) continue;
      if (next === undefined || timer.at < next.at || (timer.at === next.at && timer.order < next.order)) next = timer;
    }
    return next;
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
  };
}

// An answer of an in-memory store takes a few turns of the event loop: batch, write, answer, and what the answer starts.
const TURNS = 12;

async function settle(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => setImmediate(resolve));
}
