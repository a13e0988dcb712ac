import { isFinished, isLeased, isWaiting } from "../../../job/state.js";
import type { CancelResult, RemoveResult, RetryResult, ChangeScope, UniqueKey } from "../../../store.js";
import { numberOf } from "../connection/attributes.js";
import type { ConfigKeeper } from "../connection/config.js";
import type { Counts } from "./counts.js";
import { deleteJob, deleteTraces } from "./deletion.js";
import { Change } from "../connection/expressions.js";
import { settled, type Inserts } from "./insert.js";
import { endedFields, isGone, keyItemOf, LIVE_ONLY, readItem, type JobItem } from "./items.js";
import { dueKey, jobKey, laneKey, listKey, uniqueKey } from "./keys.js";
import type { Table, TransactItem } from "../connection/table.js";

interface Parts {
  config: ConfigKeeper;
  counts: Counts;
  inserts: Inserts;
}

/**
 * cancel, retry, remove: what people do to jobs. Each looks at the job, and changes it if it is still as it was seen. It
 * would not know its own work again if the answer got lost; a transaction does, by its token, and this is rare enough.
 */
export class Changes {
  readonly #table: Table;
  readonly #parts: Parts;

  constructor(table: Table, parts: Parts) {
    this.#table = table;
    this.#parts = parts;
  }

  cancel(ids: readonly string[], scope: ChangeScope, now: number): Promise<CancelResult[]> {
    return settled(
      ids.map((id) =>
        this.#change<CancelResult>(id, scope, now, async (job) => {
          if (isFinished(job.state)) return "finished";
          const change = asRead(job).set({ cancel_at: job.cancelAt ?? now, updated_at: now });
          if (isLeased(job.state)) return (await this.#table.update(jobKey(id), change)).done ? "requested" : null;
          return (await this.#finish(job, "cancelled", change, now)) ? "cancelled" : null;
        }),
      ),
    );
  }

  /** One after the other: of several that want the same key, the first gets it. */
  async retry(ids: readonly string[], scope: ChangeScope, now: number): Promise<RetryResult[]> {
    const answers: RetryResult[] = [];
    for (const id of ids) {
      answers.push(
        await this.#change<RetryResult>(id, scope, now, (job) => {
          if (job.state === "failed") return this.#hurry(job, now);
          return job.state === "dead" || job.state === "cancelled" ? this.#revive(job, now) : "not-retryable";
        }),
      );
    }
    return answers;
  }

  async #hurry(job: JobItem, now: number): Promise<RetryResult | null> {
    const change = asRead(job).set({ run_at: now, due_at: now, updated_at: now, due: dueKey(now, job.listed) });
    return (await this.#table.update(jobKey(job.id), change)).done ? "retried" : null;
  }

  async #revive(job: JobItem, now: number): Promise<RetryResult | null> {
    await this.#parts.config.ensure([job], now);
    const change = asRead(job).set({
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

  /** A live key is taken again. One that was only to be held while the job waited first is given up for good. */
  async #keyWrites(job: JobItem, now: number): Promise<TransactItem[] | "held"> {
    const { id, key, scope } = job;
    if (key === null || (scope !== "live" && scope !== "waiting")) return [];
    const item = await this.#table.get(uniqueKey(key));
    if (scope === "waiting") {
      if (item === null || readHolder(item) !== id) return [];
      const mine = new Change();
      return [{ delete: uniqueKey(key), when: mine.when(`#job = ${mine.value(id)}`) }];
    }
    const unique: UniqueKey = { key, scope, periodMs: 0, onConflict: "keep" };
    if (item !== null && readHolder(item) === id) {
      const mine = new Change();
      return [{ put: keyItemOf(job, unique, now), when: mine.when(`#job = ${mine.value(id)}`) }];
    }
    const state = await this.#parts.inserts.keyState(item, now);
    return state.held ? "held" : state.writes(keyItemOf(job, unique, now));
  }

  remove(ids: readonly string[], scope: ChangeScope, now: number): Promise<RemoveResult[]> {
    return settled(
      ids.map((id) =>
        this.#change<RemoveResult>(id, scope, now, async (job) => {
          if (isLeased(job.state)) return "leased";
          return (await this.delete(job, ["waiting", "live", "period", "forever"], now)) ? "removed" : null;
        }),
      ),
    );
  }

  /** Deletes a job that is as it was read, with what belongs to it and its key in one of these scopes. */
  async delete(job: JobItem, scopes: readonly string[], now: number): Promise<boolean> {
    const written = await deleteJob(this.#table, job, asRead(job), now);
    if (!written.done) return false;
    if (job.state === "completed") this.#parts.counts.deleted(job, numberOf(job.item, "ttl"));
    await deleteTraces(this.#table, job, scopes, now);
    return true;
  }

  /** Ends a waiting job that is as it was read. */
  async #finish(job: JobItem, to: "cancelled" | "dead", change: Change, now: number): Promise<boolean> {
    change.set({ state: to, finished_at: now, ...endedFields(job, to, now) }).remove(...LIVE_ONLY);
    const { done } = await this.#table.transact([{ update: jobKey(job.id), change }]);
    if (done) this.#parts.counts.ended(job, to, now);
    return done;
  }

  /** Ends a job that waits too long. */
  expire(job: JobItem, fields: Parameters<Change["set"]>[0], now: number): Promise<boolean> {
    return this.#finish(job, "dead", asRead(job).set({ updated_at: now, ...fields }), now);
  }

  /** Null from `work`: the job has changed in between, and is looked at again. */
  async #change<Answer>(
    id: string,
    { user, states }: ChangeScope,
    now: number,
    work: (job: JobItem) => Promise<Answer | null> | Answer | null,
  ): Promise<Answer | "missing"> {
    for (;;) {
      const found = await this.#table.get(jobKey(id));
      if (found === null || isGone(found, now)) return "missing";
      const job = readItem(found);
      if (user !== undefined && job.user !== user) return "missing";
      if (states?.includes(job.state) === false) return "missing";
      const answer = await work(job);
      if (answer !== null) return answer;
    }
  }
}

function readHolder(key: Parameters<typeof readItem>[0]): string | null {
  const job = key["job"];
  return job !== undefined && "S" in job ? job.S : null;
}

/** A change of a job that is still what it was when it was read. */
export function asRead({ listed, fence, state, dueAt }: JobItem): Change {
  const change = new Change();
  change.when(
    `#listed = ${change.value(listed)}`,
    `#fence = ${change.value(fence)}`,
    `#state = ${change.value(state)}`,
  );
  // While it waits, a job is moved without its fence or state changing.
  if (isWaiting(state) && dueAt !== null) change.when(`#due_at = ${change.value(dueAt)}`);
  return change;
}
