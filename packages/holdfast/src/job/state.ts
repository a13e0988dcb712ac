export type State = "pending" | "claimed" | "running" | "failed" | FinishedState;
export type FinishedState = "completed" | "dead" | "cancelled";
/** `waiting` jobs may be claimed when due, `leased` jobs when their lease has expired, `finished` jobs never. */
export type StateKind = "waiting" | "leased" | "finished";

/** The states of a job. Code, documentation and dashboard use this table. */
export const STATES: Readonly<Record<State, { kind: StateKind; meaning: string }>> = {
  pending: { kind: "waiting", meaning: "waiting to be claimed" },
  claimed: { kind: "leased", meaning: "leased to a worker, handler not started" },
  running: { kind: "leased", meaning: "handler running" },
  failed: { kind: "waiting", meaning: "last attempt failed, waiting for the retry" },
  completed: { kind: "finished", meaning: "done, output stored" },
  dead: {
    kind: "finished",
    meaning: "failed for good: no attempts left, not retryable, invalid, expired, or no handler",
  },
  cancelled: { kind: "finished", meaning: "stopped on request, or by its handler" },
};

export const STATE_NAMES: readonly State[] = Object.keys(STATES) as State[];

export function isState(value: unknown): value is State {
  return typeof value === "string" && Object.hasOwn(STATES, value);
}
export function isWaiting(state: State): boolean {
  return STATES[state].kind === "waiting";
}
export function isLeased(state: State): boolean {
  return STATES[state].kind === "leased";
}
export function isFinished(state: State): state is FinishedState {
  return STATES[state].kind === "finished";
}

/** The allowed transitions. `claimed|running → claimed` is a claim by another worker after the lease expired. */
export const TRANSITIONS: Readonly<Record<State, readonly State[]>> = {
  pending: ["claimed", "cancelled", "dead"],
  failed: ["claimed", "cancelled", "dead", "pending"],
  claimed: ["running", "completed", "failed", "dead", "cancelled", "pending", "claimed"],
  running: ["completed", "failed", "dead", "cancelled", "pending", "claimed"],
  completed: [],
  dead: ["pending"],
  cancelled: ["pending"],
};

/** A job's counters after a claim. */
export interface ClaimCount {
  attempt: number;
  losses: number;
  /** The previous lease expired without an outcome. */
  lost: boolean;
  /** No attempt was left: the job must be dead-lettered without running. */
  exhausted: boolean;
}

/**
 * Counts an attempt at claim, so that a crash uses one. Exception: the first time that a lease of the job expires, the attempt is
 * not counted if the job is still `claimed`, because its handler probably never started. The count never exceeds `maxAttempts`.
 */
export function countClaim(before: { state: State; attempt: number; maxAttempts: number; losses: number }): ClaimCount {
  const lost = isLeased(before.state);
  const used = attemptsUsed(before);
  return {
    attempt: Math.min(used + 1, before.maxAttempts),
    losses: before.losses + (lost ? 1 : 0),
    lost,
    exhausted: used >= before.maxAttempts,
  };
}

/** The attempts used by a job whose current lease, if any, has expired. */
export function attemptsUsed(job: { state: State; attempt: number; losses: number }): number {
  return job.state === "claimed" && job.losses === 0 ? Math.max(0, job.attempt - 1) : job.attempt;
}

/**
 * The result of settling a lease that has already ended. If the job has the state that the outcome would give it, an earlier try of
 * the same call probably succeeded and only its response was lost.
 */
export function settledBefore(
  to: "completed" | "failed" | "dead" | "cancelled" | "pending",
  state: State,
): "applied" | "cancelled" | "lost" {
  if (state === to) return "applied";
  // A cancellation never overrides a completion, so another call must have ended the lease.
  return state === "cancelled" && to !== "completed" ? "cancelled" : "lost";
}

/**
 * The error of a job whose lease expired without an outcome: its worker crashed or lost the store. Not a handler timeout, which
 * is `JobTimeoutError`. Do not change the message: the product requirements specify it.
 */
export const STALE_ERROR = {
  code: "STALE_CLAIM",
  message: "Job timed out (stale claim)",
} as const;
/** The error of a job that was dead-lettered because it did not start before `expiresAt`. */
export const EXPIRED_ERROR = {
  code: "EXPIRED",
  message: "Job expired before it could run",
} as const;
