/** A change of many jobs that a server of the admin API makes in the background. Ended ones have another state than `running`. */
export type OperationState = "running" | "done" | "stopped" | "failed";
export const OPERATION_STATES: readonly OperationState[] = ["running", "done", "stopped", "failed"];

/** A new operation. */
export interface OperationRecord {
  /** A UUIDv7. */
  id: string;
  startedAt: number;
  /** JSON: what callers see, with the progress. At most `LIMITS.operationSummaryBytes`. */
  summary: string;
  /** JSON: what to do. At most `LIMITS.operationPlanBytes`. Read only by the process that runs the operation. */
  plan: string;
}

/**
 * The right to run an operation, for a limited time. `owner` is a new random string for each lease, so that a process cannot write
 * under a lease that another one has taken over.
 */
export interface OperationLease {
  owner: string;
  leaseMs: number;
}

/** An operation without its plan. */
export interface StoredOperation extends Omit<OperationRecord, "plan"> {
  state: OperationState;
  /** Null while it runs. */
  endedAt: number | null;
  stopRequested: boolean;
  owner: string;
  /** Until when its owner runs it; null if it has ended. */
  leaseUntil: number | null;
  /** It runs, but its lease has expired: any process may claim it. */
  abandoned: boolean;
}
export interface ClaimedOperation extends StoredOperation {
  plan: string;
}

/** Progress of an operation. A lease of 0 ms releases it for other processes. */
export interface OperationProgress extends OperationLease {
  id: string;
  summary: string;
}
/** `stop`: written, and a stop was requested. `lost`: another process has claimed the operation, or it has ended; nothing was written. */
export type SaveOperationResult = "kept" | "stop" | "lost";

export interface OperationEnd {
  id: string;
  owner: string;
  state: Exclude<OperationState, "running">;
  summary: string;
}
