import type { Outcome } from "../../store.js";
import type { EngineContext, HeldLease } from "../context.js";
import { publishOutcome } from "../events/publish.js";
import type { SettlerResult } from "./settler.js";

/** Called if the store refuses an outcome. One function for all outcomes: a closure per job would cost time. */
export type OnRefused = (lease: HeldLease, outcome: Outcome, error: Error) => void;

/** Sets the retention for the outcome's state: the job type's or, if this process knows none, the one set at the enqueue. */
export function setPurgeTime({ types }: EngineContext, { job }: HeldLease, outcome: Outcome): void {
  const state = outcome.to;
  if (state === "pending" || state === "failed") return;
  outcome.purgeMs = types.get(job.type)?.retentionMs?.[state] ?? job.settings?.keepMs?.[state] ?? null;
}

/** Settles an outcome in the background, and publishes it once the store has confirmed it. */
export function settleInBackground(
  engine: EngineContext,
  lease: HeldLease,
  outcome: Outcome,
  onRefused: OnRefused,
): void {
  setPurgeTime(engine, lease, outcome);
  engine.settler.add(outcome, lease.deadline, (result) => {
    if (result instanceof Error) onRefused(lease, outcome, result);
    else publishOutcome(engine, lease, outcome, result);
  });
}

/** The same, and waits for the result. Throws the error of a store that refuses the outcome. */
export async function settleAndWait(engine: EngineContext, lease: HeldLease, outcome: Outcome): Promise<SettlerResult> {
  setPurgeTime(engine, lease, outcome);
  const result = await engine.settler.settle(outcome, lease.deadline);
  publishOutcome(engine, lease, outcome, result);
  return result;
}
