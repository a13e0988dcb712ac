import { InvalidOptionError } from "../../../errors.js";
import { isFinished, isLeased, isWaiting } from "../../../job/state.js";
import type {
  CancelResult,
  ChangeScope,
  FreeKeyResult,
  JobUpdate,
  KeyHolder,
  Outcome,
  RemoveResult,
  RetryResult,
  UniqueKey,
  UpdateResult,
} from "../../../store.js";
import { jsonBytes } from "../../../job/json.js";
import { numberOf, stringOf, type Item } from "../connection/attributes.js";
import type { Lane, SharedConfig } from "../connection/config.js";
import type { Counts } from "./counts.js";
import { deleteJob, deleteLeftovers } from "./deletion.js";
import { Change } from "../connection/expressions.js";
import { isInvalidItem } from "../connection/errors.js";
import { newRequestToken, outOfLimits, sameHolder, waitForAll, type Inserts } from "./insert.js";
import {
  removeLiveFields,
  errorFields,
  expiryFields,
  finishedFields,
  inputItem,
  isDeleted,
  isLarge,
  keyItemOf,
  newInputKey,
  purgeTime,
  readItem,
  tagsAttribute,
  type JobItem,
} from "./items.js";
import { dueKey, jobKey, laneKey, listKey, LIVE, uniqueKey } from "./item-keys.js";
import type { TransitionLog } from "../transitions/transition-log.js";
import type { Table, TransactItem } from "../connection/table.js";
import { updateConflict } from "../../update-conflict.js";
import { ifSameAwaiters, isAwaited } from "../steps/awaiters.js";
import { endedAs, failureEnd, MISSING, type Waits } from "../steps/waits.js";

interface Parts {
  config: SharedConfig;
  counts: Counts;
  inserts: Inserts;
  transitions: TransitionLog;
  waits: Waits;
}

/**
 * cancel, retry, update, remove and freeKey. Each reads the job and changes it if it has not changed since.
 *
 * Lost responses: only `update` stores a request token, so the other requests cannot recognize their own write when they
 * are sent again. Where that would give a wrong result, a transaction is used, because DynamoDB recognizes its
 * ClientRequestToken. That costs twice as much, but these changes are rare.
 */
export class Changes {
  readonly #table: Table;
  readonly #parts: Parts;

  constructor(table: Table, parts: Parts) {
    this.#table = table;
    this.#parts = parts;
  }

  cancel(ids: readonly string[], scope: ChangeScope, now: number): Promise<CancelResult[]> {
    return waitForAll(
      ids.map((id) =>
        this.#change<CancelResult>(id, scope, now, async (job) => {
          if (isFinished(job.state)) return "finished";
          const change = ifUnchanged(job).set({ cancel_at: job.cancelAt ?? now, updated_at: now });
          if (isLeased(job.state)) return (await this.#table.update(jobKey(id), change)).done ? "requested" : null;
          return (await this.#finish(job, "cancelled", change, now)) ? "cancelled" : null;
        }),
      ),
    );
  }

