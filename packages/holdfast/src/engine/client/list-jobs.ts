import { createHash } from "node:crypto";
import { InvalidOptionError } from "../../errors.js";
import type { JobFilter, JobPage, PageRequest, StoredJob } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { ReadFilter } from "./filter.js";
import type { InputMatcher } from "./input-condition.js";
import { parseStored } from "./job-view.js";

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
const PAGE = 200;
// On a store that charges per request.
const METERED_EXAMINED_JOBS = 200;
const METERED_PAGE = 100;

const NOTHING: ListedJobs = { jobs: [], cursor: null, examined: 0 };

/**
 * Lists jobs. Cursors are encrypted and belong to the conditions and the order of their list. `inputView` changes an input before
 * it is compared: a caller who sees redacted inputs must not be able to search for the redacted values.
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
  const { input } = filter;
  const { jobs, cursor, examined } =
    input === null
      ? withCount(await store.list(stored, { ...page, cursor: from }))
      : await search(engine, stored, { ...page, cursor: from }, (value) => input.matches(inputView(value)));
  return { jobs, cursor: cursor === null ? null : await cursorAt(engine, filter, page, cursor), examined };
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

/** Reads pages of jobs that match the other conditions, and compares each input. */
async function search(
  { store, clock }: EngineContext,
  filter: JobFilter,
  page: PageRequest,
  matches: InputMatcher["matches"],
): Promise<ListedJobs> {
  const { metered } = store.capabilities;
  const startedAt = clock.monotonic();
  const found: StoredJob[] = [];
  let { cursor } = page;
  let [examined, bytes] = [0, 0];
  for (;;) {
    const limit = metered ? METERED_PAGE : PAGE;
    const { jobs, cursor: next } = await store.list(filter, { ...page, limit, cursor, payloads: true });
    for (const [at, job] of jobs.entries()) {
      examined++;
      bytes += job.input.length;
      if (!matches(parseStored(job.input))) continue;
      found.push(page.payloads === false ? { ...job, input: "null", output: null } : job);
      if (found.length === page.limit)
        return { jobs: found, cursor: await cursorAfter(at + 1, jobs.length, next), examined };
    }
    const isDone =
      examined >= (metered ? METERED_EXAMINED_JOBS : EXAMINED_JOBS) ||
      bytes >= EXAMINED_BYTES ||
      clock.monotonic() - startedAt >= EXAMINED_MS;
    if (next === null || isDone) return { jobs: found, cursor: next, examined };
    cursor = next;
  }

  /** The cursor after the first `count` jobs of the page that was read last. */
  async function cursorAfter(count: number, length: number, next: string | null): Promise<string | null> {
    if (count === length) return next;
    return (await store.list(filter, { ...page, limit: count, cursor, payloads: false })).cursor;
  }
}

/** Identifies the conditions and the order of a list. */
function labelOf({ stored, key, input }: ReadFilter, { order = "newest" }: Pick<PageRequest, "order">): string {
  const conditions = Object.entries(stored).filter(([, value]) => value !== undefined);
  const sorted = conditions.toSorted(([one], [other]) => (one < other ? -1 : 1));
  const text = JSON.stringify([sorted, key, input?.label ?? null, order]);
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
