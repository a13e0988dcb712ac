import type { Holdfast } from "holdfast";

// A worker retries forever; a bench should not.
const STALL_MS = 30_000;
const LOOK_MS = 1_000;

/** Rejects if a trial makes no progress for half a minute. The error has the last failure of the store, if any. */
export function stuck(hf: Holdfast, moved: () => number): { failure: Promise<never>; stop(): void } {
  let reason: unknown;
  hf.on("outage", ({ doing, error }) => {
    reason = new Error(`${doing} fails`, { cause: error });
  });
  let last = -1;
  let lastAt = performance.now();
  let timer: NodeJS.Timeout | undefined;
  const failure = new Promise<never>((_, reject) => {
    timer = setInterval(() => {
      if (moved() !== last) {
        last = moved();
        lastAt = performance.now();
      } else if (performance.now() - lastAt > STALL_MS) {
        reject(new Error(`no progress for ${STALL_MS / 1_000} s`, { cause: reason }));
      }
    }, LOOK_MS);
  });
  failure.catch(() => {});
  return { failure, stop: () => clearInterval(timer) };
}
