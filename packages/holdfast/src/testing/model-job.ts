import type { State } from "../job/state.js";
import type { AttemptRecord, ClaimedJob, ReapedJob, NewJob, StoredJob, UniqueKey } from "../store.js";

/** A job of the model: the visible record, the unique key it asked for, and its place in the order of insertion. */
export interface ModelJob extends StoredJob {
  attempts: AttemptRecord[];
  unique: UniqueKey | null;
  order: number;
}

/** Who holds a unique key. `until` is null for keys that something else frees: a claim, the end of the job, its removal. */
export interface HeldKey {
  job: string;
  scope: UniqueKey["scope"];
  until: number | null;
}

/** The record of a job just enqueued. */
export function newRecord(job: NewJob, now: number, order: number): ModelJob {
  const { id, type, queue, priority, user, input, maxAttempts, expiresAt, tags, unique, schedule, trace } = job;
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
    trace,
    order,
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

/** What a claim tells of a job. */
export function claimedRecord(job: ModelJob, error: ClaimedJob["error"], previous: ClaimedJob["previous"]): ClaimedJob {
  const { id, fence, type, queue, priority, user, input, tags, schedule, trace, runAt, expiresAt, createdAt } = job;
  const { attempt, maxAttempts, losses, releases } = job;
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

/** The key as this job takes it now. */
export function heldKey(job: string, unique: UniqueKey, now: number): HeldKey {
  return { job, scope: unique.scope, until: unique.scope === "period" ? now + unique.periodMs : null };
}

/** What laying down answers. */
export function laidDown({ id, type, queue, attempt, state }: ModelJob): ReapedJob {
  return { id, type, queue, attempt, to: state };
}

/** The name under which `StoreModel.counts` counts. */
export function countLabel(of: { queue: string; type: string; state: State }): string {
  return `${of.queue}/${of.type}/${of.state}`;
}
