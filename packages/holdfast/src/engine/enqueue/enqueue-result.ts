import { DuplicateJobError, HoldfastError } from "../../errors.js";
import type { JobId } from "../../job/job-id.js";
import type { InsertResult, NewJob } from "../../store.js";
import { givenKey } from "./unique.js";

/** What `enqueue` returns. */
export interface EnqueueResult<Output = unknown> {
  /** The new job, or the existing one with the same key or id. `hf.result(id)` has the output's type. */
  id: JobId<Output>;
  /** A job with the same key or id existed. */
  duplicate: boolean;
  /** The existing job now has the new input and options. */
  replaced: boolean;
}

/** The result for one job of `enqueueMany`: what `enqueue` would have returned, or the error that it would have thrown. */
export type EnqueueManyResult<Output = unknown> =
  | (EnqueueResult<Output> & { error: null })
  | { id: null; error: HoldfastError };

/** Turns the store's result into what `enqueue` returns, or throws. */
export function readInserted(job: NewJob, inserted: InsertResult | undefined): EnqueueResult {
  if (inserted === undefined) throw new HoldfastError("STORE_ERROR", "the store returned no result");
  if (inserted.status === "refused") {
    if (inserted.reason === "key-held") throw new DuplicateJobError(givenKey(job.unique?.key ?? ""), inserted.of);
    throw new HoldfastError("NOT_STORED", `the store refused the job: ${inserted.error}`);
  }
  const duplicate = inserted.status === "duplicate";
  return { id: duplicate ? inserted.of : job.id, duplicate, replaced: duplicate && inserted.replaced };
}

export function bulkResult({ id, duplicate, replaced }: EnqueueResult): EnqueueManyResult {
  return { id, duplicate, replaced, error: null };
}
