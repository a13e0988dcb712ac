import assert from "node:assert/strict";

const POLL_MS = 5;
const DEADLINE_MS = 45_000;

/** Waits for a condition, looking often; fails with what was waited for. Gives what the condition gave. */
export async function until<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  deadlineMs: number = DEADLINE_MS,
): Promise<T> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const found = await condition();
    if (found !== undefined && found !== false) return found;
    assert.ok(performance.now() < deadline, `waited ${deadlineMs} ms in vain for ${what}`);
    await pollInterval();
  }
}

/** The pause between two looks of something that polls. */
export function pollInterval(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, POLL_MS));
}

/** Random numbers that repeat with their seed, so that a failing run can be looked at again. Gives 0 … below − 1. */
export function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
