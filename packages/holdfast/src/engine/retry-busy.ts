import type { Clock } from "../clock.js";
import type { LeaseResult } from "../store.js";
import type { EngineContext, HeldLease } from "./context.js";

/**
 * A store returns "busy" where another open transaction holds a row, a unique key or a queue that the call needs. It does not
 * wait for that transaction: one job's lock must not delay a batch. The engine retries instead, at these intervals.
 */
export const BUSY = {
  /** Pause before the call is repeated. */
  retryMs: 50,
  /** How long `enqueue` retries before it throws `StoreUnavailableError`. */
  enqueueWaitMs: 2_000,
  /** How long a change or a run of one schedule retries before it throws `StoreUnavailableError`. */
  scheduleWaitMs: 2_000,
  /** Pause before leases are extended again; shorter for leases below 10 s. */
  extendRetryMs: 1_000,
} as const;

export function busyPause(clock: Clock): Promise<void> {
  return new Promise((resolve) => void clock.after(BUSY.retryMs, resolve));
}

/** Repeats a call while the store returns "busy". Returns "busy" once `limit.deadline` (monotonic time, may move) has passed. */
export async function retryWhileBusy<Result>(
  clock: Clock,
  limit: { readonly deadline: number },
  call: () => Promise<Result | "busy">,
): Promise<Result | "busy"> {
  for (;;) {
    const result = await call();
    if (result !== "busy" || clock.monotonic() >= limit.deadline) return result;
    await busyPause(clock);
  }
}

/** Repeats a call about one lease until the row is free. "lost" if the lease expires first. */
export async function retryUntilExpired(
  { clock }: EngineContext,
  lease: HeldLease,
  call: () => Promise<LeaseResult[]>,
): Promise<Exclude<LeaseResult, "busy">> {
  const result = await retryWhileBusy(clock, lease, async () => (await call())[0] ?? "lost");
  return result === "busy" ? "lost" : result;
}
