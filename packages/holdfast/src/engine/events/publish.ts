import { dateOrNull } from "../../duration.js";
import type { AbortReason } from "../../errors.js";
import { EXPIRED_ERROR, isLeased, STALE_ERROR } from "../../job/state.js";
import type { ReapedJob, Outcome } from "../../store.js";
import type { ErrorEvent, JobEvent } from "./events.js";
import { leaseEvent, queueWaitMs, type EngineContext, type HeldLease } from "../context.js";
import { NO_HANDLER } from "../worker/decide-outcome.js";
import type { SettlerResult } from "../worker/settler.js";
import { errorWithoutStack } from "./reports.js";

/**
 * Publishes what the store has confirmed: to event listeners, the log, telemetry and the error reporter.
 */

// The message of the error alone reads as if the handler had taken too long.
const LEASE_EXPIRED_WARNING = `${STALE_ERROR.message}: its lease expired, because its worker crashed or could not reach the store`;
const OUTCOME_LATE = "the lease expired before the outcome was recorded";
const OUTCOME_DROPPED =
  "too many outcomes wait for the store, so this one was dropped; the job runs again when its lease expires";
const STUCK = "a handler ignored its abort signal and was abandoned; it may still be running";

/** A job was claimed. Logged only if its previous lease had expired. */
export function publishClaim({ events, logger, errorGroups, history }: EngineContext, lease: HeldLease): void {
  const { id, type, queue, attempt, previous } = lease.job;
  if (events.hasListeners("claimed")) events.emit("claimed", leaseEvent(lease));
  if (!isLeased(previous.state)) return;
  errorGroups.recordStale(id);
  history.leaseExpired(lease.job);
  events.emit("recovered", { id, type, queue, to: "claimed" });
  logger.warn({ job: id, type, attempt }, LEASE_EXPIRED_WARNING);
}

/** The store has recorded that the handler started. */
export function publishStart({ events }: EngineContext, lease: HeldLease): void {
  if (events.hasListeners("started")) events.emit("started", { ...leaseEvent(lease), waitMs: queueWaitMs(lease) });
}

/** A lease expired while its handler was running, or its outcome was not recorded. */
export function publishLost({ events }: EngineContext, lease: HeldLease): void {
  lease.trace?.end("lost");
  events.emit("lost", leaseEvent(lease));
}

/** The store has settled a lease, or could not: the lease is lost, or the outcome was dropped. */
export function publishOutcome(engine: EngineContext, lease: HeldLease, outcome: Outcome, result: SettlerResult): void {
  const { events, logger } = engine;
  if (result === "lost" || result === "dropped") {
    publishLost(engine, lease);
    logger.warn({ job: lease.job.id, type: lease.job.type }, result === "lost" ? OUTCOME_LATE : OUTCOME_DROPPED);
    return;
  }
  const to = result === "cancelled" ? "cancelled" : outcome.to;
  switch (to) {
    case "completed":
      lease.trace?.end("completed");
      countEnd(engine, lease, "completed");
      if (events.hasListeners("completed")) {
        const text = outcome.output ?? "{}";
        const durationMs = engine.clock.now() - (lease.startedAt ?? lease.claimedAt);
        events.emit("completed", {
          ...leaseEvent(lease),
          // Parsed only when read: most listeners just count.
          get output(): unknown {
            return JSON.parse(text);
          },
          durationMs,
          waitMs: queueWaitMs(lease),
        });
      }
      return;
    case "failed":
      lease.trace?.end("failed", failureOf(lease, outcome), outcome.delayMs);
      countEnd(engine, lease, "failed");
      engine.errorGroups.record(lease, outcome);
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
      events.emit("failed", {
        ...leaseEvent(lease),
        error: errorOf(outcome),
        retryInMs: outcome.delayMs,
        durationMs: engine.clock.now() - (lease.startedAt ?? lease.claimedAt),
        waitMs: queueWaitMs(lease),
      });
      report(engine, lease, outcome, false);
      return;
    case "dead":
      lease.trace?.end("dead", failureOf(lease, outcome));
      countEnd(engine, lease, "dead");
      engine.errorGroups.record(lease, outcome);
      publishDead(engine, { ...lease.job, attempt: outcome.attempt }, errorOf(outcome), lease);
      report(engine, lease, outcome, true);
      return;
    case "cancelled":
      lease.trace?.end("cancelled");
      engine.history.cancelled(lease.job);
      events.emit("cancelled", jobEvent(lease.job));
      return;
    case "pending":
      lease.trace?.end("released");
      if (outcome.park === undefined) events.emit("released", leaseEvent(lease));
      else events.emit("parked", { ...leaseEvent(lease), until: dateOrNull(outcome.park.until) });
  }
}

