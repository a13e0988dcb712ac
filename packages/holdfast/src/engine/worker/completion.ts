import { InvalidOptionError, LeaseLostError } from "../../errors.js";
import { encodeOutput } from "../../job/job.js";
import type { Note, Outcome, SettleResult } from "../../store.js";
import type { EngineContext, HeldLease } from "../context.js";
import { completed } from "./outcome.js";

/**
 * Completes a lease inside the caller's own transaction. Synchronous where the store is: the caller's transaction may be
 * over by the next turn of the event loop.
 */
export function completedIn(
  engine: EngineContext,
  lease: HeldLease,
  tx: unknown,
  output: unknown,
  note: Note | null = null,
): Outcome | Promise<Outcome> {
  const { store, settler } = engine;
  if (!store.capabilities.transactions) {
    throw new InvalidOptionError("tx", "this store cannot complete a job inside a transaction");
  }
  const outcome = completed(lease, encodeOutput(lease.job.type, output));
  settler.retain(outcome);
  const check = (answer: SettleResult): Outcome => {
    if (answer !== "applied") throw new LeaseLostError(lease.job.id);
    return outcome;
  };
  const answer = store.settleIn(tx, outcome, note);
  return answer instanceof Promise ? answer.then(check) : check(answer);
}

/** Whether the transaction that completed the job has committed. What the store cannot tell now counts as no. */
export async function isCommitted({ store }: EngineContext, { job: { id, fence } }: HeldLease): Promise<boolean> {
  try {
    const found = await store.get(id);
    // A job that is not kept is gone once it is completed.
    return found === null || (found.fence === fence && found.state === "completed");
  } catch {
    return false;
  }
}
