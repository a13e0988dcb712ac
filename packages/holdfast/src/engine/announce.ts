import { isLeased, STALE_ERROR } from "../state.js";
import { EXPIRED_ERROR } from "../state.js";
import type { Outcome, SettleAnswer } from "../store.js";
import { leaseEvent, type Core, type HeldLease } from "./core.js";

/** Tells listeners that a job was claimed, and the log too if that took it from a lease that ran out. */
export function announceClaim({ events, logger }: Core, lease: HeldLease): void {
  const { id, type, queue, attempt, previous } = lease.job;
  if (events.hears("claimed")) events.emit("claimed", leaseEvent(lease));
  if (!isLeased(previous.state)) return;
  events.emit("recovered", { id, type, queue, to: "claimed" });
  logger.warn({ job: id, type, attempt }, STALE_ERROR.message);
}

/** Tells listeners and log what the store has confirmed of a lease's outcome. */
export function announce(core: Core, lease: HeldLease, outcome: Outcome, answer: SettleAnswer): void {
  const { events, logger } = core;
  if (answer === "lost") {
    events.emit("lost", leaseEvent(lease));
    logger.warn({ job: lease.job.id, type: lease.job.type }, "the lease ran out before the outcome was recorded");
    return;
  }
  const to = answer === "cancelled" ? "cancelled" : outcome.to;
  switch (to) {
    case "completed":
      if (events.hears("completed")) {
        const durationMs = core.clock.now() - (lease.startedAt ?? lease.claimedAt);
        events.emit("completed", { ...leaseEvent(lease), output: JSON.parse(outcome.output ?? "{}"), durationMs });
      }
      return;
    case "failed":
      events.emit("failed", { ...leaseEvent(lease), error: errorOf(outcome), retryInMs: outcome.delayMs });
      return;
    case "dead":
      if (outcome.error?.code === EXPIRED_ERROR.code) {
        events.emit("expired", { id: lease.job.id, type: lease.job.type, queue: lease.job.queue });
      }
      events.emit("dead", { ...leaseEvent(lease), error: errorOf(outcome) });
      logger.error(
        { job: lease.job.id, type: lease.job.type, attempt: outcome.attempt, error: errorOf(outcome).message },
        "job is dead",
      );
      return;
    case "cancelled":
      events.emit("cancelled", { id: lease.job.id, type: lease.job.type, queue: lease.job.queue });
      return;
    case "pending":
      events.emit("released", leaseEvent(lease));
  }
}

function errorOf(outcome: Outcome): { message: string; code: string | null } {
  return outcome.error ?? { message: "unknown", code: null };
}
