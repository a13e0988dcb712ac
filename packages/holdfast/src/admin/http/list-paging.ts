import type { EngineContext } from "../../engine/context.js";
import type { Holdfast } from "../../engine/client/holdfast.js";
import type { Job } from "../../job/job.js";
import type { JobFilter, Skipped, Store } from "../../store.js";
import type { JobConditions } from "../contract/api-types.js";
import { ApiError } from "./api-error.js";

/** The client, or the jobs of one user. */
export type JobLister = Pick<Holdfast, "list">;

export interface Page {
  jobs: Job[];
  cursor: string | null;
}

const FILL_MS = 50;
const SKIP_MS = 2_000;
// For stores without `skip`, which have to read the skipped jobs.
const MAX_READ = 1_000;

/**
 * A page without payloads. If few of very many jobs match, the store returns short pages; this combines several of them for up
 * to 50 ms.
 */
export async function filledPage(
  lister: JobLister,
  conditions: JobConditions,
  limit: number,
  from: string | null = null,
): Promise<Page> {
  const until = performance.now() + FILL_MS;
  const filled: Page = { jobs: [], cursor: from };
  do {
    const options = { limit: limit - filled.jobs.length, cursor: filled.cursor, payloads: false };
    const page: Page = await lister.list({ ...conditions, ...options });
    filled.jobs.push(...page.jobs);
    filled.cursor = page.cursor;
  } while (filled.cursor !== null && filled.jobs.length < limit && performance.now() < until);
  return filled;
}

/** Skips `offset` jobs and returns the cursor of the page after them; null: there are no more jobs. */
export async function skip(
  { store, cursors }: Pick<EngineContext, "store" | "cursors">,
  filter: JobFilter,
  offset: number,
): Promise<string | null> {
  const until = performance.now() + SKIP_MS;
  let cursor: string | null = null;
  for (let left = offset; left > 0;) {
    if (performance.now() > until) {
      throw new ApiError(
        400,
        "OFFSET_TOO_LARGE",
        `offset ${offset} is too large for this filter; use cursor pagination`,
      );
    }
    const page: Skipped = await skipSome(store, filter, left, cursor);
    ({ cursor } = page);
    if (cursor === null) return null;
    left -= page.passed;
  }
  return cursor === null ? null : cursors.encrypt(cursor);
}

async function skipSome(store: Store, filter: JobFilter, limit: number, cursor: string | null): Promise<Skipped> {
  if (store.skip !== undefined) return store.skip(filter, { limit, cursor });
  const page = await store.list(filter, { limit: Math.min(limit, MAX_READ), cursor, payloads: false });
  return { passed: page.jobs.length, cursor: page.cursor };
}

/** The latest failures: jobs that wait for a retry, and dead jobs. */
export async function latestFailures(lister: JobLister, limit: number): Promise<Job[]> {
  // Two queries: finding failed jobs means scanning all waiting jobs, and that must not use up the time for the dead ones.
  const pages = await Promise.all([
    filledPage(lister, { state: ["dead"] }, limit),
    filledPage(lister, { state: ["failed"] }, limit),
  ]);
  const failedAt = ({ error, updatedAt }: Job): number => (error?.at ?? updatedAt).getTime();
  const jobs = pages.flatMap((page) => page.jobs);
  return jobs.toSorted((one, other) => failedAt(other) - failedAt(one)).slice(0, limit);
}
