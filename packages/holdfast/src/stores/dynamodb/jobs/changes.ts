import { isFinished, isLeased, isWaiting } from "../../../job/state.js";
import type { CancelResult, RemoveResult, RetryResult, ChangeScope, UniqueKey } from "../../../store.js";
import { numberOf } from "../connection/attributes.js";
import type { SharedConfig } from "../connection/config.js";
import type { Counts } from "./counts.js";
import { deleteJob, deleteLeftovers } from "./deletion.js";
import { Change } from "../connection/expressions.js";
import { waitForAll, type Inserts } from "./insert.js";
import { finishedFields, isDeleted, keyItemOf, LIVE_ONLY, readItem, type JobItem } from "./items.js";
import { dueKey, jobKey, laneKey, listKey, uniqueKey } from "./item-keys.js";
import type { Table, TransactItem } from "../connection/table.js";

interface Parts {
  config: SharedConfig;
  counts: Counts;
  inserts: Inserts;
}

/**
 * cancel, retry and remove. Each reads the job and changes it if it has not changed since.
 *
 * Lost responses: these changes store no request token, so a request that is sent again cannot recognize its own write.
 * Where that would give a wrong result, a transaction is used, because DynamoDB recognizes its ClientRequestToken. That
 * costs twice as much, but these changes are rare.
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
      finished_at: null,
      cancel_at: null,
      expires_at: null,
      error: null,
      error_code: null,
      error_at: null,
      ttl: null,
      lane: laneKey(job.queue, job.priority, job.shard),
      due: dueKey(now, job.listed),
      list: listKey("pending", job.type, job.shard),
    });
    const key = await this.#keyWrites(job, now);
    if (key === "held") return "key-held";
    const { done } = await this.#table.transact([{ update: jobKey(job.id), change }, ...key]);
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
    const written = await deleteJob(this.#table, job, ifUnchanged(job), now);
    if (!written.done) return false;
    if (job.state === "completed") this.#parts.counts.deleted(job, numberOf(job.item, "ttl"));
    await deleteLeftovers(this.#table, job, scopes, now);
    return true;
  }

  /** Finishes a waiting job that has not changed since it was read. */
  async #finish(job: JobItem, to: "cancelled" | "dead", change: Change, now: number): Promise<boolean> {
    change.set({ state: to, finished_at: now, ...finishedFields(job, to, now) }).remove(...LIVE_ONLY);
    const { done } = await this.#table.transact([{ update: jobKey(job.id), change }]);
    if (done) this.#parts.counts.finished(job, to, now);
    return done;
  }

  /** Dead-letters a waiting job. */
  expire(job: JobItem, fields: Parameters<Change["set"]>[0], now: number): Promise<boolean> {
    return this.#finish(job, "dead", ifUnchanged(job).set({ updated_at: now, ...fields }), now);
  }

  /** If `work` returns null, the job has changed since it was read, and is read again. */
  async #change<Result>(
    id: string,
    { user, states }: ChangeScope,
    now: number,
    work: (job: JobItem) => Promise<Result | null> | Result | null,
  ): Promise<Result | "missing"> {
    for (;;) {
      const found = await this.#table.get(jobKey(id));
      if (found === null || isDeleted(found, now)) return "missing";
      const job = readItem(found);
      if (user !== undefined && job.user !== user) return "missing";
      if (states?.includes(job.state) === false) return "missing";
      const result = await work(job);
      if (result !== null) return result;
    }
  }
}

function holderOf(key: Parameters<typeof readItem>[0]): string | null {
  const job = key["job"];
  return job !== undefined && "S" in job ? job.S : null;
}

/** A change with the condition that the job has not changed since it was read. */
export function ifUnchanged({ listed, fence, state, dueAt }: JobItem): Change {
  const change = new Change();
  change.when(
    `#listed = ${change.value(listed)}`,
    `#fence = ${change.value(fence)}`,
    `#state = ${change.value(state)}`,
  );
  // The due time of a waiting job can change without its fence or state.
  if (isWaiting(state) && dueAt !== null) change.when(`#due_at = ${change.value(dueAt)}`);
  return change;
}
