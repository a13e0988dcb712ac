import type { EnqueueResult } from "../../job/enqueue-types.js";
import { StoreUnavailableError } from "../../errors.js";
import type { InsertResult, NewJob } from "../../store.js";
import type { EngineContext } from "../context.js";
import { BUSY, busyPause, retryWhileBusy } from "../retry-busy.js";
import { Batcher } from "./batcher.js";
import { readInserted } from "./enqueue-result.js";
import { givenKey } from "./unique.js";

/** Inserts jobs outside a caller's transaction, and publishes that they were enqueued. */
export class JobInserter {
  readonly #engine: EngineContext;
  readonly #batcher: Batcher<NewJob, InsertResult | "busy">;

  constructor(engine: EngineContext) {
    this.#engine = engine;
    const insert = (jobs: NewJob[]): Promise<(InsertResult | "busy")[]> => {
      const inserted = engine.store.insert(jobs);
      if (engine.store.capabilities.together) for (const call of engine.insertListeners) call(jobs);
      return inserted;
    };
    this.#batcher = new Batcher(insert, { bytesOf: (job) => job.input.length });
  }

  /** Resolves when every job so far is inserted. */
  idle(): Promise<void> {
    return this.#batcher.idle();
  }

  /** Inserts one job, in a batch with others that are enqueued at the same time. */
  async insert(job: NewJob): Promise<EnqueueResult> {
    const inserted = await this.#batcher.add(job);
    return this.publish(job, inserted === "busy" ? await this.retryBusy(job) : inserted);
  }

  /**
   * Retries an insert that returned `busy`: another open transaction is inserting the job's unique key, id or queue, or has
   * locked its user's row. Whether the job is a duplicate depends on whether that transaction commits.
   */
  async retryBusy(job: NewJob): Promise<InsertResult> {
    const { clock } = this.#engine;
    const limit = { deadline: clock.monotonic() + BUSY.enqueueWaitMs };
    await busyPause(clock);
    const inserted = await retryWhileBusy(clock, limit, () => this.#batcher.add(job));
    if (inserted !== "busy") return inserted;
    throw new StoreUnavailableError(
      `timed out after ${BUSY.enqueueWaitMs / 1_000} s waiting for an open transaction that ${whyBusy(job)}; retry`,
    );
  }

  /** Reads the store's result and emits `enqueued`. Not for jobs of a caller's transaction, which may still roll back. */
  publish(job: NewJob, inserted: InsertResult | undefined): EnqueueResult {
    const result = readInserted(job, inserted);
    const { events, history } = this.#engine;
    if (!result.duplicate) history.enqueued(job);
    if ((!result.duplicate || result.replaced) && events.hasListeners("enqueued")) {
      events.emit("enqueued", { id: result.id, type: job.type, queue: job.queue, replaced: result.replaced });
    }
    return result;
  }
}

/** What the other transaction most likely holds. */
function whyBusy({ id, unique, user, queue }: NewJob): string {
  if (unique !== null) return `holds the unique key ${JSON.stringify(givenKey(unique.key))}`;
  const other = `enqueues the id ${id} or creates the queue ${JSON.stringify(queue)}`;
  return user === null ? other : `has locked the row of the user ${JSON.stringify(user)}, ${other}`;
}
