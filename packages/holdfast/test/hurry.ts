import { onTestFinished } from "vitest";

const TIMES = 10;

/**
 * Runs `work` while monotonic time passes ten times as fast: for what is refused only after seconds. Afterwards time passes as
 * usual, and does not go back before the test ends.
 */
export async function hurry<Result>(work: () => Promise<Result>): Promise<Result> {
  const usual = performance.now.bind(performance);
  const start = usual();
  let end = Number.POSITIVE_INFINITY;
  performance.now = () => usual() + (TIMES - 1) * (Math.min(usual(), end) - start);
  onTestFinished(() => void (performance.now = usual));
  try {
    return await work();
  } finally {
    end = usual();
  }
}
