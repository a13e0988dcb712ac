import { isLeased } from "../../job/state.js";
import type { Claim, Outcome } from "../../store.js";
import { newHeldLease, type EngineContext, type HeldLease } from "../context.js";
import { publishClaim } from "../events/publish.js";
import { rejectUnrun } from "./decide-outcome.js";

/** How a claim was made. */
interface ClaimCall {
  worker: string;
  /** Monotonic time before the call. */
  sentAt: number;
  leaseMs: number;
}

interface ClaimHandlers {
  /** Continues a handler that already runs this job here, under the new lease. False if none does. */
  continueUnderNewLease?(lease: HeldLease): boolean;
  /** Settles a job that must not run: it is cancelled, expired, or has no attempt left. */
  reject(lease: HeldLease, outcome: Outcome): void;
}

/**
 * What happens to every claimed job, whether a worker or `hf.claim` claimed it: its lease is held, the claim is published, and
 * a job that must not run is rejected. Returns the leases of the jobs to run.
 */
export function acceptClaim(
  engine: EngineContext,
  claim: Claim,
  { worker, sentAt, leaseMs }: ClaimCall,
  handlers: ClaimHandlers,
): HeldLease[] {
  const accepted: HeldLease[] = [];
  const times = { at: claim.at, sentAt, leaseMs };
  for (const job of claim.jobs) {
    const lease = newHeldLease(job, worker, times);
    // After the wall clock jumped forward, a process can claim a job that it is still running. It must not run twice.
    if (isLeased(job.previous.state) && handlers.continueUnderNewLease?.(lease) === true) continue;
    publishClaim(engine, lease);
    const outcome = rejectUnrun(lease, claim.at);
    if (outcome === null) accepted.push(lease);
    else handlers.reject(lease, outcome);
  }
  return accepted;
}
