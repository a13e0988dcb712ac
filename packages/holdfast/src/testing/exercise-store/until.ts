import assert from "node:assert/strict";

const POLL_MS = 5;
const DEADLINE_MS = 45_000;

/** Polls a condition until it returns a value, and returns that value. Fails with `what` at the deadline. */
export async function until<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  deadlineMs: number = DEADLINE_MS,
): Promise<T> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const found = await condition();
    if (found !== undefined && found !== false) return found;
    assert.ok(performance.now() < deadline, `timed out after ${deadlineMs} ms waiting for ${what}`);
    await pollInterval();
  }
}

/** The pause between two polls. */
export function pollInterval(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

/** Random numbers from 0 to below − 1 that repeat with their seed, so that a failing run can be repeated. */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
