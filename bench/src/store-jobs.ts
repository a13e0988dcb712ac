import type { ClaimedJob, ClaimRequest, NewJob, Outcome } from "holdfast/store";
import { NOOP, orderedId, payload } from "./jobs.js";

/** Arguments of direct store calls, as the engine would pass them for no-op jobs. */

const INPUT = JSON.stringify(payload());
const CLAIM_BYTES = 1_048_576;
const LEASE_MS = 600_000;

export function newJob(queue: string = "default"): NewJob {
  return {
    id: orderedId(Date.now()),
    type: NOOP,
    queue,
    priority: 0,
    user: null,
    input: INPUT,
    maxAttempts: 4,
    runAt: null,
    delayMs: 0,
    expiresAt: null,
    tags: [],
    unique: null,
    schedule: null,
    parent: null,
    settings: null,
    trace: null,
  };
}

export function claimOf(limit: number): ClaimRequest {
  return { queues: null, types: null, limit, bytes: CLAIM_BYTES, worker: "bench", leaseMs: LEASE_MS };
}

export function completed({ id, fence, attempt, releases }: ClaimedJob): Outcome {
  return {
    id,
    fence,
    to: "completed",
    output: "null",
    delayMs: 0,
    attempt,
    releases,
    error: null,
    startedAt: Date.now(),
    attemptRecord: null,
    keep: true,
    keepMs: null,
    purgeMs: null,
  };
}
