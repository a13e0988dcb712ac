import { STALE_FINGERPRINT } from "../job/fingerprint.js";
import {
  attemptsUsed,
  countClaim,
  EXPIRED_ERROR,
  isFinished,
  isLeased,
  isWaiting,
  settledBefore,
  STALE_ERROR,
} from "../job/state.js";
import { ALL_QUEUES } from "../defaults.js";
import { PARKED_AT } from "../job/stored-step.js";
import type { FinishedState } from "../job/state.js";
import type {
  CancelResult,
  ClaimedJob,
  ClaimRequest,
  FreeKeyResult,
  InsertResult,
  JobUpdate,
  KeyHolder,
  ReapedJob,
  LeaseResult,
  LeaseRef,
  NewJob,
  Outcome,
  PurgeRequest,
  QueueRecord,
  RemoveResult,
  RetryResult,
  ChangeScope,
  SettleResult,
  StartMark,
  StoredError,
  TransitionRecord,
  UniqueKey,
  UpdateResult,
} from "../store.js";
import { claimedRecord, countLabel, heldKey, reapedJob, newRecord, type HeldKey, type ModelJob } from "./model-job.js";
import { ScheduleModel } from "./model-schedules.js";
import { StepModel } from "./model-steps.js";

/**
 * The store contract as the simplest possible program: a few maps, no index, no batch, time as an argument. A correct store
 * returns the same results. Where the contract leaves a choice (which expired leases a limit covers, which of two jobs that
 * ended together is older), the model returns the candidates and applies the choice that is passed in.
 */
export class StoreModel {
  readonly jobs: Map<string, ModelJob> = new Map();
  readonly keys: Map<string, HeldKey> = new Map();
  /** By whom and when each paused queue was paused. */
  readonly paused: Map<string, Pick<QueueRecord, "pausedAt" | "pausedBy">> = new Map();
  /** Every transition, in order. */
  readonly transitions: TransitionRecord[] = [];
  /** Ids that were used again after their job was deleted. */
  readonly reusedIds: Set<string> = new Set();
  readonly steps: StepModel = new StepModel({
    jobs: this.jobs,
    insert: (job, now) => this.insert(job, now),
    wake: (job, now) => this.#wake(job, now),
  });
  readonly schedules: ScheduleModel = new ScheduleModel((job, now) => this.insert(job, now));
  #inserted = 0;
  readonly #usedIds = new Set<string>();

  insert(job: NewJob, now: number): InsertResult {
    if (this.jobs.has(job.id)) return { status: "duplicate", of: job.id, replaced: false };
    if (job.unique !== null) {
      const holder = this.#holderOf(job.unique.key, now);
      if (holder !== undefined) return this.#conflict(job, job.unique, holder.job, now);
      this.keys.set(job.unique.key, heldKey(job.id, job.unique, now));
    }
    if (this.#usedIds.has(job.id)) this.reusedIds.add(job.id);
    this.#usedIds.add(job.id);
    this.#changed(this.#add(newRecord(job, now, this.#inserted++)), now);
    return { status: "inserted" };
  }

  #holderOf(key: string, now: number): HeldKey | undefined {
    const held = this.keys.get(key);
    if (held === undefined || (held.until !== null && held.until <= now)) return undefined;
    return held.scope === "forever" || this.jobs.has(held.job) ? held : undefined;
  }