  /** One after another: if several need the same unique key, the first gets it. */
  async retry(ids: readonly string[], scope: ChangeScope, now: number): Promise<RetryResult[]> {
    const results: RetryResult[] = [];
    for (const id of ids) {
      results.push(
        await this.#change<RetryResult>(id, scope, now, (job) => {
          if (job.state === "failed") return this.#makeDue(job, now);
          return job.state === "dead" || job.state === "cancelled" ? this.#resetForRetry(job, now) : "not-retryable";
        }),
      );
    }
    return results;
  }

  async #makeDue(job: JobItem, now: number): Promise<RetryResult | null> {
    const change = ifUnchanged(job).set({ run_at: now, due_at: now, updated_at: now, due: dueKey(now, job.listed) });
    return (await this.#table.update(jobKey(job.id), change)).done ? "retried" : null;
  }

  async #resetForRetry(job: JobItem, now: number): Promise<RetryResult | null> {
    await this.#parts.config.ensure([job], now);
    const change = ifUnchanged(job).set({
      state: "pending",
      attempt: 0,
      losses: null,
      releases: null,
      run_at: now,
      due_at: now,
      updated_at: now,
      claimed_at: null,
      started_at: null,
      finished_at: null,
      worker: null,
      cancel_at: null,
      expires_at: null,
      // A crashed process has left a note that steps wait for its end. They wait for the next one.
      expiry: null,
      expires: null,
      error: null,
      error_code: null,
      error_at: null,
      fingerprint: null,
      ttl: null,
      lane: laneKey(job.queue, job.priority, job.shard),
      due: dueKey(now, job.listed),
      list: listKey("pending", job.type, job.shard),
    });
    const key = await this.#keyWrites(job, now);
    if (key === "held") return "key-held";
    const { done } = await this.#table.transact([{ update: jobKey(job.id), change }, ...key]);
    if (done) this.#parts.transitions.add(job, "pending", now);
    return done ? "retried" : null;
  }

  /**
   * A key of scope `live` is acquired again. A key of scope `waiting` is freed: that scope ended with the first claim.
   */
  async #keyWrites(job: JobItem, now: number): Promise<TransactItem[] | "held"> {
    const { id, key, scope } = job;
    if (key === null || (scope !== "live" && scope !== "waiting")) return [];
    const item = await this.#table.get(uniqueKey(key));
    if (scope === "waiting") {
      if (item === null || holderOf(item) !== id) return [];
      const mine = new Change();
      return [{ delete: uniqueKey(key), when: mine.when(`#job = ${mine.value(id)}`) }];
    }
    const unique: UniqueKey = { key, scope, periodMs: 0, onConflict: "keep" };
    if (item !== null && holderOf(item) === id) {
      const mine = new Change();
      return [{ put: keyItemOf(job, unique, now), when: mine.when(`#job = ${mine.value(id)}`) }];
    }
    const state = await this.#parts.inserts.keyState(item, now);
    return state.held ? "held" : state.writes(keyItemOf(job, unique, now));
  }

  async update(updates: readonly JobUpdate[], scope: ChangeScope, now: number): Promise<UpdateResult[]> {
    if (updates.length === 0) return [];
    const items = await this.#table.getAll(updates.map(({ id }) => jobKey(id)));
    const found = new Map(items.map((item) => [readItem(item).id, item]));
    // All new lanes in one write, instead of one write per job.
    const moved = updates.filter(changesLane).flatMap((update) => {
      const item = found.get(update.id);
      if (item === undefined || isDeleted(item, now)) return [];
      const job = readItem(item);
      return isWaiting(job.state) ? [inNewLane(job, update)] : [];
    });
    if (moved.length > 0) await this.#parts.config.ensureEach(moved, now);
    // Updates of the same job one after another.
    const last = new Map<string, Promise<UpdateResult>>();
    return waitForAll(
      updates.map((update) => {
        const before = last.get(update.id);
        const read = before === undefined ? (found.get(update.id) ?? null) : undefined;
        const result = Promise.resolve(before?.catch(() => {})).then(() => this.#updateOne(update, scope, now, read));
        last.set(update.id, result);
        return result;
      }),
    );
  }

  async #updateOne(
    update: JobUpdate,
    scope: ChangeScope,
    now: number,
    read: Item | null | undefined,
  ): Promise<UpdateResult> {
    rejectInvalid(update);
    // Request token: an update that is sent again recognizes its own write, even if the job was claimed since.
    const token = newRequestToken();
    const { id, input } = update;
    const inputKey = input !== undefined && isLarge({ input }) ? newInputKey(token) : null;
    let hasInput = false;
    const work = async (job: JobItem): Promise<UpdateResult | null> => {
      if (inputKey !== null && job.inputKey === inputKey) return UPDATED;
      if (!isWaiting(job.state)) return { status: "not-waiting", state: job.state };
      const conflict = updateConflict(update, job, now);
      if (conflict !== null) return { status: "conflict", reason: conflict };
      if (changesLane(update)) await this.#parts.config.ensure([inNewLane(job, update)], now);
      // Before the job is written, so that every job that can be read has its input.
      if (input !== undefined && inputKey !== null && !hasInput) {
        await this.#table.put(inputItem({ id, input }, inputKey, now));
        hasInput = true;
      }
      const change = updateChange(job, update, inputKey, now).set({ changed: token });
      const written = await this.#table.update(jobKey(id), change);
      if (!written.done && !(written.resent && stringOf(written.found ?? {}, "changed") === token)) return null;
      if (input !== undefined) await this.#dropInput(id, job.inputKey);
      return UPDATED;
    };
    try {
      const result = await this.#change<UpdateResult>(id, scope, now, work, read);
      // No job refers to this input, and nothing else would delete it.
      if (hasInput && result !== UPDATED) await this.#dropInput(id, inputKey);
      return result === "missing" ? { status: "missing" } : result;
    } catch (error) {
      // After any other error, the job may have been written.
      if (hasInput && isInvalidItem(error)) await this.#dropInput(id, inputKey);
      throw error;
    }
  }

  /** An error here must not fail the call: whether the job was changed is decided. */
  async #dropInput(id: string, inputKey: string | null): Promise<void> {
    if (inputKey !== null) await this.#table.delete({ pk: jobKey(id).pk, sk: inputKey }).catch(() => {});
  }

  async keyHolder(key: string, now: number): Promise<KeyHolder | null> {
    const state = await this.#parts.inserts.keyState(await this.#table.get(uniqueKey(key)), now);
    return state.held ? { job: state.by, exists: state.holder !== null } : null;
  }

  async freeKey(key: string, now: number): Promise<FreeKeyResult> {
    for (;;) {
      const item = await this.#table.get(uniqueKey(key));
      const state = await this.#parts.inserts.keyState(item, now);
      if (item === null || !state.held) return "missing";
      if (state.holder !== null) return "held";
      const written = await this.#table.delete(uniqueKey(key), sameHolder(item));
      // Lost response: the key was freed, and another job may hold it now.
      if (written.done || written.resent) return "freed";
    }
  }

  remove(ids: readonly string[], scope: ChangeScope, now: number): Promise<RemoveResult[]> {
    return waitForAll(
      ids.map((id) =>
        this.#change<RemoveResult>(id, scope, now, async (job) => {
          if (isLeased(job.state)) return "leased";
          return (await this.delete(job, ["waiting", "live", "period", "forever"], now)) ? "removed" : null;
        }),
      ),
    );
  }

  /** Deletes a job that has not changed since it was read, with its other items and its key in one of these scopes. */
  async delete(job: JobItem, scopes: readonly string[], now: number): Promise<boolean> {
    const end = endedAs(job.item) ?? MISSING;
    const { done, tombstone } = await deleteJob(this.#table, job, ifUnchanged(job), { now, end });
    if (!done) return false;
    if (isAwaited(job.item)) await this.#parts.waits.jobEnded(tombstone, end, now);
    if (job.state === "completed") this.#parts.counts.deleted(job, numberOf(job.item, "ttl"));
    await deleteLeftovers(this.#table, job, scopes, now);
    return true;
  }

  /** Finishes a waiting job that has not changed since it was read. `error`: its new error. */
  async #finish(
    job: JobItem,
    to: "cancelled" | "dead",
    change: Change,
    now: number,
    error: Outcome["error"] = null,
  ): Promise<boolean> {
    const purgeAt = purgeTime(job, to, now);
    if (purgeAt !== null) await this.#parts.config.ensureOwnTimes();
    change.set({ state: to, finished_at: now, ...finishedFields(job, to, now, purgeAt) });
    if (error !== null) change.set(errorFields(error, now));
    removeLiveFields(change, job, isAwaited(job.item), now);
    const { done } = await this.#table.transact([{ update: jobKey(job.id), change }]);
    if (!done) return false;
    this.#parts.counts.finished(job, to, now);
    this.#parts.transitions.add(job, to, now);
    if (isAwaited(job.item)) await this.#parts.waits.jobEnded(job.item, failureEnd(job, to, error), now);
    return true;
  }

  /** Dead-letters a waiting job. */
  expire(job: JobItem, error: NonNullable<Outcome["error"]>, now: number): Promise<boolean> {
    return this.#finish(job, "dead", ifUnchanged(job).set({ updated_at: now }), now, error);
  }

  /** If `work` returns null, the job has changed since it was read, and is read again. `read`: the job, if it was read. */
  async #change<Result>(
    id: string,
    { user, states }: ChangeScope,
    now: number,
    work: (job: JobItem) => Promise<Result | null> | Result | null,
    read?: Item | null,
  ): Promise<Result | "missing"> {
    for (let known = read; ; known = undefined) {
      const found = known === undefined ? await this.#table.get(jobKey(id)) : known;
      if (found === null || isDeleted(found, now)) return "missing";
      const job = readItem(found);
      if (user !== undefined && job.user !== user) return "missing";
      if (states?.includes(job.state) === false) return "missing";
      const result = await work(job);
      if (result !== null) return result;
    }
  }
}

