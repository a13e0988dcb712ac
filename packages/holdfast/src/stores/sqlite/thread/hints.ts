import type {
  CancelResult,
  FireResult,
  Firing,
  Hint,
  InsertResult,
  ReapedJob,
  NewJob,
  RetryResult,
} from "../../../store.js";
import type { Columns } from "./columns.js";
import type { Answer, Call } from "./executor.js";
import { outcomesDue } from "../jobs/leases.js";

/** What the calls just carried out may mean to whoever listens on this handle. */
export function hintsOf(calls: readonly Call[], answers: readonly Answer[]): Hint[] {
  let workInMs = Number.POSITIVE_INFINITY;
  let finished = false;
  let schedules = false;
  const cancelled: string[] = [];
  const work = (inMs: number): void => {
    if (inMs < workInMs) workInMs = Math.max(0, inMs);
  };
  const workOf = (job: NewJob, now: number | null): void =>
    work(job.delayMs + (job.runAt === null ? 0 : job.runAt - (now ?? Date.now())));
  const laidDown = (jobs: readonly ReapedJob[]): void => {
    for (const { to } of jobs) {
      if (to === "pending") work(0);
      else finished = true;
    }
  };
  for (const [index, call] of calls.entries()) {
    const [, value, error] = answers[index] ?? [call.n, undefined, null];
    if (error !== undefined) continue;
    switch (call.op) {
      case "insert":
        for (const [at, job] of (call.args[0] as NewJob[]).entries()) {
          if ((value as InsertResult[])[at]?.status !== "refused") workOf(job, call.now);
        }
        break;
      case "fire":
        for (const [at, firing] of (call.args[0] as Firing[]).entries()) {
          if ((value as FireResult[])[at]?.status === "changed") continue;
          for (const { job } of firing.slots) if (job !== null) workOf(job, call.now);
        }
        break;
      case "putSchedule":
      case "removeSchedule":
        schedules ||= value === "put" || value === true;
        break;
      case "settle":
        for (const outcome of outcomesDue(call.args[0] as Columns)) {
          if (outcome.to === "pending" || outcome.to === "failed") work(outcome.delayMs);
          else finished = true;
        }
        break;
      case "retry":
        if ((value as RetryResult[]).includes("retried")) work(0);
        break;
      case "reapExpiredLeases":
        laidDown((value as { laidDown: ReapedJob[] }).laidDown);
        break;
      case "expireOverdue":
        laidDown(value as ReapedJob[]);
        break;
      case "cancel":
        for (const [at, answer] of (value as CancelResult[]).entries()) {
          if (answer === "requested") cancelled.push((call.args[0] as string[])[at] as string);
          else finished ||= answer === "cancelled";
        }
        break;
      case "setPaused":
        if (call.args[1] === false) work(0);
        break;
      default:
    }
  }
  const hints: Hint[] = [];
  if (workInMs < Number.POSITIVE_INFINITY) hints.push({ kind: "work", inMs: workInMs });
  if (finished) hints.push({ kind: "finished" });
  if (schedules) hints.push({ kind: "schedules" });
  if (cancelled.length > 0) hints.push({ kind: "cancel", ids: cancelled });
  return hints;
}
