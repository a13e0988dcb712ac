import { readId } from "../../job/id.js";
import { optionKeys, refuseUnknown } from "../../options.js";
import type { CancelResult, ChangeScope, JobFilter, JobPage, RemoveResult, RetryResult, Scope } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { JobEvent } from "../events/events.js";
import { readFilter, type Filter } from "./filter.js";

/** What a change of all jobs that match a filter can be watched and stopped by. */
export interface BulkOptions {
  /** Stops between two chunks; what is changed stays changed. */
  signal?: AbortSignal;
  /**
   * Called after each chunk: how many jobs were examined, and how many of them changed. The next chunk waits for a promise that it
   * returns. If it fails, so does the call; what is changed stays changed.
   */
  onProgress?: (progress: { examined: number; changed: number }) => unknown;
}

/** One job, some jobs, or all that match. */
export type Target = string | readonly string[] | Filter;

const BULK_KEYS: ReadonlySet<string> = optionKeys<BulkOptions>({ signal: true, onProgress: true });
// Jobs that one call to the store changes.
const CHUNK = 200;
// Side by side, and few enough to leave connections to others.
const READ_AT_ONCE = 3;

interface Change<Answer> {
  /** The answers that say that a job has changed. */
  counted: readonly Answer[];
  /** `listed`: the jobs of these ids, if they were found by a filter. */
  apply: (ids: readonly string[], within: ChangeScope, listed: readonly JobEvent[]) => Promise<Answer[]>;
}

/** Changes of jobs on request: one by one, or many in chunks. */
export class Changes {
  readonly #open: () => EngineContext;

  constructor(open: () => EngineContext) {
    this.#open = open;
  }

  cancel(target: Target, scope: Scope, options?: BulkOptions): Promise<CancelResult | CancelResult[] | number> {
    const apply: Change<CancelResult>["apply"] = async (ids, within, listed) => {
      const engine = this.#open();
      const answers = await engine.store.cancel(ids, within);
      const changed = ids.filter((_, index) => answers[index] === "cancelled");
      if (engine.events.hasListeners("cancelled")) await tellCancelled(engine, changed, listed);
      return answers;
    };
    return this.#change(target, scope, { counted: ["cancelled", "requested"], apply }, options);
  }

  retry(target: Target, scope: Scope, options?: BulkOptions): Promise<RetryResult | RetryResult[] | number> {
    const apply = async (ids: readonly string[], within: ChangeScope): Promise<RetryResult[]> => {
      const { store, events } = this.#open();
      const answers = await store.retry(ids, within);
      for (const [index, id] of ids.entries()) if (answers[index] === "retried") events.emit("retried", { id });
      return answers;
    };
    return this.#change(target, scope, { counted: ["retried"], apply }, options);
  }

  remove(target: Target, scope: Scope, options?: BulkOptions): Promise<RemoveResult | RemoveResult[] | number> {
    const apply = async (ids: readonly string[], within: ChangeScope): Promise<RemoveResult[]> => {
      const { store, events } = this.#open();
      const answers = await store.remove(ids, within);
      for (const [index, id] of ids.entries()) if (answers[index] === "removed") events.emit("removed", { id });
      return answers;
    };
    return this.#change(target, scope, { counted: ["removed"], apply }, options);
  }

  async #change<Answer extends string>(
    target: Target,
    scope: Scope,
    { counted, apply }: Change<Answer>,
    options: BulkOptions = {},
  ): Promise<Answer | Answer[] | number> {
    this.#open();
    if (typeof target === "string") return (await apply([readId(target)], scope, []))[0] as Answer;
    if (isList(target)) {
      const ids = target.map((id) => readId(id));
      const answers: Answer[] = [];
      for (let from = 0; from < ids.length; from += CHUNK) {
        answers.push(...(await apply(ids.slice(from, from + CHUNK), scope, [])));
      }
      return answers;
    }
    refuseUnknown(options, BULK_KEYS, "a change of many");
    const progress = { examined: 0, changed: 0 };
    const filter = readFilter(target);
    // Who deletes what is dead does not delete what was retried since it was listed.
    const within = { ...scope, states: filter.states };
    for await (const jobs of this.#matching(filter)) {
      options.signal?.throwIfAborted();
      const ids = jobs.map(({ id }) => id);
      const answers = await apply(ids, within, jobs);
      progress.examined += ids.length;
      progress.changed += answers.filter((answer) => counted.includes(answer)).length;
      await options.onProgress?.({ ...progress });
    }
    return progress.changed;
  }

  async *#matching(filter: JobFilter): AsyncGenerator<JobPage["jobs"]> {
    let cursor: string | null = null;
    do {
      const page: JobPage = await this.#open().store.list(filter, { limit: CHUNK, cursor, payloads: false });
      if (page.jobs.length > 0) yield page.jobs;
      cursor = page.cursor;
    } while (cursor !== null);
  }
}

/**
 * What the event tells beside the id was listed with the jobs, or is read now. By then they are cancelled, and nothing that
 * goes wrong here may say otherwise: an event that cannot be told is left out.
 */
async function tellCancelled(
  { store, events, logger }: EngineContext,
  ids: readonly string[],
  listed: readonly JobEvent[],
): Promise<void> {
  const known = new Map(listed.map((job) => [job.id, job]));
  for (let from = 0; from < ids.length; from += READ_AT_ONCE) {
    const some = ids.slice(from, from + READ_AT_ONCE);
    let jobs: (JobEvent | null)[];
    try {
      jobs = await Promise.all(some.map(async (id) => known.get(id) ?? (await store.get(id))));
    } catch (error) {
      logger.warn(
        { jobs: ids.length - from, error },
        "jobs were cancelled, and no event tells of them: reading them failed",
      );
      return;
    }
    for (const job of jobs) {
      if (job !== null) events.emit("cancelled", { id: job.id, type: job.type, queue: job.queue });
    }
  }
}

function isList(target: readonly string[] | Filter): target is readonly string[] {
  return Array.isArray(target);
}
