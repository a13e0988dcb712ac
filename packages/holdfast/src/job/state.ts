export type State = "pending" | "claimed" | "running" | "failed" | FinishedState;
export type FinishedState = "completed" | "dead" | "cancelled";
/** `waiting` states may be claimed when due, `leased` ones when their lease has run out, `finished` ones never. */
export type StateKind = "waiting" | "leased" | "finished";

/** The states of a job, as data: code, documentation and dashboard read this one table. */
export const STATES: Readonly<Record<State, { kind: StateKind; meaning: string }>> = {
  pending: { kind: "waiting", meaning: "waits for its time or its turn" },
  claimed: { kind: "leased", meaning: "leased to a worker, handler not begun" },
  running: { kind: "leased", meaning: "handler under way" },
  failed: { kind: "waiting", meaning: "last attempt failed, waits for its retry" },
  completed: { kind: "finished", meaning: "done, output kept" },
  dead: { kind: "finished", meaning: "gave up: attempts used, told not to retry, expired, or no handler" },
  cancelled: { kind: "finished", meaning: "stopped on request" },
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

/** Where each state may go. A lost lease is `claimed|running → claimed`, by another worker. */
export const TRANSITIONS: Readonly<Record<State, readonly State[]>> = {
  pending: ["claimed", "cancelled", "dead"],
  failed: ["claimed", "cancelled", "dead", "pending"],
  claimed: ["running", "completed", "failed", "dead", "cancelled", "pending", "claimed"],
  running: ["completed", "failed", "dead", "cancelled", "pending", "claimed"],
  completed: [],
  dead: ["pending"],
  cancelled: ["pending"],
};

/** What a claim makes of a job's counters. */
export interface ClaimCount {
  attempt: number;
  losses: number;
  /** The lease before this one ran out without an outcome. */
  lost: boolean;
  /** No attempt was left: the job must be laid down, not run. */
  exhausted: boolean;
}

/**
 * Attempts count at claim, so that a crash uses one. A lease lost while still `claimed` gives its attempt back, once:
 * the handler never began, as far as anyone knows. The count never exceeds the maximum.
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

/** The attempts a job has truly used once its present lease, if any, is given up for lost. */
export function attemptsUsed(job: { state: State; attempt: number; losses: number }): number {
  return job.state === "claimed" && job.losses === 0 ? Math.max(0, job.attempt - 1) : job.attempt;
}

/** What to answer to an outcome of a lease that is over: settled by this very call before its answer got lost, or not. */
export function settledBefore(
  to: "completed" | "failed" | "dead" | "cancelled" | "pending",
  state: State,
): "applied" | "cancelled" | "lost" {
  if (state === to) return "applied";
  // A completion is never turned into a cancellation: someone else laid the lease down.
  return state === "cancelled" && to !== "completed" ? "cancelled" : "lost";
}

/** The error a job carries after a lease ran out without an outcome. */
export const STALE_ERROR = {
  code: "STALE_CLAIM",
  message: "Job timed out (stale claim)",
} as const;
/** The error of a job laid down because its time to live had passed. */
export const EXPIRED_ERROR = {
  code: "EXPIRED",
  message: "Job expired before it could run",
} as const;
