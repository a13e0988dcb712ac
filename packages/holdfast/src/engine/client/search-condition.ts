import type { StoredError, StoredJob } from "../../store.js";
import type { ReadFilter } from "./filter.js";
import { parseStored } from "./job-view.js";

/** Whether a filter has conditions that no index helps with: they are compared with each job that matches the others. */
export function isSearch({ input, error }: Pick<ReadFilter, "input" | "error">): boolean {
  return input !== null || error !== null;
}

/** Whether a job meets those conditions. `inputView`: as in `listJobs`. */
export function matchesSearch(
  { input, error }: Pick<ReadFilter, "input" | "error">,
  inputView: (input: unknown) => unknown,
): (job: StoredJob) => boolean {
  return (job) =>
    (error === null || hasText(job.error, error)) &&
    (input === null || input.matches(inputView(parseStored(job.input))));
}

/** `text` is in lower case. */
function hasText(error: StoredError | null, text: string): boolean {
  if (error === null) return false;
  return error.message.toLowerCase().includes(text) || (error.code?.toLowerCase().includes(text) ?? false);
}