/** Maintenance reaped a job's expired lease, or expired an overdue job. */
export function publishReaped(engine: EngineContext, job: ReapedJob, error: ErrorEvent): void {
  const { events, logger } = engine;
  if (error.code === STALE_ERROR.code) {
    engine.errorGroups.recordStale(job.id);
    engine.history.leaseExpired(job);
    events.emit("recovered", { ...jobEvent(job), to: job.to });
    logger.warn({ job: job.id, type: job.type, to: job.to }, LEASE_EXPIRED_WARNING);
  }
  if (job.to === "dead") {
    engine.history.ended(job, "dead", null, engine.clock.now());
    publishDead(engine, job, error, null);
    if (error.code !== EXPIRED_ERROR.code) reportReaped(engine, job, error);
  }
  if (job.to === "cancelled") {
    engine.history.cancelled(job);
    events.emit("cancelled", jobEvent(job));
  }
}

/** Counts an attempt for the history, with how long the job waited and ran. */
function countEnd({ history, clock }: EngineContext, lease: HeldLease, end: "completed" | "failed" | "dead"): void {
  const now = clock.now();
  const { startedAt } = lease;
  history.ended(
    lease.job,
    end,
    startedAt === null ? null : { waitMs: queueWaitMs(lease), runMs: now - startedAt },
    now,
  );
}

function publishDead(
  { events, logger, clock }: EngineContext,
  job: JobEvent & { attempt: number },
  error: ErrorEvent,
  lease: HeldLease | null,
): void {
  const expired = error.code === EXPIRED_ERROR.code;
  if (expired) events.emit("expired", jobEvent(job));
  const startedAt = lease?.startedAt ?? null;
  events.emit("dead", {
    ...jobEvent(job),
    attempt: job.attempt,
    error,
    durationMs: startedAt === null ? null : clock.now() - startedAt,
    waitMs: lease === null || startedAt === null ? null : queueWaitMs(lease),
  });
  const fields = { job: job.id, type: job.type, attempt: job.attempt, error: error.message };
  // The caller asked for the expiry, so it is not an error: thousands of expired jobs must not log thousands of errors.
  if (expired) logger.info(fields, "job expired");
  else logger.error(fields, "job is dead");
}

/** A handler ignored its abort signal for too long, and its capacity was freed. */
export function publishStuck(
  engine: EngineContext,
  lease: HeldLease,
  reason: AbortReason | null,
  outcome: Outcome | null,
): void {
  const { events, logger, reports } = engine;
  events.emit("stuck", leaseEvent(lease));
  logger.error({ job: lease.job.id, type: lease.job.type, reason: reason?.code }, STUCK);
  // The attempt fails for the same reason: it is not reported a second time.
  lease.reported = true;
  const error = errorWithoutStack({ message: STUCK, code: "HANDLER_STUCK" }, reason ?? undefined);
  reports?.report(lease.job, { kind: "stuck", error, final: outcome?.to === "dead", worker: lease.worker });
}

function report({ reports }: EngineContext, lease: HeldLease, outcome: Outcome, final: boolean): void {
  const { code } = errorOf(outcome);
  if (reports === null || lease.reported || code === EXPIRED_ERROR.code) return;
  const kindWithoutError = code === NO_HANDLER ? "no-handler" : "dead-lettered";
  const kind = lease.thrown === null ? kindWithoutError : "attempt";
  reports.report(lease.job, { kind, error: failureOf(lease, outcome), final, worker: lease.worker });
}

/** Maintenance only has the job's id and type; the report needs the whole record. */
function reportReaped({ reports, store }: EngineContext, { id }: ReapedJob, error: ErrorEvent): void {
  const failure = { kind: "dead-lettered", error: errorWithoutStack(error), final: true, worker: null } as const;
  reports?.reportStored(() => store.get(id), failure);
}

function failureOf(lease: HeldLease, outcome: Outcome): unknown {
  return lease.thrown === null ? errorWithoutStack(errorOf(outcome)) : lease.thrown.error;
}

function jobEvent({ id, type, queue }: JobEvent): JobEvent {
  return { id, type, queue };
}

function errorOf({ error }: Outcome): ErrorEvent {
  return error === null ? { message: "unknown", code: null } : { message: error.message, code: error.code };
}
