import { InvalidOptionError } from "../../errors.js";
import { encodeInput, type JobType } from "../../job/job.js";
import { readId } from "../../job/uuid.js";
import { optionKeys, refuseUnknown } from "../../options.js";
import type { State } from "../../job/state.js";
import type { CancelResult, ChangeScope, RemoveResult, RetryResult, Scope, StoredJob } from "../../store.js";
import type { EngineContext } from "../context.js";
import { cancelChildren } from "../steps/cancel-children.js";
import type { JobEvent } from "../events/events.js";
import { readFilter, type Filter, type ReadFilter } from "./filter.js";
import {
  checkInput,
  NOT_FOUND,
  PROMOTION,
  readUpdate,
  updateJob,
  updateJobs,
  type JobUpdateStatus,
  type ReadUpdate,
  type UnchangedJob,
  type UpdateOptions,
} from "./job-updates.js";
import { listJobs, type InputView, type ListedJobs } from "./list-jobs.js";

/** Options of a change to all jobs that match a filter. */
export interface BulkOptions {
  /** When aborted, the call stops after the current chunk and rejects. Jobs changed by then stay changed. */
  signal?: AbortSignal;
  /**
   * Called after each chunk with how many jobs were examined and how many of them changed. If it returns a promise, the next chunk
   * waits for it. If it fails, so does the call; jobs changed by then stay changed.
   */
  onProgress?: (progress: { examined: number; changed: number }) => unknown;
}

/** Options of an update of all jobs that match a filter. */
export interface BulkUpdateOptions extends BulkOptions {
  /**
   * Called after each chunk with the matching jobs that it did not change, and why. At the end also with ids of the filter that do
   * not exist. If it returns a promise, the next chunk waits for it.
   */
  onUnchanged?: (jobs: readonly UnchangedJob[]) => unknown;
}

/** An id, several ids, or a filter. */
export type Target = string | readonly string[] | Filter;

const BULK_KEYS: ReadonlySet<string> = optionKeys<BulkOptions>({ signal: true, onProgress: true });
const BULK_UPDATE_KEYS: ReadonlySet<string> = optionKeys<BulkUpdateOptions>({
  signal: true,
  onProgress: true,
  onUnchanged: true,
});
// Jobs changed in one store call.
const CHUNK = 200;

interface Change<Result> {
  /** A state for the example of a filter. Default: dead. */
  example?: State;
  /** The results that count as a change. */
  counted: readonly Result[];
  /** `listed`: the jobs of these ids, if a filter found them. */
  apply: (ids: readonly string[], within: ChangeScope, listed: readonly StoredJob[]) => Promise<Result[]>;
}

/** What an operation does to each of its jobs. `rejecting`: the types that reject the new input, from `checkInput`. */
export type BulkChange =
  | { kind: "retry" | "cancel" | "remove" }
  | {
      kind: "update";
      update: ReadUpdate;
      rejecting: ReadonlySet<string>;
      onUnchanged?: BulkUpdateOptions["onUnchanged"];
    };

/** A part of the jobs of an operation, changed. */
export interface ChangedJobs {
  ids: readonly string[];
  /** The result of each job. */
  statuses: readonly string[];
  /** The statuses that count as a change. */
  counted: readonly string[];
  examined: number;
  /** Where the next page begins; null at the end. */
  cursor: string | null;
}

/** `hf.cancel`, `hf.retry`, `hf.remove` and `hf.update`: one job, or many in chunks. */
export class Changes {
  readonly #requireOpen: () => EngineContext;

  readonly #inputView: InputView | undefined;

  /** `inputView`: as in `listJobs`. */
  constructor(requireOpen: () => EngineContext, inputView?: InputView) {
    this.#requireOpen = requireOpen;
    this.#inputView = inputView;
  }

  /** `onRequested`: called with the number of running jobs that were asked to stop, for each chunk. */
  cancel(
    target: Target,
    scope: Scope,
    options?: BulkOptions,
    onRequested?: (count: number) => void,
  ): Promise<CancelResult | CancelResult[] | number> {
    return this.#change(target, scope, this.#cancellation(onRequested), options);
  }

