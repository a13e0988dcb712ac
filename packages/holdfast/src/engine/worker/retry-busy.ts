import type { LeaseResult } from "../../store.js";
import type { EngineContext, HeldLease } from "../context.js";

const BUSY_MS = 50;

/** Asks until nobody else has the job's row locked, or the lease is over. */
export async function unlocked(
  { clock }: EngineContext,
  lease: HeldLease,
  ask: () => Promise<LeaseResult[]>,
): Promise<Exclude<LeaseResult, "busy">> {
  for (;;) {
    const [answer = "lost"] = await ask();
    if (answer !== "busy") return answer;
    if (clock.monotonic() >= lease.deadline) return "lost";
    await new Promise<void>((resolve) => void clock.after(BUSY_MS, resolve));
  }
}
