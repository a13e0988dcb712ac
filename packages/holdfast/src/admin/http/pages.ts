import type { EngineContext } from "../../engine/context.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Job } from "../../job/job.js";
import type { JobFilter, Skipped, Store } from "../../store.js";
import type { JobConditions } from "../contract/api-types.js";
import { ApiError } from "./api-error.js";

/** All jobs, or one user's. */
export type Listed = Pick<Holdfast, "list">;

export interface Page {
  jobs: Job[];
  cursor: string | null;
}

const FILLING_MS = 50;
const PASSING_MS = 2_000;
// In a store that reads what it passes over.
const LONGEST = 1_000;

/**
 * A page without payloads. Where few match among very many the store gives short ones: it is filled from several, as far as a
 * moment allows.
 */
export async function filledPage(
  listed: Listed,
  conditions: JobConditions,
  limit: number,
  from: string | null = null,
): Promise<Page> {
  const until = performance.now() + FILLING_MS;
  const filled: Page = { jobs: [], cursor: from };
  do {
    const rest = { limit: limit - filled.jobs.length, cursor: filled.cursor, payloads: false };
    const page: Page = await listed.list({ ...conditions, ...rest });
    filled.jobs.push(...page.jobs);
    filled.cursor = page.cursor;
  } while (filled.cursor !== null && filled.jobs.length < limit && performance.now() < until);
  return filled;
}

/** Where the page after so many jobs begins; null: there is none. */
export async function skip(
  { store, cursors }: Pick<EngineContext, "store" | "cursors">,
  filter: JobFilter,
  offset: number,
): Promise<string | null> {
  const until = performance.now() + PASSING_MS;
  let cursor: string | null = null;
  for (let left = offset; left > 0;) {
    if (performance.now() > until) {
      throw new ApiError(400, "OFFSET_TOO_LARGE", `${offset} such jobs take too long to pass over; go on by cursor`);
    }
    const page: Skipped = await passed(store, filter, left, cursor);
    ({ cursor } = page);
    if (cursor === null) return null;
    left -= page.passed;
  }
  return cursor === null ? null : cursors.seal(cursor);
}

async function passed(store: Store, filter: JobFilter, most: number, cursor: string | null): Promise<Skipped> {
  if (store.skip !== undefined) return store.skip(filter, { limit: most, cursor });
  const page = await store.list(filter, { limit: Math.min(most, LONGEST), cursor, payloads: false });
  return { passed: page.jobs.length, cursor: page.cursor };
}

/** The latest failures: jobs that wait for another attempt, and those that were given up. */
export async function latestFailures(listed: Listed, limit: number): Promise<Job[]> {
  // Each by themselves: those that wait are looked for among all that do, which must not cut short what is found of the others.
  const pages = await Promise.all([
    filledPage(listed, { state: ["dead"] }, limit),
    filledPage(listed, { state: ["failed"] }, limit),
  ]);
  const failedAt = ({ error, updatedAt }: Job): number => (error?.at ?? updatedAt).getTime();
  const jobs = pages.flatMap((page) => page.jobs);
  return jobs.toSorted((one, other) => failedAt(other) - failedAt(one)).slice(0, limit);
}
