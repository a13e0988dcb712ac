import { createHash } from "node:crypto";
import { InvalidOptionError } from "../../errors.js";
import type { JobFilter, JobPage, PageRequest, StoredJob } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { ReadFilter } from "./filter.js";
import { isSearch, matchesSearch } from "./search-condition.js";

/** Changes an input before a search compares it. */
export type InputView = (input: unknown) => unknown;

/** A page of a list. */
export interface ListedJobs {
  jobs: StoredJob[];
  cursor: string | null;
  /** How many jobs were read to find them. */
  examined: number;
}

// A search by input reads jobs until one of these is reached.
const EXAMINED_JOBS = 2_000;
const EXAMINED_BYTES = 8_000_000;
const EXAMINED_MS = 30;
// The first page is small, because the size of the jobs is not known yet: five of the largest can be read and compared in 30 ms.
const FIRST_PAGE = 5;
const PAGE_GROWTH = 5;
const PAGE = 200;
const PAGE_BYTES = 1_000_000;
/** On a store that charges per request, a search or a count by list reads one page, in any order. */
export const METERED_PAGE = 100;

const NOTHING: ListedJobs = { jobs: [], cursor: null, examined: 0 };

/**
 * Lists jobs. Cursors are encrypted and belong to the conditions and the order of their list. `inputView` changes an input before
 * it is compared: a caller who sees redacted inputs must not be able to search for the redacted values. On metered stores, a search is
 * in any order, unless `anyOrder` is false.
 */
export async function listJobs(
  engine: EngineContext,
  filter: ReadFilter,
  page: PageRequest,
  inputView: InputView = (input) => input,
): Promise<ListedJobs> {
  const { store, cursors } = engine;
  const label = labelOf(filter, page);
  const from = page.cursor === null ? null : positionOf(await cursors.decrypt(page.cursor), label);
  const stored = await withHolder(engine, filter);
  if (stored === null) return NOTHING;
  const { jobs, cursor, examined } = isSearch(filter)
    ? await search(engine, stored, { ...page, cursor: from }, filter, inputView)
    : withCount(await store.list(stored, { ...page, cursor: from }));
  return { jobs, cursor: cursor === null ? null : await cursorAt(engine, filter, page, cursor), examined };
}

/** How many jobs match a search, up to a number, and whether there may be more. It reads jobs until the limits of bytes or time. */
export async function countMatches(
  engine: EngineContext,
  filter: ReadFilter,
  stored: JobFilter,
  atMost: number,
  inputView: InputView = (input) => input,
): Promise<{ count: number; exact: boolean }> {
  const page = { limit: atMost, cursor: null, payloads: false };
  const { jobs, cursor } = await search(engine, stored, page, filter, inputView, Infinity);
  return { count: jobs.length, exact: cursor === null };
}

/** The cursor of a list that continues at a position of the store. */
export async function cursorAt(
  { cursors }: Pick<EngineContext, "cursors">,
  filter: ReadFilter,
  page: Pick<PageRequest, "order">,
  position: string,
): Promise<string> {
  return cursors.encrypt(`${labelOf(filter, page)}${position}`);
}

function withCount({ jobs, cursor }: JobPage): ListedJobs {
  return { jobs, cursor, examined: jobs.length };
}

/** The store's filter, with the holder of the key as an id; null if no job can match. */
export async function withHolder({ store }: EngineContext, { stored, key }: ReadFilter): Promise<JobFilter | null> {
  if (key === null) return stored;
  const holder = await store.keyHolder(key);
  if (holder === null || !holder.exists || stored.ids?.includes(holder.job) === false) return null;
  return { ...stored, ids: [holder.job] };
}

