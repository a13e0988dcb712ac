import { LIMITS } from "../../defaults.js";
import { PayloadTooLargeError } from "../../errors.js";
import { jsonBytes } from "../../job/json.js";
import type { FinishedState } from "../../job/state.js";
import type { Redactor } from "../../redact.js";
import type { OperationRecord, StoredOperation } from "../../store.js";
import type { Caller } from "../auth/credentials.js";
import type { JobChanges, JobConditions, OperationResult, OperationTarget } from "../contract/api-types.js";
import { shownFilter } from "./audit-entry.js";

/** What an operation is to do. Stored as JSON, so that another server can continue it. */
export interface OperationPlan {
  action: OperationResult["action"];
  /** Exactly one of these three. */
  ids?: readonly string[];
  filter?: JobConditions;
  /** Jobs that finished longer ago than `olderThan`, that is, before `before`. */
  purge?: { state: FinishedState; olderThan: string | number; before: number };
  /** For updates. */
  changes?: JobChanges;
  /** Jobs per second; null: as fast as possible. */
  rate: number | null;
  /** Only this many jobs; null: all. */
  limit: number | null;
  actor: string;
  tokenId: string | null;
}

/** How an operation ends. Stored before the audit entry is written: a server that finds it writes the same entry again. */
export interface OperationEnding {
  state: "done" | "stopped" | "failed";
  /** The id of the audit entry: it is stored once. */
  auditId: string;
}

/** What callers see of an operation, and where it continues. Stored as JSON with each write of the progress. */
export interface OperationSummary extends Omit<
  OperationResult,
  "id" | "state" | "leaseUntil" | "startedAt" | "endedAt"
> {
  /** The cursor of the next page, or, of a change by ids, how many were done. Null: at the beginning. */
  at: string | number | null;
  /** Jobs that were found, whether or not they changed. */
  found: number;
  ending: OperationEnding | null;
}

// Shown of a target. The rest is only in the plan.
const MAX_SHOWN_IDS = 20;
const MAX_SHOWN_JSON = 4_000;

/** Throws if the plan is too large to be stored. */
export function newOperationRecord(
  id: string,
  startedAt: number,
  plan: OperationPlan,
  summary: OperationSummary,
): OperationRecord {
  const json = JSON.stringify(plan);
  const bytes = jsonBytes(json);
  if (bytes > LIMITS.operationPlanBytes)
    throw new PayloadTooLargeError("the operation", bytes, LIMITS.operationPlanBytes);
  return { id, startedAt, plan: json, summary: JSON.stringify(summary) };
}

export function newSummary(
  plan: OperationPlan,
  { total, process, redact }: { total: number | null; process: string; redact: Redactor },
): OperationSummary {
  const { action, rate, limit, actor } = plan;
  return {
    action,
    target: shownTarget(plan, redact),
    changes: plan.changes === undefined ? null : shownChanges(plan.changes, redact),
    rate,
    limit,
    total: total === null || limit === null ? total : Math.min(total, limit),
    examined: 0,
    found: 0,
    changed: 0,
    requested: 0,
    skipped: {},
    unchanged: [],
    reasons: {},
    actor,
    process,
    error: null,
    at: null,
    ending: null,
  };
}

function shownTarget({ ids, filter, purge }: OperationPlan, redact: Redactor): OperationTarget {
  if (ids !== undefined) return { ids: ids.slice(0, MAX_SHOWN_IDS), count: ids.length };
  if (purge !== undefined) return { purge: { state: purge.state, olderThan: purge.olderThan } };
  const shown = shownFilter(filter ?? {}, redact);
  const bounded = shown.id === undefined ? shown : { ...shown, id: shown.id.slice(0, MAX_SHOWN_IDS) };
  return jsonBytes(JSON.stringify(bounded)) <= MAX_SHOWN_JSON
    ? { filter: bounded, ...(shown.id !== undefined && { count: shown.id.length }) }
    : { filter: null };
}

function shownChanges(changes: JobChanges, redact: Redactor): JobChanges {
  const shown = redact(changes);
  if (jsonBytes(JSON.stringify(shown)) <= MAX_SHOWN_JSON) return shown;
  return {
    ...shown,
    input: `[omitted: ${jsonBytes(JSON.stringify(shown.input))} bytes]`,
    ...(shown.tags && { tags: [] }),
  };
}

/** The target in the audit entry of the end, the same as in that of the start. */
export function auditTarget({ ids, filter, purge }: OperationPlan, redact: Redactor): object {
  if (ids !== undefined) return { ids };
  if (purge !== undefined) return { state: purge.state, olderThan: purge.olderThan };
  return { filter: shownFilter(filter ?? {}, redact) };
}

export function actorOf({ identity, tokenId }: Caller): Pick<OperationPlan, "actor" | "tokenId"> {
  return { actor: identity.name, tokenId };
}

/** A stored operation as callers see it. */
export function operationResult(
  { id, state, leaseUntil, startedAt, endedAt }: Omit<StoredOperation, "summary">,
  { at: _at, found: _found, ending: _ending, ...shown }: OperationSummary,
): OperationResult {
  const iso = (ms: number): string => new Date(ms).toISOString();
  const isoOrNull = (ms: number | null): string | null => (ms === null ? null : iso(ms));
  return {
    id,
    ...shown,
    state,
    leaseUntil: isoOrNull(leaseUntil),
    startedAt: iso(startedAt),
    endedAt: isoOrNull(endedAt),
  };
}
