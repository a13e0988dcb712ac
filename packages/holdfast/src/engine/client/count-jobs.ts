import { readCount, refuseUnknown, optionKeys } from "../../options.js";
import { isRequested } from "../../job/stored-queue.js";
import type { JobFilter } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { ReadFilter } from "./filter.js";
import { isSearch } from "./search-condition.js";
import { countMatches, METERED_PAGE, withHolder, type InputView } from "./list-jobs.js";

/** What `hf.count` takes besides the filter. */
export interface CountOptions {
  /** Stop counting here. Default 10,000. A condition on inputs or errors has to read the jobs, so that it may end earlier. */
  atMost?: number;
}

/** How many jobs match. `exact: false`: at least this many. */
export interface JobCount {
  count: number;
  exact: boolean;
}

const COUNT_KEYS: ReadonlySet<string> = optionKeys<CountOptions>({ atMost: true });
const DEFAULT_AT_MOST = 10_000;
const MAX_COUNT_MS = 30;
// No store call is begun that would probably end later.
const LATEST_END_MS = 40;
// Jobs skipped in one store call, so that the time is checked often enough.
const MAX_SKIPPED = 2_000;

/**
 * Counts without reading the jobs, where the store can, and for a limited time. A store without `skip` has to read them, so only
 * one page is counted. `inputView`: as in `listJobs`.
 */
export async function countJobs(
  engine: EngineContext,
  filter: ReadFilter,
  options: CountOptions,
  inputView?: InputView,
): Promise<JobCount> {
  refuseUnknown(options, COUNT_KEYS, "count");
  const atMost = readCount(options.atMost ?? DEFAULT_AT_MOST, "atMost", 1, Number.MAX_SAFE_INTEGER);
  const stored = await withHolder(engine, filter);
  if (stored === null) return { count: 0, exact: true };
  if (isSearch(filter)) return countMatches(engine, filter, stored, atMost, inputView);
  if (isCounted(stored)) {
    const { store } = engine;
    const { states, types, queues } = stored;
    const request = { states, types, queues, atMost };
    const { counts, partial = false } = await store.stats(request);
    const count = counts.reduce((sum, row) => (isRequested(request, row) ? sum + row.count : sum), 0);
    // Only the counts of completed jobs may be inexact.
    const isExact = store.capabilities.exactCounts || states?.includes("completed") === false;
    const exact = count <= atMost && isExact && !partial;
    return { count: Math.min(count, atMost), exact };
  }
  return countBySkipping(engine, stored, atMost);
}

/** Whether the store's counters are enough for this filter. */
function isCounted(filter: JobFilter): boolean {
  const { states: _states, types: _types, queues: _queues, ...others } = filter;
  return Object.values(others).every((value) => value === undefined);
}

async function countBySkipping({ store, clock }: EngineContext, filter: JobFilter, atMost: number): Promise<JobCount> {
  const startedAt = clock.monotonic();
  let [count, cursor] = [0, null as string | null];
  let [elapsedMs, lastMs] = [0, 0];
  do {
    // One more than asked for shows whether there are more.
    const limit = atMost + 1 - count;
    const page =
      store.skip === undefined
        ? await listedPage(filter, Math.min(limit, METERED_PAGE), cursor)
        : await store.skip(filter, { limit: Math.min(limit, MAX_SKIPPED), cursor });
    count += page.passed;
    cursor = page.cursor;
    if (count > atMost) return { count: atMost, exact: false };
    lastMs = clock.monotonic() - startedAt - elapsedMs;
    elapsedMs += lastMs;
  } while (
    cursor !== null &&
    store.skip !== undefined &&
    elapsedMs < MAX_COUNT_MS &&
    elapsedMs + lastMs < LATEST_END_MS
  );
  return { count, exact: cursor === null };

  async function listedPage(
    conditions: JobFilter,
    limit: number,
    from: string | null,
  ): Promise<{ passed: number; cursor: string | null }> {
    const { jobs, cursor: next } = await store.list(conditions, {
      limit,
      cursor: from,
      payloads: false,
      anyOrder: store.capabilities.metered,
    });
    return { passed: jobs.length, cursor: next };
  }
}
