import type { State } from "../job/state.js";
import type { AttemptRecord, ClaimedJob, ReapedJob, NewJob, StoredJob, UniqueKey } from "../store.js";

/** A job of the model: the visible record, its requested unique key, and its position in insertion order. */
export interface ModelJob extends StoredJob {
  attempts: AttemptRecord[];
  /** When `purgeDue` deletes it; null: only `purge` does. */
  purgeAt: number | null;
  unique: UniqueKey | null;
  order: number;
}

/** The holder of a unique key. `until` is null for keys without a time limit. */
export interface HeldKey {
  job: string;
  scope: UniqueKey["scope"];
  until: number | null;
}

/** The record of a job just enqueued. */
export function newRecord(job: NewJob, now: number, order: number): ModelJob {
  const { id, type, queue, priority, user, input, maxAttempts, expiresAt, tags, unique, schedule, trace } = job;
  const { parent, settings } = job;
  const dueAt = (job.runAt ?? now) + job.delayMs;
  return {
    id,
    type,
    queue,
    priority,
    user,
    input,
    maxAttempts,
    expiresAt,
    tags,
    unique,
    schedule,
    parent,
    settings,
    trace,
    order,
    purgeAt: null,
    key: unique?.key ?? null,
    state: "pending",
    attempt: 0,
    losses: 0,
    releases: 0,
    fence: 0,
    runAt: dueAt,
    dueAt,
    createdAt: now,
    updatedAt: now,
    claimedAt: null,
    startedAt: null,
    finishedAt: null,
    cancelRequestedAt: null,
    worker: null,
    output: null,
    error: null,
    progress: null,
    attempts: [],
    log: [],
  };
}

/** The job as returned by a claim. */
export function claimedRecord(job: ModelJob, error: ClaimedJob["error"], previous: ClaimedJob["previous"]): ClaimedJob {
  const { id, fence, type, queue, priority, user, input, tags, schedule, trace, runAt, expiresAt, createdAt } = job;
  const { attempt, maxAttempts, losses, releases, parent, settings } = job;
  return {
    id,
    fence,
    type,
    queue,
    priority,
    user,
    input,
    tags,
    schedule,
    parent,
    settings,
    trace,
    runAt,
    expiresAt,
    createdAt,
    attempt,
    maxAttempts,
    losses,
    releases,
    error,
    previous,
    cancelRequested: job.cancelRequestedAt !== null,
  };
}

/** The key as held by this job from now on. */
export function heldKey(job: string, unique: UniqueKey, now: number): HeldKey {
  return { job, scope: unique.scope, until: unique.scope === "period" ? now + unique.periodMs : null };
}

/** The job as returned by `reapExpiredLeases` and `expireOverdue`. */
export function reapedJob({ id, type, queue, attempt, state }: ModelJob): ReapedJob {
  return { id, type, queue, attempt, to: state };
}

/** The key of a count in `StoreModel.counts`. */
export function countLabel(of: { queue: string; type: string; state: State }): string {
  return `${of.queue}/${of.type}/${of.state}`;
}
