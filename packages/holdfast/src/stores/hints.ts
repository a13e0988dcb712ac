import type {
  CancelResult,
  FireResult,
  Firing,
  Hint,
  InsertResult,
  JobUpdate,
  NewJob,
  Outcome,
  PutResult,
  ReapedJob,
  RetryResult,
  UpdateResult,
} from "../store.js";

/** Jobs may be due now: a queue was resumed, or jobs were imported. */
export const WORK_NOW: Hint = { kind: "work", inMs: 0 };

const NO_HINTS: readonly Hint[] = [];
const FINISHED: readonly Hint[] = [{ kind: "finished" }];
const SCHEDULES: readonly Hint[] = [{ kind: "schedules" }];

/** Wake-up hints of `insert` and `insertIn`: when the first of the jobs becomes due. */
export function insertHints(
  jobs: readonly NewJob[],
  results: readonly (InsertResult | "busy")[],
  now: number,
): readonly Hint[] {
  let inMs = Number.POSITIVE_INFINITY;
  for (let at = 0; at < jobs.length; at++) {
    const result = results[at];
    if (result === "busy" || result?.status === "refused") continue;
    inMs = Math.min(inMs, dueInMs(jobs[at] as NewJob, now));
  }
  return workIn(inMs);
}

/** Wake-up hints of `fire`: when the first job of a fired slot becomes due. */
export function fireHints(firings: readonly Firing[], results: readonly FireResult[], now: number): readonly Hint[] {
  let inMs = Number.POSITIVE_INFINITY;
  for (const [at, { slots }] of firings.entries()) {
    if (results[at]?.status !== "fired") continue;
    for (const { job } of slots) if (job !== null) inMs = Math.min(inMs, dueInMs(job, now));
  }
  return workIn(inMs);
}

/** Wake-up hints of `settle`: some jobs are due again later, others have finished. */
export function settleHints(outcomes: readonly Pick<Outcome, "to" | "delayMs">[]): readonly Hint[] {
  let inMs = Number.POSITIVE_INFINITY;
  let finished = NO_HINTS;
  for (const { to, delayMs } of outcomes) {
    if (to === "pending" || to === "failed") inMs = Math.min(inMs, delayMs);
    else finished = FINISHED;
  }
  return inMs === Number.POSITIVE_INFINITY ? finished : [...workIn(inMs), ...finished];
}

/** Wake-up hints of `reapExpiredLeases` and `expireOverdue`. */
export function reapHints(jobs: readonly ReapedJob[]): readonly Hint[] {
  const hints: Hint[] = [];
  if (jobs.some(({ to }) => to === "pending")) hints.push(WORK_NOW);
  if (jobs.some(({ to }) => to !== "pending")) hints.push(...FINISHED);
  return hints;
}

/** Wake-up hints of `cancel`: running jobs are asked to stop, waiting ones have finished. */
export function cancelHints(ids: readonly string[], results: readonly CancelResult[]): readonly Hint[] {
  const requested = ids.filter((_, at) => results[at] === "requested");
  const hints: Hint[] = requested.length === 0 ? [] : [{ kind: "cancel", ids: requested }];
  if (results.includes("cancelled")) hints.push(...FINISHED);
  return hints;
}

/** Wake-up hints of `retry`. */
export function retryHints(results: readonly RetryResult[]): readonly Hint[] {
  return results.includes("retried") ? [WORK_NOW] : NO_HINTS;
}

/** Wake-up hints of `update`: a job may be due earlier, or in another queue. */
export function updateHints(
  updates: readonly JobUpdate[],
  results: readonly UpdateResult[],
  now: number,
): readonly Hint[] {
  let inMs = Number.POSITIVE_INFINITY;
  for (const [at, { due, queue, priority }] of updates.entries()) {
    if (results[at]?.status !== "updated") continue;
    if (due !== undefined) inMs = Math.min(inMs, dueInMs(due, now));
    else if (queue !== undefined || priority !== undefined) inMs = 0;
  }
  return workIn(inMs);
}

/** Wake-up hints of `putSchedule` and `removeSchedule`. */
export function scheduleHints(result: PutResult | boolean): readonly Hint[] {
  return result === "put" || result === true ? SCHEDULES : NO_HINTS;
}

/** The hints of several calls as one list, with at most one hint per kind. */
export function mergeHints(hints: Iterable<Hint>): Hint[] {
  let inMs = Number.POSITIVE_INFINITY;
  let finished = false;
  let schedules = false;
  const cancelled: string[] = [];
  for (const hint of hints) {
    if (hint.kind === "work") inMs = Math.min(inMs, hint.inMs);
    else if (hint.kind === "finished") finished = true;
    else if (hint.kind === "schedules") schedules = true;
    else for (const id of hint.ids) cancelled.push(id);
  }
  const merged: Hint[] = [...workIn(inMs)];
  if (finished) merged.push(...FINISHED);
  if (schedules) merged.push(...SCHEDULES);
  if (cancelled.length > 0) merged.push({ kind: "cancel", ids: cancelled });
  return merged;
}

function dueInMs({ delayMs, runAt }: Pick<NewJob, "delayMs" | "runAt">, now: number): number {
  return Math.max(0, delayMs + (runAt === null ? 0 : runAt - now));
}

function workIn(inMs: number): readonly Hint[] {
  return inMs === Number.POSITIVE_INFINITY ? NO_HINTS : [{ kind: "work", inMs: Math.max(0, inMs) }];
}