  #conflict(job: NewJob, unique: UniqueKey, of: string, now: number): InsertResult {
    if (unique.onConflict === "reject") return { status: "refused", reason: "key-held", of };
    const holder = this.jobs.get(of);
    const isReplaced = holder !== undefined && isWaiting(holder.state) && !this.steps.hasSteps(of);
    if (unique.onConflict === "keep" || !isReplaced) {
      return { status: "duplicate", of, replaced: false };
    }
    // Overwritten as if it had just been enqueued; only its id, its history and its fence stay.
    const { id, order, createdAt, fence, attempts } = holder;
    this.#changed(this.#add({ ...newRecord({ ...job, id }, now, order), createdAt, fence, attempts }), now);
    this.keys.set(unique.key, heldKey(id, unique, now));
    return { status: "duplicate", of, replaced: true };
  }

  #add(job: ModelJob): ModelJob {
    this.jobs.set(job.id, job);
    return job;
  }

  /** Records the state that the job has now. */
  #changed({ id, type, queue, state: to }: ModelJob, now: number): void {
    this.transitions.push({ id, type, queue, to, at: now });
  }

  #freeKey(job: ModelJob, scopes: readonly UniqueKey["scope"][]): void {
    if (job.key === null) return;
    const held = this.keys.get(job.key);
    if (held?.job === job.id && scopes.includes(held.scope)) this.keys.delete(job.key);
  }

  /** All claimable jobs, in claim order. */
  claimable(request: Pick<ClaimRequest, "queues" | "types">, now: number): ModelJob[] {
    return this.#due(now)
      .filter((job) => !this.paused.has(job.queue) && !this.paused.has(ALL_QUEUES))
      .filter((job) => request.queues === null || request.queues.includes(job.queue))
      .filter((job) => request.types === null || request.types.includes(job.type))
      .sort((a, b) => b.priority - a.priority || (a.dueAt ?? 0) - (b.dueAt ?? 0) || a.order - b.order);
  }

  /** Waiting jobs that may run, and leased ones whose lease has expired. */
  #due(now: number): ModelJob[] {
    return [...this.jobs.values()].filter((job) => job.dueAt !== null && job.dueAt <= now);
  }

  claim(request: ClaimRequest, now: number): ClaimedJob[] {
    const taken: ModelJob[] = [];
    let bytes = 0;
    for (const job of this.claimable(request, now)) {
      bytes += Buffer.byteLength(job.input);
      if (taken.length === request.limit || (taken.length > 0 && bytes > request.bytes)) break;
      taken.push(job);
    }
    return taken.map((job) => this.lease(job.id, request, now));
  }

  /** Claims this one job. */
  lease(id: string, request: Pick<ClaimRequest, "worker" | "leaseMs">, now: number): ClaimedJob {
    const job = this.#existing(id);
    const count = countClaim(job);
    const previous = { state: job.state, attempt: attemptsUsed(job), exhausted: count.exhausted };
    const errorBefore = job.error && withoutFingerprint(job.error);
    if (count.lost) this.#recordExpiredLease(job, now);
    Object.assign(job, {
      state: "claimed",
      fence: job.fence + 1,
      attempt: count.attempt,
      losses: count.losses,
      dueAt: now + request.leaseMs,
      worker: request.worker,
      claimedAt: now,
      startedAt: null,
    } satisfies Partial<ModelJob>);
    this.#changed(job, now);
    this.#freeKey(job, ["waiting"]);
    return claimedRecord(job, errorBefore, previous);
  }

  /** Adds the attempt of an expired lease to the history. */
  #recordExpiredLease(job: ModelJob, now: number): void {
    const { attempt, fence, worker, claimedAt, startedAt } = job;
    const error = { ...STALE_ERROR, stack: null };
    job.attempts.push({ attempt, fence, end: "expired", worker, claimedAt, startedAt, endedAt: now, error });
    job.error = { ...STALE_ERROR, at: now, fingerprint: STALE_FINGERPRINT };
  }

  #leasedBy(ref: LeaseRef): ModelJob | undefined {
    const job = this.jobs.get(ref.id);
    return job !== undefined && job.fence === ref.fence && isLeased(job.state) ? job : undefined;
  }

  /** Whether this lease still holds the job. Only the fence decides, even after the lease has expired. */
  holds(lease: LeaseRef): boolean {
    return this.#leasedBy(lease) !== undefined;
  }

  start(mark: StartMark, now: number): LeaseResult {
    const job = this.#leasedBy(mark);
    if (job === undefined) return "lost";
    if (job.state === "claimed") {
      job.startedAt = mark.startedAt;
      job.state = "running";
      this.#changed(job, now);
    }
    return job.cancelRequestedAt === null ? "kept" : "cancel";
  }

  extend(lease: LeaseRef, leaseMs: number, now: number): LeaseResult {
    const job = this.#leasedBy(lease);
    if (job === undefined) return "lost";
    job.dueAt = now + leaseMs;
    return job.cancelRequestedAt === null ? "kept" : "cancel";
  }

  settle(outcome: Outcome, now: number): SettleResult {
    const job = this.jobs.get(outcome.id);
    if (job === undefined || job.fence !== outcome.fence) return "lost";
    if (!isLeased(job.state)) return settledBefore(outcome.to, job.state);
    const cancelled = job.cancelRequestedAt !== null && outcome.to !== "completed" && outcome.to !== "cancelled";
    const isParked = outcome.park !== undefined && !cancelled;
    if (isParked && outcome.park?.wakes !== this.steps.read(job.id).wakes) return "awake";
    if (outcome.reopen !== undefined) this.steps.reopen(job.id, outcome.reopen);
    job.attempt = outcome.attempt;
    job.releases = outcome.releases;
    job.startedAt ??= outcome.startedAt;
    if (outcome.error !== null) job.error = { fingerprint: null, ...outcome.error, at: now };
    if (outcome.attemptRecord !== null) job.attempts.push(outcome.attemptRecord);
    const to = cancelled ? "cancelled" : outcome.to;
    if (isFinished(to)) {
      this.#finish(job, to, now);
      if (outcome.purgeMs !== null && to === outcome.to) job.purgeAt = now + outcome.purgeMs;
      if (to === "completed") job.output = outcome.output;
      this.steps.finished(job.id, now);
      if (!outcome.keep && to === outcome.to) this.purge(job.id, now);
    } else if (isParked) {
      this.#wait(job, "pending", now);
      job.dueAt = Math.max(now, outcome.park?.until ?? PARKED_AT);
      job.expiresAt = null;
      this.#changed(job, now);
    } else {
      this.#wait(job, to, now + outcome.delayMs);
      this.#changed(job, now);
    }
    return cancelled ? "cancelled" : "applied";
  }

  #finish(job: ModelJob, state: FinishedState, now: number): void {
    const keepMs = job.settings?.keepMs?.[state];
    const purgeAt = keepMs === undefined ? null : now + keepMs;
    Object.assign(job, { state, dueAt: null, finishedAt: now, purgeAt } satisfies Partial<ModelJob>);
    this.#changed(job, now);
    this.#freeKey(job, ["waiting", "live"]);
  }

  #wait(job: ModelJob, state: "pending" | "failed", dueAt: number): void {
    Object.assign(job, { state, dueAt, runAt: dueAt, worker: null } satisfies Partial<ModelJob>);
  }

  cancel(id: string, scope: ChangeScope, now: number): CancelResult {
    const job = this.#visible(id, scope);
    if (job === undefined) return "missing";
    if (isFinished(job.state)) return "finished";
    job.cancelRequestedAt ??= now;
    if (isLeased(job.state)) return "requested";
    this.#finish(job, "cancelled", now);
    this.steps.finished(id, now);
    return "cancelled";
  }

  /** A wait of a parked job ended: it is due. */
  #wake(job: ModelJob, now: number): void {
    const dueAt = Math.max(job.runAt, now);
    if (job.state === "pending" && (job.dueAt ?? 0) > dueAt) job.dueAt = dueAt;
  }

  retry(id: string, scope: ChangeScope, now: number): RetryResult {
    const job = this.#visible(id, scope);
    if (job === undefined) return "missing";
    if (job.state === "failed") {
      this.#wait(job, "failed", now);
      return "retried";
    }
    if (job.state !== "dead" && job.state !== "cancelled") return "not-retryable";
    if (job.unique?.scope === "live") {
      if (this.#holderOf(job.unique.key, now) !== undefined) return "key-held";
      this.keys.set(job.unique.key, heldKey(id, job.unique, now));
    }
    this.#wait(job, "pending", now);
    this.#changed(job, now);
    // A retried job must be able to run, so an old expiry is removed.
    const fresh = { attempt: 0, losses: 0, releases: 0, finishedAt: null, cancelRequestedAt: null, expiresAt: null };
    const unclaimed = { claimedAt: null, startedAt: null };
    Object.assign(job, { ...fresh, ...unclaimed, error: null, purgeAt: null } satisfies Partial<ModelJob>);
    return "retried";
  }

  update({ id, due, inputType, ...changes }: JobUpdate, scope: ChangeScope, now: number): UpdateResult {
    const job = this.#visible(id, scope);
    if (job === undefined) return { status: "missing" };
    if (!isWaiting(job.state)) return { status: "not-waiting", state: job.state };
    const changed = { ...job, ...changes };
    if (due !== undefined) changed.dueAt = changed.runAt = (due.runAt ?? now) + due.delayMs;
    if (inputType !== undefined && inputType !== job.type) return { status: "conflict", reason: "type" };
    if (changes.maxAttempts !== undefined && changes.maxAttempts <= job.attempt)
      return { status: "conflict", reason: "attempts" };
    const movesTimes = due !== undefined || changes.expiresAt !== undefined;
    if (movesTimes && changed.expiresAt !== null && changed.expiresAt <= (changed.dueAt ?? 0))
      return { status: "conflict", reason: "expiry" };
    this.jobs.set(id, changed);
    return { status: "updated" };
  }

  keyHolder(key: string, now: number): KeyHolder | null {
    const held = this.#holderOf(key, now);
    return held === undefined ? null : { job: held.job, exists: this.jobs.has(held.job) };
  }

  freeKey(key: string, now: number): FreeKeyResult {
    const holder = this.keyHolder(key, now);
    if (holder === null) return "missing";
    if (holder.exists) return "held";
    this.keys.delete(key);
    return "freed";
  }

  remove(id: string, scope: ChangeScope, now: number): RemoveResult {
    const job = this.#visible(id, scope);
    if (job === undefined) return "missing";
    if (isLeased(job.state)) return "leased";
    this.#freeKey(job, ["waiting", "live", "period", "forever"]);
    this.purge(id, now);
    return "removed";
  }

  /** Jobs with expired leases. */
  stale(now: number): ModelJob[] {
    return [...this.jobs.values()].filter((job) => isLeased(job.state) && job.dueAt !== null && job.dueAt <= now);
  }

  reap(id: string, now: number): ReapedJob {
    const job = this.#existing(id);
    const used = attemptsUsed(job);
    this.#recordExpiredLease(job, now);
    job.attempt = used;
    job.losses++;
    if (job.cancelRequestedAt !== null) this.#finish(job, "cancelled", now);
    else if (used >= job.maxAttempts) this.#finish(job, "dead", now);
    else {
      this.#wait(job, "pending", now);
      this.#changed(job, now);
    }
    if (isFinished(job.state)) this.steps.finished(id, now);
    return reapedJob(job);
  }

  /** Waiting jobs that have passed their `expiresAt`. */
  expired(now: number): ModelJob[] {
    return [...this.jobs.values()].filter(
      (job) => isWaiting(job.state) && job.expiresAt !== null && job.expiresAt <= now,
    );
  }

  expire(id: string, now: number): ReapedJob {
    const job = this.#existing(id);
    job.error = { ...EXPIRED_ERROR, at: now, fingerprint: null };
    this.#finish(job, "dead", now);
    this.steps.finished(id, now);
    return reapedJob(job);
  }

  /** Finished jobs that a purge without limit would delete, oldest first. */
  purgeable(request: Pick<PurgeRequest, "state" | "before" | "keep">): ModelJob[] {
    const { before, keep } = request;
    const ended = [...this.jobs.values()]
      .filter((job) => job.state === request.state && job.purgeAt === null)
      .sort((a, b) => (a.finishedAt ?? 0) - (b.finishedAt ?? 0) || a.order - b.order);
    const surplus = keep === null ? 0 : Math.max(0, ended.length - keep);
    return ended.filter((job, at) => at < surplus || (before !== null && (job.finishedAt ?? 0) < before));
  }

  /** Finished jobs whose own purge time has passed. */
  purgeDue(now: number): ModelJob[] {
    return [...this.jobs.values()].filter((job) => job.purgeAt !== null && job.purgeAt <= now);
  }

  /** Deletes a job at the end of its retention. A `forever` key stays. */
  purge(id: string, now: number): void {
    this.jobs.delete(id);
    this.steps.deleted(id, now);
  }

  pause(queue: string, by: string | null, now: number): void {
    if (!this.paused.has(queue)) this.paused.set(queue, { pausedAt: now, pausedBy: by });
  }

  /** How many due jobs of its queue a claim would take before this one. Without strict order, only those due earlier. */
  countAhead(before: ModelJob, now: number, { strictOrder }: { strictOrder: boolean }): number {
    const isAhead = ({ priority, dueAt, order }: ModelJob): boolean => {
      if (priority !== before.priority) return priority > before.priority;
      const earlierMs = (before.dueAt ?? 0) - (dueAt ?? 0);
      return earlierMs > 0 || (strictOrder && earlierMs === 0 && order < before.order);
    };
    return this.#due(now).filter((job) => job.queue === before.queue && job.id !== before.id && isAhead(job)).length;
  }

  /** How long the oldest due job of each queue has waited for a worker. Paused queues do not count. */
  oldestDue(now: number): Map<string, number> {
    const oldest = new Map<string, number>();
    for (const { queue, state, dueAt } of this.claimable({ queues: null, types: null }, now)) {
      if (isWaiting(state)) oldest.set(queue, Math.max(oldest.get(queue) ?? 0, now - (dueAt ?? now)));
    }
    return oldest;
  }

  /** Jobs by queue, type and state, as `queue/type/state`. */
  counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (const { queue, type, state } of this.jobs.values()) {
      const label = countLabel({ queue, type, state });
      counts.set(label, (counts.get(label) ?? 0) + 1);
    }
    return counts;
  }

  /** The number of jobs that have not ended. */
  alive(): number {
    return [...this.jobs.values()].filter((job) => !isFinished(job.state)).length;
  }

  #existing(id: string): ModelJob {
    const job = this.jobs.get(id);
    if (job === undefined) throw new Error(`the model has no job ${id}`);
    return job;
  }

  #visible(id: string, { user, states }: ChangeScope): ModelJob | undefined {
    const job = this.jobs.get(id);
    if (job === undefined || (user !== undefined && job.user !== user)) return undefined;
    return states?.includes(job.state) === false ? undefined : job;
  }
}

/** The error as a claim returns it. */
function withoutFingerprint({ message, code, at }: StoredError): ClaimedJob["error"] {
  return { message, code, at };
}
