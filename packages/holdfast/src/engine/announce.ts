import { EXPIRED_ERROR, isLeased, STALE_ERROR } from "../state.js";
import type { LaidDown, Outcome, SettleAnswer } from "../store.js";
import type { ErrorEvent, JobEvent } from "./events.js";
import { leaseEvent, type Core, type HeldLease } from "./core.js";

// The error alone reads as if the handler had taken too long.
const VANISHED = `${STALE_ERROR.message}: the worker of its last attempt vanished`;

/** Tells listeners that a job was claimed, and the log too if that took it from a lease that ran out. */
export function announceClaim({ events, logger }: Core, lease: HeldLease): void {
  const { id, type, queue, attempt, previous } = lease.job;
  if (events.hears("claimed")) events.emit("claimed", leaseEvent(lease));
  if (!isLeased(previous.state)) return;
  events.emit("recovered", { id, type, queue, to: "claimed" });
  logger.warn({ job: id, type, attempt }, VANISHED);
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
      logger.warn(
        {
          job: lease.job.id,
          type: lease.job.type,
          attempt: lease.job.attempt,
          of: lease.job.maxAttempts,
          retryInMs: outcome.delayMs,
          error: errorOf(outcome).message,
        },
        "an attempt failed",
      );
      events.emit("failed", { ...leaseEvent(lease), error: errorOf(outcome), retryInMs: outcome.delayMs });
      return;
    case "dead":
      announceDeath(core, { ...lease.job, attempt: outcome.attempt }, errorOf(outcome));
      return;
    case "cancelled":
      events.emit("cancelled", jobEvent(lease.job));
      return;
    case "pending":
      events.emit("released", leaseEvent(lease));
  }
}

/** Tells what maintenance laid down: a lease that ran out, or a waiting job past its expiry. */
export function announceLaidDown(core: Core, job: LaidDown, error: ErrorEvent): void {
  const { events, logger } = core;
  if (error.code === STALE_ERROR.code) {
    events.emit("recovered", { ...jobEvent(job), to: job.to });
    logger.warn({ job: job.id, type: job.type, to: job.to }, VANISHED);
  }
  if (job.to === "dead") announceDeath(core, job, error);
  if (job.to === "cancelled") events.emit("cancelled", jobEvent(job));
}

function announceDeath({ events, logger }: Core, job: JobEvent & { attempt: number }, error: ErrorEvent): void {
  const expired = error.code === EXPIRED_ERROR.code;
  if (expired) events.emit("expired", jobEvent(job));
  events.emit("dead", { ...jobEvent(job), attempt: job.attempt, error });
  const fields = { job: job.id, type: job.type, attempt: job.attempt, error: error.message };
  // To expire is what such a job was asked to do; thousands at once are no alarm.
  if (expired) logger.info(fields, "job expired");
  else logger.error(fields, "job is dead");
}

function jobEvent({ id, type, queue }: JobEvent): JobEvent {
  return { id, type, queue };
}

function errorOf(outcome: Outcome): { message: string; code: string | null } {
  return outcome.error ?? { message: "unknown", code: null };
}
