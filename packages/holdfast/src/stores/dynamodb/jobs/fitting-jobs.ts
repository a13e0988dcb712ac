import { jsonBytes } from "../../../job/json.js";
import { numberOf, stringOf, type Item } from "../connection/attributes.js";

// BatchGetItem returns at most 16 MB.
const MAX_INPUT_BYTES = 8_000_000;

/** How many of the jobs have inputs that one request reads, and payloads of at most `bytes`; at least one. */
export function fittingJobs(jobs: readonly Item[], bytes: number = Infinity): number {
  let [separate, all] = [0, 0];
  const end = jobs.findIndex((job, nth) => {
    const inputBytes = numberOf(job, "bytes") ?? 0;
    separate += job["input_at"] === undefined ? 0 : inputBytes;
    all += inputBytes + jsonBytes(stringOf(job, "output") ?? "");
    return nth > 0 && (separate > MAX_INPUT_BYTES || all > bytes);
  });
  return end === -1 ? jobs.length : end;
}
