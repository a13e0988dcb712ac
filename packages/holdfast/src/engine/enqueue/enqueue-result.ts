import type { EnqueueManyResult, EnqueueResult } from "../../job/enqueue-types.js";
import { DuplicateJobError, HoldfastError } from "../../errors.js";
import type { InsertResult, NewJob } from "../../store.js";
import { givenKey } from "./unique.js";

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
