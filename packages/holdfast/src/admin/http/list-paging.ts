import type { EngineContext } from "../../engine/context.js";
import { readListFilter, type ReadFilter } from "../../engine/client/filter.js";
import { readJob } from "../../engine/client/job-view.js";
import { cursorAt, listJobs, withHolder, type InputView, type ListedJobs } from "../../engine/client/list-jobs.js";
import { isSearch } from "../../engine/client/search-condition.js";
import type { Job } from "../../job/job.js";
import type { State } from "../../job/state.js";
import type { JobFilter, PageRequest, Skipped, Store } from "../../store.js";
import { ApiError } from "./api-error.js";

export interface Page {
  jobs: Job[];
  cursor: string | null;
  /** How many jobs were read. */
  examined: number;
}

const FILL_MS = 50;
const SKIP_MS = 2_000;
// Jobs skipped in one store call, so that the time is checked often enough.
const SKIPPED = 5_000;
// For stores without `skip`, which have to read the skipped jobs.
const MAX_READ = 1_000;

/**
 * A page without payloads. If few of very many jobs match, the store returns short pages; this combines several of them for up
 * to 50 ms. A search by input already examines as many jobs as a call may.
 */
export async function filledPage(
  engine: EngineContext,
  filter: ReadFilter,
  page: PageRequest,
  inputView?: InputView,
): Promise<Page> {
  const { limit } = page;
  const until = performance.now() + FILL_MS;
  const filled: Page = { jobs: [], cursor: page.cursor, examined: 0 };
  do {
    const part = { ...page, limit: limit - filled.jobs.length, cursor: filled.cursor, payloads: false };
    const { jobs, cursor, examined }: ListedJobs = await listJobs(engine, filter, part, inputView);
    filled.jobs.push(...jobs.map((job) => readJob(job, { hasHistory: false })));
    filled.cursor = cursor;
    filled.examined += examined;
  } while (filled.cursor !== null && filled.jobs.length < limit && !isSearch(filter) && performance.now() < until);
  return filled;
}

/** Skips `offset` jobs and returns the cursor of the page after them; null: there are no more jobs. */
export async function skip(
  engine: EngineContext,
  filter: ReadFilter,
  { order }: Pick<PageRequest, "order">,
  offset: number,
): Promise<string | null> {
  const until = performance.now() + SKIP_MS;
  const stored = await withHolder(engine, filter);
  if (stored === null) return null;
  let cursor: string | null = null;
  for (let left = offset; left > 0;) {
    if (performance.now() > until) {
      throw new ApiError(
        400,
        "OFFSET_TOO_LARGE",
        `offset ${offset} is too large for this filter; use cursor pagination`,
      );
    }
    const page: Skipped = await skipSome(engine.store, stored, { limit: left, cursor, order });
    ({ cursor } = page);
    if (cursor === null) return null;
    left -= page.passed;
  }
  return cursor === null ? null : cursorAt(engine, filter, { order }, cursor);
}

async function skipSome(
  store: Store,
  filter: JobFilter,
  page: Pick<PageRequest, "limit" | "cursor" | "order">,
): Promise<Skipped> {
  if (store.skip !== undefined) return store.skip(filter, { ...page, limit: Math.min(page.limit, SKIPPED) });
  const { jobs, cursor } = await store.list(filter, {
    ...page,
    limit: Math.min(page.limit, MAX_READ),
    payloads: false,
  });
  return { passed: jobs.length, cursor };
}

/** The latest failures: jobs that wait for a retry, and dead jobs. */
export async function latestFailures(engine: EngineContext, limit: number): Promise<Job[]> {
  const page = { limit, cursor: null };
  const inState = (state: State): Promise<Page> =>
    filledPage(engine, readListFilter({ state }, engine.clock.now()), page);
  // Two queries: finding failed jobs means scanning all waiting jobs, and that must not use up the time for the dead ones.
  const pages = await Promise.all([inState("dead"), inState("failed")]);
  const failedAt = ({ error, updatedAt }: Job): number => (error?.at ?? updatedAt).getTime();
  const jobs = pages.flatMap(({ jobs: found }) => found);
  return jobs.toSorted((one, other) => failedAt(other) - failedAt(one)).slice(0, limit);
}
