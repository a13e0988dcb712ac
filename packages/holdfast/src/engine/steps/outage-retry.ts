import type { Clock } from "../../clock.js";
import { isOutage } from "../../errors.js";
import type { Emitter } from "../events/events.js";

const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 1_000;

/**
 * Repeats a call about a lease during an outage of the store, until the lease expires. Then it throws what the store threw last.
 * `lease.deadline` is monotonic time, and moves when the lease is extended.
 */
export async function retryDuringOutage<Result>(
  { clock, events }: { clock: Clock; events: Emitter },
  doing: string,
  lease: { readonly deadline: number },
  call: () => Promise<Result>,
): Promise<Result> {
  let failed = false;
  for (let retryMs = FIRST_RETRY_MS; ; retryMs = Math.min(retryMs * 2, MAX_RETRY_MS)) {
    try {
      const result = await call();
      if (failed) events.emit("outageEnded", { doing });
      return result;
    } catch (error) {
      if (!isOutage(error) || clock.monotonic() + retryMs >= lease.deadline) throw error;
      if (!failed) events.emit("outage", { doing, error });
      failed = true;
      await new Promise<void>((resolve) => void clock.after(retryMs, resolve));
    }
  }
}
