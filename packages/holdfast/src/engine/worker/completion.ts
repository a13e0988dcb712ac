import { InvalidOptionError, LeaseLostError } from "../../errors.js";
import { encodeOutput } from "../../job/job.js";
import type { Note, Outcome, SettleResult } from "../../store.js";
import type { EngineContext, HeldLease } from "../context.js";
import { completed } from "./decide-outcome.js";
import { setPurgeTime } from "./settle-outcome.js";

/**
 * Completes a job inside the caller's transaction. Synchronous where the store is: with a synchronous driver the transaction
 * ends when the caller's function returns.
 */
export function completeInTransaction(
  engine: EngineContext,
  lease: HeldLease,
  tx: unknown,
  output: unknown,
  note: Note | null = null,
): Outcome | Promise<Outcome> {
  const { store, settler } = engine;
  if (!store.capabilities.transactions) {
    throw new InvalidOptionError("tx", "is not supported by this store; return the output from the handler instead");
  }
  const outcome = completed(lease, encodeOutput(lease.job.type, output));
  setPurgeTime(engine, lease, outcome);
  const check = (result: SettleResult): Outcome => {
    if (result !== "applied") throw new LeaseLostError(lease.job.id);
    return outcome;
  };
  const result = settler.settleIn(tx, outcome, note);
  return result instanceof Promise ? result.then(check) : check(result);
}

/** Whether the transaction that completed the job has committed. False if the store cannot be read. */
export async function isCommitted({ store }: EngineContext, { job: { id, fence } }: HeldLease): Promise<boolean> {
  try {
    const found = await store.get(id);
    // With a retention of 0, a completed job is deleted when it completes.
    return found === null || (found.fence === fence && found.state === "completed");
  } catch {
    return false;
  }
}
