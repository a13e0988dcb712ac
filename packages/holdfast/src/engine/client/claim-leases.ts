import { LIMITS } from "../../defaults.js";
import type { Duration } from "../../duration.js";
import type { JobType } from "../../job/job.js";
import { optionKeys, readCount, refuseUnknown } from "../../options.js";
import type { EngineContext } from "../context.js";
import { acceptClaim } from "../worker/accept-claim.js";
import { newLease, type Lease } from "../worker/claimed-lease.js";
import { settleAndWait } from "../worker/settle-outcome.js";
import { readWorkOptions } from "../worker/work-options.js";

/** What `hf.claim` takes. */
export interface ClaimOptions {
  queues?: readonly string[];
  types?: readonly (string | JobType)[];
  /** At most this many jobs, 1 to 500. Default 1. */
  limit?: number;
  lease?: Duration;
}

const CLAIM_KEYS: ReadonlySet<string> = optionKeys<ClaimOptions>({
  queues: true,
  types: true,
  limit: true,
  lease: true,
});

/** `hf.claim`. Claims again if every job of a claim was one that must not run. */
export async function claimLeases(engine: EngineContext, options: ClaimOptions): Promise<Lease[]> {
  refuseUnknown(options, CLAIM_KEYS, "claim");
  const { limit: given = 1, ...others } = options;
  const limit = readCount(given, "limit", 1, LIMITS.batchJobs);
  const { queues, types, leaseMs } = readWorkOptions(others);
  const worker = `claim:${process.pid}`;
  for (;;) {
    const sentAt = engine.clock.monotonic();
    const claim = await engine.store.claim({ queues, types, limit, bytes: LIMITS.batchBytes, worker, leaseMs });
    const settling: Promise<unknown>[] = [];
    const leases = acceptClaim(
      engine,
      claim,
      { worker, sentAt, leaseMs },
      {
        reject: (lease, outcome) => void settling.push(settleAndWait(engine, lease, outcome)),
      },
    );
    await Promise.all(settling);
    if (leases.length > 0 || claim.jobs.length === 0) return leases.map((lease) => newLease(engine, lease, leaseMs));
  }
}