const UPDATED: UpdateResult = { status: "updated" };

function holderOf(key: Item): string | null {
  return stringOf(key, "job");
}

function changesLane({ queue, priority }: JobUpdate): boolean {
  return queue !== undefined || priority !== undefined;
}

function inNewLane(job: JobItem, { queue, priority }: JobUpdate): Lane & { type: string } {
  return { type: job.type, queue: queue ?? job.queue, priority: priority ?? job.priority };
}

/** Other databases check this with constraints. A lane with such a priority would not be registered. */
function rejectInvalid({ maxAttempts = 1, priority = 0 }: JobUpdate): void {
  const problem = outOfLimits({ maxAttempts, priority });
  if (problem !== null) throw new InvalidOptionError(...problem);
}

/**
 * The change of a waiting job. Its condition also fails if another update has moved the job or its input, or has changed what
 * this one was checked against.
 */
function updateChange(job: JobItem, update: JobUpdate, inputKey: string | null, now: number): Change {
  const { input, inputType, tags, maxAttempts, expiresAt, due } = update;
  const change = ifUnchanged(job).set({ updated_at: now });
  change.when(`#lane = ${change.value(stringOf(job.item, LIVE.hash) ?? "")}`);
  if (changesLane(update)) {
    const { queue, priority } = inNewLane(job, update);
    change.set({ queue, priority, lane: laneKey(queue, priority, job.shard) });
  }
  if (input !== undefined) {
    change.set({ input: inputKey === null ? input : null, input_at: inputKey, bytes: jsonBytes(input) });
    change.when(
      job.inputKey === null ? "attribute_not_exists(#input_at)" : `#input_at = ${change.value(job.inputKey)}`,
    );
  }
  if (inputType !== undefined) change.when(`#type = ${change.value(inputType)}`);
  if (tags !== undefined) change.set({ tags: tagsAttribute(tags) });
  if (maxAttempts !== undefined)
    change.set({ max_attempts: maxAttempts }).when(`#attempt < ${change.value(maxAttempts)}`);
  if (expiresAt !== undefined) change.set({ expires_at: expiresAt, ...expiryFields(job.id, expiresAt, job.shard) });
  if (due !== undefined) {
    const dueAt = (due.runAt ?? now) + due.delayMs;
    change.set({ run_at: dueAt, due_at: dueAt, due: dueKey(dueAt, job.listed) });
    const expiry = job.expiresAt === null ? null : change.value(job.expiresAt);
    if (expiresAt === undefined)
      change.when(expiry === null ? "attribute_not_exists(#expires_at)" : `#expires_at = ${expiry}`);
  }
  return change;
}

/** A change with the condition that the job has not changed since it was read. */
export function ifUnchanged({ listed, fence, state, dueAt, item }: JobItem): Change {
  const change = new Change();
  change.when(
    `#listed = ${change.value(listed)}`,
    `#fence = ${change.value(fence)}`,
    `#state = ${change.value(state)}`,
  );
  // The due time of a waiting job can change without its fence or state.
  if (isWaiting(state) && dueAt !== null) change.when(`#due_at = ${change.value(dueAt)}`);
  return ifSameAwaiters(change, item);
}