  #cancellation(onRequested?: (count: number) => void): Change<CancelResult> {
    const apply: Change<CancelResult>["apply"] = async (ids, within, listed) => {
      const engine = this.#requireOpen();
      const results = await engine.store.cancel(ids, within);
      const changed = ids.filter((_, index) => results[index] === "cancelled");
      onRequested?.(results.filter((result) => result === "requested").length);
      if (changed.length > 0) {
        await publishCancelled(engine, changed, listed);
        await cancelChildren(engine, changed);
      }
      return results;
    };
    return { counted: ["cancelled", "requested"], apply };
  }

  retry(target: Target, scope: Scope, options?: BulkOptions): Promise<RetryResult | RetryResult[] | number> {
    return this.#change(target, scope, this.#retrying, options);
  }

  readonly #retrying: Change<RetryResult> = {
    counted: ["retried"],
    apply: async (ids, within) => {
      const { store, events } = this.#requireOpen();
      const results = await store.retry(ids, within);
      for (const [index, id] of ids.entries()) if (results[index] === "retried") events.emit("retried", { id });
      return results;
    },
  };

  remove(target: Target, scope: Scope, options?: BulkOptions): Promise<RemoveResult | RemoveResult[] | number> {
    return this.#change(target, scope, this.#removal, options);
  }

  readonly #removal: Change<RemoveResult> = {
    counted: ["removed"],
    apply: async (ids, within) => {
      const { store, events } = this.#requireOpen();
      const results = await store.remove(ids, within);
      for (const [index, id] of ids.entries()) if (results[index] === "removed") events.emit("removed", { id });
      return results;
    },
  };

  /** Changes the jobs of these ids, at most `CHUNK`. For operations, which continue after a crash. */
  async changeSome(change: BulkChange, ids: readonly string[]): Promise<ChangedJobs> {
    const { counted, apply } = this.#bulk(change);
    const page = { limit: ids.length, cursor: null, payloads: false };
    const listed = change.kind === "update" ? (await this.#requireOpen().store.list({ ids }, page)).jobs : [];
    const found = change.kind === "update" ? listed.map(({ id }) => id) : ids;
    const statuses = found.length === 0 ? [] : await apply(found, {}, listed);
    const byId = new Map(found.map((id, at) => [id, statuses[at] as string]));
    const all = ids.map((id) => byId.get(id) ?? "missing");
    return { ids, statuses: all, counted, examined: ids.length, cursor: null };
  }

  /** Changes a page of the jobs that match. */
  async changePage(
    change: BulkChange,
    filter: ReadFilter,
    page: { limit: number; cursor: string | null },
  ): Promise<ChangedJobs> {
    const { counted, apply } = this.#bulk(change);
    const limit = Math.min(page.limit, CHUNK);
    const listed = await listJobs(
      this.#requireOpen(),
      filter,
      { ...page, limit, payloads: false, anyOrder: false },
      this.#inputView,
    );
    const { jobs, cursor, examined } = listed;
    const ids = jobs.map(({ id }) => id);
    // The state is checked again with the change, as in `#changeMatching`.
    const statuses = ids.length === 0 ? [] : await apply(ids, { states: filter.stored.states }, jobs);
    return { ids, statuses, counted, examined, cursor };
  }

  #bulk(change: BulkChange): Change<string> {
    switch (change.kind) {
      case "retry":
        return this.#retrying;
      case "cancel":
        return this.#cancellation();
      case "remove":
        return this.#removal;
      case "update":
        return this.#updating(change.update, change.rejecting, "pending", change.onUnchanged);
    }
  }

  #updating(
    update: ReadUpdate,
    rejecting: ReadonlySet<string>,
    example: State,
    onUnchanged?: BulkUpdateOptions["onUnchanged"],
  ): Change<JobUpdateStatus> {
    const apply: Change<JobUpdateStatus>["apply"] = async (_ids, within, jobs) => {
      const { statuses, unchanged } = await updateJobs(this.#requireOpen(), jobs, update, within, rejecting);
      if (unchanged.length > 0) await onUnchanged?.(unchanged);
      return statuses;
    };
    return { counted: ["updated"], apply, example };
  }

  update(target: string, options: UpdateOptions, scope: Scope): Promise<void>;
  update(
    target: string | Filter,
    options: UpdateOptions,
    scope: Scope,
    bulk?: BulkUpdateOptions,
  ): Promise<void | number>;
  async update(
    target: string | Filter,
    options: UpdateOptions,
    scope: Scope,
    bulk?: BulkUpdateOptions,
  ): Promise<void | number> {
    return this.#update("update", target, readUpdate(options, this.#requireOpen().clock.now()), scope, bulk);
  }

  /** `hf.promote`. */
  async promote(target: string | Filter, scope: Scope, bulk?: BulkUpdateOptions): Promise<void | number> {
    return this.#update("promote", target, PROMOTION, scope, bulk);
  }

  /** Updates a job that must be of this type. Its schema checks the input, even if the client does not know the type. */
  async updateOfType(type: JobType, id: string, options: UpdateOptions): Promise<void> {
    const engine = this.#requireOpen();
    const update = readUpdate(options, engine.clock.now());
    const job = await engine.store.get(readId(id));
    if (job !== null && job.type !== type.type)
      throw new InvalidOptionError("type", `job ${job.id} is of type ${job.type}, not ${type.type}`);
    if (update.input !== null) await encodeInput(type, update.input.value);
    return updateJob(engine, readId(id), update, {});
  }

  async #update(
    call: "update" | "promote",
    target: string | Filter,
    update: ReadUpdate,
    scope: Scope,
    { onUnchanged, ...bulk }: BulkUpdateOptions = {},
  ): Promise<void | number> {
    const engine = this.#requireOpen();
    if (target === undefined || target === null) throw new InvalidOptionError(call, "needs a job id or a filter");
    if (Array.isArray(target)) throw new InvalidOptionError(call, "for several jobs use a filter: { id: [...] }");
    refuseUnknown(bulk, BULK_UPDATE_KEYS, call);
    if (typeof target === "string") return updateJob(engine, readId(target), update, scope as { user?: string });
    // Before the first write: a job whose type rejects the input must not fail the call when others have been changed.
    const rejecting = await checkInput(engine, update, readFilter(target, engine.clock.now(), "pending"), {
      inputView: this.#inputView,
      signal: bulk.signal,
    });
    const missing = new Set(typeof target.id === "string" ? [target.id] : target.id);
    const { apply, ...updating } = this.#updating(update, rejecting, "pending", onUnchanged);
    const found: typeof apply = (ids, within, jobs) => {
      for (const id of ids) missing.delete(id);
      return apply(ids, within, jobs);
    };
    const changed = await this.#changeMatching(target, scope, { ...updating, apply: found }, bulk);
    if (missing.size > 0) await onUnchanged?.([...missing].map((id) => ({ id, reason: NOT_FOUND })));
    return changed;
  }

  async #change<Result extends string>(
    target: Target,
    scope: Scope,
    { counted, apply }: Change<Result>,
    options: BulkOptions = {},
  ): Promise<Result | Result[] | number> {
    this.#requireOpen();
    if (typeof target === "string") return (await apply([readId(target)], scope, []))[0] as Result;
    if (isArray(target)) {
      const ids = target.map((id) => readId(id));
      const results: Result[] = [];
      for (let from = 0; from < ids.length; from += CHUNK) {
        results.push(...(await apply(ids.slice(from, from + CHUNK), scope, [])));
      }
      return results;
    }
    return this.#changeMatching(target, scope, { counted, apply }, options);
  }

  async #changeMatching<Result extends string>(
    target: Filter,
    scope: Scope,
    { counted, apply, example }: Change<Result>,
    options: BulkOptions = {},
  ): Promise<number> {
    refuseUnknown(options, BULK_KEYS, "a bulk change");
    const progress = { examined: 0, changed: 0 };
    const filter = readFilter(target, this.#requireOpen().clock.now(), example);
    // The state is checked again with the change: a job that was retried since it was listed must not be deleted as dead.
    const within = { ...scope, states: filter.stored.states };
    for await (const { jobs, examined } of this.#matching(filter, options.signal)) {
      options.signal?.throwIfAborted();
      const ids = jobs.map(({ id }) => id);
      const results = ids.length === 0 ? [] : await apply(ids, within, jobs);
      progress.examined += examined;
      progress.changed += results.filter((result) => counted.includes(result)).length;
      await options.onProgress?.({ ...progress });
    }
    return progress.changed;
  }

  async *#matching(filter: ReadFilter, signal: AbortSignal | undefined): AsyncGenerator<ListedJobs> {
    let cursor: string | null = null;
    do {
      signal?.throwIfAborted();
      const page: ListedJobs = await listJobs(
        this.#requireOpen(),
        filter,
        // In any order, a job that a change moves to a later place would be found and changed again.
        { limit: CHUNK, cursor, payloads: false, anyOrder: false },
        this.#inputView,
      );
      if (page.examined > 0) yield page;
      cursor = page.cursor;
    } while (cursor !== null);
  }
}

/**
 * Counts cancelled jobs and emits `cancelled` events. Type and queue come from the list, or are read now. The jobs are already
 * cancelled, so an error here must not fail the call: the events are then left out.
 */
async function publishCancelled(
  { store, events, history, logger }: EngineContext,
  ids: readonly string[],
  listed: readonly JobEvent[],
): Promise<void> {
  const known = new Map(listed.map((job) => [job.id, job]));
  const unknown = ids.filter((id) => !known.has(id));
  try {
    const page = { limit: CHUNK, cursor: null, payloads: false };
    const read = unknown.length === 0 ? [] : (await store.list({ ids: unknown }, page)).jobs;
    for (const job of read) known.set(job.id, job);
  } catch (error) {
    logger.warn(
      { jobs: unknown.length, error },
      "jobs were cancelled, but their events were not emitted: reading them failed",
    );
  }
  for (const id of ids) {
    const job = known.get(id);
    if (job === undefined) continue;
    history.cancelled(job);
    if (events.hasListeners("cancelled")) events.emit("cancelled", { id, type: job.type, queue: job.queue });
  }
}

function isArray(target: readonly string[] | Filter): target is readonly string[] {
  return Array.isArray(target);
}