/** Reads pages of jobs that match the other conditions, and compares the input and the error of each. */
async function search(
  { store, clock }: EngineContext,
  filter: JobFilter,
  page: PageRequest,
  conditions: ReadFilter,
  inputView: InputView,
  maxExamined: number = EXAMINED_JOBS,
): Promise<ListedJobs> {
  const { metered } = store.capabilities;
  const matches = matchesSearch(conditions, inputView);
  const wantsPayloads = page.payloads !== false;
  // Without a condition on inputs, only the payloads of the jobs that are found are read; on a metered store, with them.
  const payloads = conditions.input !== null || (wantsPayloads && metered);
  // When the first page has been read: it is small, and after a connect or a checkpoint its few jobs must not be all.
  let startedAt: number | null = null;
  const found: StoredJob[] = [];
  let { cursor } = page;
  let [examined, bytes, comparedMs] = [0, 0, 0];
  let size = metered ? METERED_PAGE : FIRST_PAGE;
  for (;;) {
    const anyOrder = metered && page.anyOrder !== false;
    // Jobs of any size may follow small ones.
    const maxBytes = Math.min(metered ? EXAMINED_BYTES : PAGE_BYTES, EXAMINED_BYTES - bytes);
    const request = { ...page, limit: size, cursor, payloads, bytes: maxBytes, anyOrder };
    const listedFrom = clock.monotonic();
    const { jobs, cursors, cursor: next } = await store.list(filter, request);
    const comparedFrom = clock.monotonic();
    const isFirst = startedAt === null;
    startedAt ??= comparedFrom;
    let passed = 0;
    for (const job of jobs) {
      passed++;
      bytes += job.input.length + (job.output?.length ?? 0);
      if (!matches(job)) continue;
      found.push(wantsPayloads ? job : { ...job, input: "null", output: null });
      if (found.length === page.limit) break;
    }
    comparedMs += clock.monotonic() - comparedFrom;
    // A result that is full within the page continues after its last job.
    const end = passed === jobs.length ? next : (cursors[passed - 1] ?? null);
    examined += passed;
    const elapsedMs = clock.monotonic() - startedAt;
    const pageMs = isFirst ? 0 : clock.monotonic() - listedFrom;
    const isDone =
      found.length >= page.limit ||
      metered ||
      examined >= maxExamined ||
      bytes >= EXAMINED_BYTES ||
      // Another page like this one would end too late.
      elapsedMs + pageMs >= EXAMINED_MS;
    if (end === null || isDone) {
      const complete = wantsPayloads && !payloads ? await withPayloads() : found;
      return { jobs: complete, cursor: end, examined };
    }
    cursor = end;
    size = nextSize(EXAMINED_MS - elapsedMs);
    // A store in memory returns at once: other work of this process must not wait for the whole search.
    await new Promise((resolve) => setImmediate(resolve));
  }

  /** The jobs that were found and still match, with their payloads. */
  async function withPayloads(): Promise<StoredJob[]> {
    if (found.length === 0) return found;
    const request = { limit: found.length, cursor: null, order: page.order };
    const { jobs } = await store.list({ ...filter, ids: found.map(({ id }) => id) }, request);
    return jobs.filter(matches);
  }

  /** As many jobs as can probably be read and compared in what is left of the limits. */
  function nextSize(leftMs: number): number {
    const leftBytes = Math.min(PAGE_BYTES, EXAMINED_BYTES - bytes);
    const known = Math.max(examined, 1);
    const estimate = Math.min(
      size * PAGE_GROWTH,
      PAGE,
      maxExamined - examined,
      (leftBytes * known) / Math.max(bytes, 1),
      (leftMs * known) / Math.max(comparedMs, Number.EPSILON),
    );
    return Math.max(1, Math.floor(estimate));
  }
}

/** Identifies the conditions and the order of a list. */
function labelOf({ stored, key, input, error }: ReadFilter, { order = "newest" }: Pick<PageRequest, "order">): string {
  const conditions = Object.entries(stored).filter(([, value]) => value !== undefined);
  const sorted = conditions.toSorted(([one], [other]) => (one < other ? -1 : 1));
  const text = JSON.stringify([sorted, key, input?.label ?? null, order, ...(error === null ? [] : [error])]);
  return createHash("sha256").update(text).digest("base64url").slice(0, LABEL_LENGTH);
}

const LABEL_LENGTH = 8;

function positionOf(cursor: string, label: string): string {
  if (cursor.startsWith(label)) return cursor.slice(LABEL_LENGTH);
  throw new InvalidOptionError(
    "cursor",
    "belongs to a list with other conditions or another order; start again without one",
  );
}
