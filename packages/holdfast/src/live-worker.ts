import { DEFAULTS } from "./defaults.js";

/** The fields of a worker's record that show whether it is live. */
export interface Liveness {
  left: boolean;
  /** The time of its last heartbeat. */
  seenAt: number | string | Date;
}

/**
 * Whether a worker is live: it has not stopped, and its last heartbeat is less than 60 s old. A killed worker does not deregister,
 * so heartbeats decide. This is what `hf.workers()`, metrics and warnings show. Decisions that a short silence must not trigger
 * wait for 10 minutes instead: see `LeaseKeeper.hasRecentHandler` and `Scheduler.#reportUndefined`.
 */
export function isLive({ left, seenAt }: Liveness, now: number): boolean {
  return !left && new Date(seenAt).getTime() >= now - DEFAULTS.silentWorkerMs;
}
