import type {
  CancelResult,
  FireResult,
  Firing,
  Hint,
  InsertResult,
  JobUpdate,
  NewJob,
  PutResult,
  ReapedJob,
  RetryResult,
  StepWrite,
  UpdateResult,
} from "../../../store.js";
import {
  cancelHints,
  fireHints,
  insertHints,
  mergeHints,
  reapHints,
  retryHints,
  scheduleHints,
  settleHints,
  updateHints,
  WORK_NOW,
} from "../../hints.js";
import { outcomesForHints } from "../jobs/leases.js";
import type { Columns } from "./columns.js";
import type { Call, CallResult } from "./executor.js";

/** The wake-up hints of a batch of calls, for the listeners of this store. `woken`: they made parked jobs due. */
export function hintsOf(calls: readonly Call[], results: readonly CallResult[], woken: boolean): Hint[] {
  const hints: Hint[] = woken ? [WORK_NOW] : [];
  for (const [index, call] of calls.entries()) {
    const [, value, error] = results[index] ?? [call.n, undefined, null];
    if (error === undefined) hints.push(...hintsOfCall(call, value));
  }
  return hints.length < 2 ? hints : mergeHints(hints);
}

/** Child jobs that may have been inserted. A hint without need only causes a poll. */
function childHints(writes: readonly StepWrite[], now: number): readonly Hint[] {
  const children = writes.flatMap(({ child }) => (child === null ? [] : [child]));
  return children.length === 0 ? [] : insertHints(children, [], now);
}

function hintsOfCall({ op, args, now }: Call, value: unknown): readonly Hint[] {
  switch (op) {
    case "insert":
      return insertHints(args[0] as NewJob[], value as InsertResult[], now ?? Date.now());
    case "saveSteps":
      return childHints(args[0] as StepWrite[], now ?? Date.now());
    case "fire":
      return fireHints(args[0] as Firing[], value as FireResult[], now ?? Date.now());
    case "settle":
      return settleHints(outcomesForHints(args[0] as Columns));
    case "cancel":
      return cancelHints(args[0] as string[], value as CancelResult[]);
    case "retry":
      return retryHints(value as RetryResult[]);
    case "update":
      return updateHints(args[0] as JobUpdate[], value as UpdateResult[], now ?? Date.now());
    case "reapExpiredLeases":
      return reapHints((value as { reaped: ReapedJob[] }).reaped);
    case "expireOverdue":
      return reapHints(value as ReapedJob[]);
    case "resume":
      return [WORK_NOW];
    case "putSchedule":
    case "removeSchedule":
      return scheduleHints(value as PutResult | boolean);
    default:
      return [];
  }
}
