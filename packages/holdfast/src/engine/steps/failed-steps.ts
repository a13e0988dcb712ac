import { read } from "../../job/thrown.js";

// Errors within errors that are looked at.
const MAX_ERRORS = 100;

/** The steps whose failures are this error, a cause of it, or one of the errors that it combines. */
export function failedStepsIn(thrown: unknown, failures: ReadonlyMap<unknown, string>): readonly string[] {
  if (failures.size === 0) return [];
  const found = new Set<string>();
  const looked = new Set<unknown>();
  const left = [thrown];
  for (let error = left.pop(); error !== undefined && looked.size < MAX_ERRORS; error = left.pop()) {
    if (typeof error !== "object" || error === null || looked.has(error)) continue;
    looked.add(error);
    const step = failures.get(error);
    if (step !== undefined) found.add(step);
    const errors = read(error, "errors");
    left.push(read(error, "cause"), ...(Array.isArray(errors) ? (errors as unknown[]) : []));
  }
  return [...found];
}
