import { createHash } from "node:crypto";
import { isFinished } from "../../../job/state.js";
import type { JobFilter, JobPage, PageRequest } from "../../../store.js";
import { stringOf, type Item } from "../connection/attributes.js";
import type { Config, SharedConfig } from "../connection/config.js";
import type { Page, Table } from "../connection/table.js";
import { fittingJobs } from "./fitting-jobs.js";
import { CHILDREN, classOf, ERRORS, idOf, jobKey, LIST_CLASSES, LISTED, LIVE, OWNED, type Key } from "./item-keys.js";
import { isDeleted, storedJob } from "./items.js";
import { inputsOf } from "./job-details.js";
import { cursorOf, foreignCursor, type Place, type Position } from "./list-cursors.js";
import { lanesOf, matches, mayBe } from "./list-matching.js";
import {
  after,
  boundsOf,
  candidate,
  comesFirst,
  isEmptyWindow,
  isInside,
  listedOf,
  windowOf,
  type Candidate,
  type Window,
} from "./list-window.js";

/** Jobs that may match, and where the list continues after each of them. */
interface Batch {
  found: (Candidate & { position: Position })[];
  /** Null: these are the last. */
  next: Position | null;
}
/** Partitions that are read together, in the order of the page. */
interface Group {
  name: string;
  partitions: readonly string[];
}
/** Jobs of a batch that exist. */
interface FoundJobs {
  found: (Batch["found"][number] & { item: Item })[];
  next: Position | null;
}
interface ListRequest {
  position: Position;
  window: Window;
  /** The maximum number of candidates. */
  wanted: number;
  /** The maximum number of queries. */
  queries: number;
}
type Index = typeof LISTED | typeof OWNED | typeof CHILDREN | typeof ERRORS;

// A call also takes one request each for the shared item, the jobs and their inputs, and one for the key of cursors if it is the
// first of its process.
const MAX_QUERIES = 6;
// As many jobs as one BatchGetItem request reads.
const MAX_JOBS = 100;
// Entries of live jobs read by one query if few of them match, about 500 KB.
const MAX_ENTRIES = 2_000;
const ID = /^[0-9a-f-]{36}$/;

/**
 * Lists in any order, in at most ten requests per call. If the jobs are in few partitions, these are merged, and the list is in
 * order. Otherwise a call reads some of them and the next call continues there.
 *
 * A type's jobs of one shard are in three partitions, which are always merged: a job that changes between them keeps its
 * position, so it is found once. The groups of partitions are in the order of hashes of their names. A type, lane or shard that is
 * added later comes somewhere in that order: its jobs are found or not, like those that are enqueued meanwhile.
 *
 * Live jobs are read by due time, earliest first. A job whose due time changes usually moves back (a claim, an extended lease, a
 * retry), so it may be found twice; one that becomes due earlier or changes its lane may be missed.
 */
export class BoundedLists {
  readonly #table: Table;
  readonly #config: SharedConfig;

  constructor(table: Table, config: SharedConfig) {
    this.#table = table;
    this.#config = config;
  }

  async page(filter: JobFilter, page: PageRequest, position: Position, now: number): Promise<JobPage> {
    const { limit, payloads = true, order = "newest", bytes } = page;
    const window = windowOf(filter, position.listed, order);
    if (isEmptyWindow(window)) return { jobs: [], cursors: [], cursor: null };
    const request = { position, window, wanted: Math.min(limit, MAX_JOBS), queries: MAX_QUERIES };
    const { found, next } =
      filter.ids === undefined
        ? await this.#read(await this.#candidates(filter, request))
        : await this.#ofIds(filter.ids, request);
    // The entry of a deleted job may still be there when its id is used again.
    const matching = found.filter(
      ({ item, listed }) => listedOf(item) === listed && !isDeleted(item, now) && matches(item, filter),
    );
    const fitting = payloads
      ? fittingJobs(
          matching.map(({ item }) => item),
          bytes,
        )
      : matching.length;
    const shown = matching.slice(0, Math.min(limit, fitting));
    const items = shown.map(({ item }) => item);
    const cursors = shown.map((each) => cursorOf(each.position));
    const end = shown.length < matching.length ? shown.at(-1)?.position : next;
    const inputs = payloads ? await inputsOf(this.#table, items) : new Map<string, string>();
    const bare = payloads ? {} : { input: "null", output: null };
    return {
      jobs: items.map((item) => ({ ...storedJob(item, { inputs }), ...bare })),
      cursors,
      cursor: end === undefined || end === null ? null : cursorOf(end),
    };
  }

  /** Reads the jobs in one request. If DynamoDB does not return all of them, the batch ends before the first that is missing. */
  async #read({ found: given, next }: Batch): Promise<FoundJobs> {
    // An entry that moves during the read may be found twice.
    const found = [...new Map(given.map((each) => [`${each.pk} ${each.listed}`, each])).values()];
    const { items, unread } = await this.#table.getSome(found.map(keyOf));
    const cut = found.findIndex(({ pk }) => unread.has(pk));
    // Without the first job there would be no progress.
    if (cut === 0) items.push(...(await this.#table.getAll(found.filter(({ pk }) => unread.has(pk)).map(keyOf))));
    const byKey = new Map(items.map((item) => [stringOf(item, "pk"), item]));
    const read = cut > 0 ? found.slice(0, cut) : found;
    const jobs = read.flatMap((each) => {
      const item = byKey.get(each.pk);
      return item === undefined ? [] : [{ ...each, item }];
    });
    return { found: jobs, next: cut > 0 ? (read.at(-1)?.position ?? null) : next };
  }

  /** As many ids as one request reads are in order; more are read in the order of the ids. */
  async #ofIds(given: readonly string[], { position, window, wanted }: ListRequest): Promise<FoundJobs> {
    const ids = [...new Set(given)].filter((id) => ID.test(id)).toSorted();
    const isInOrder = ids.length <= MAX_JOBS;
    const from = isInOrder ? "" : placeIn("ids", position).group;
    const part = ids.filter((id) => id > from).slice(0, isInOrder ? MAX_JOBS : wanted);
    const place = (id: string): Place => ({ by: "ids", group: id, at: null });
    const found = (await this.#table.getAll(part.map(jobKey))).flatMap((item) => {
      const { pk, listed } = candidate(item);
      const own: Position = isInOrder ? { listed, place: null } : { listed: position.listed, place: place(idOf(pk)) };
      return isInside(listed, window) ? [{ pk, listed, item, position: own }] : [];
    });
    if (isInOrder)
      return { found: found.toSorted((a, b) => (comesFirst(a.listed, b.listed, window.order) ? -1 : 1)), next: null };
    const last = part.at(-1);
    const isEnd = last === undefined || last === ids.at(-1);
    return {
      found: found.toSorted((a, b) => (a.pk < b.pk ? -1 : 1)),
      next: isEnd ? null : { listed: position.listed, place: place(last) },
    };
  }

  /** Candidates from the index of the parent, the error group or the user, the live index, or the lists by type. */
  async #candidates(filter: JobFilter, request: ListRequest): Promise<Batch> {
    const { parent, fingerprint, user, states } = filter;
    // A place: the list began before the optional index existed.
    if (request.position.place === null) {
      if (parent !== undefined) return this.#optional(CHILDREN, parent, { ...filter, parent: undefined }, request);
      if (fingerprint !== undefined)
        return this.#optional(ERRORS, fingerprint, { ...filter, fingerprint: undefined }, request);
      if (user !== undefined) return this.#lists(OWNED, [{ name: user, partitions: [user] }], request);
    }
    if (user !== undefined) throw foreignCursor();
    const config = await this.#config.read();
    if (states?.every((state) => !isFinished(state)) === true) return this.#live(filter, config, request);
    const classes = states === undefined ? LIST_CLASSES : [...new Set(states.map(classOf))];
    const groups = (filter.types ?? config.types).flatMap((type) =>
      Array.from({ length: config.shards }, (_, shard): Group => {
        const name = `${shard}#${type}`;
        return { name: groupName(name), partitions: classes.map((each) => `${each}#${name}`) };
      }),
    );
    return this.#lists(LISTED, groups, request);
  }

  /** Tables of earlier versions may not have the index yet: then the jobs are found by the other parts of the filter. */
  async #optional(index: Index, hash: string, others: JobFilter, request: ListRequest): Promise<Batch> {
    try {
      return await this.#lists(index, [{ name: hash, partitions: [hash] }], request);
    } catch (error) {
      // DynamoDB has no separate error for an index that does not exist or is not complete.
      if ((error as Error).name !== "ValidationException") throw error;
      return this.#candidates(others, { ...request, queries: request.queries - 1 });
    }
  }

  /** The groups one after another; as one group, and so in order, if they are few. */
  async #lists(index: Index, given: readonly Group[], request: ListRequest): Promise<Batch> {
    const { position, window, wanted } = request;
    const partitions = given.flatMap((group) => group.partitions);
    const isInOrder = position.place === null && partitions.length <= request.queries;
    const groups = isInOrder ? [{ name: "", partitions }] : given.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const { group: from, at } = isInOrder ? { group: "", at: null } : placeIn("lists", position);
    const positionAt = (group: string, listed: string | null): Position =>
      isInOrder ? { listed, place: null } : { listed: position.listed, place: { by: "lists", group, at: listed } };
    const found: Batch["found"] = [];
    let queries = request.queries;
    for (const { name, partitions: together } of groups.filter((group) => group.name >= from)) {
      const inside = name === from ? after(window, at) : window;
      if (isEmptyWindow(inside)) continue;
      if (together.length > queries || found.length === wanted) return { found, next: positionAt(name, null) };
      queries -= together.length;
      const { entries, hasMore } = await this.#merged(index, together, inside, wanted - found.length);
      for (const entry of entries) found.push({ ...entry, position: positionAt(name, entry.listed) });
      if (hasMore) return { found, next: positionAt(name, entries.at(-1)?.listed ?? at) };
    }
    return { found, next: null };
  }

  /** The first entries of several partitions, with one query each. */
  async #merged(
    index: Index,
    partitions: readonly string[],
    window: Window,
    wanted: number,
  ): Promise<{ entries: Candidate[]; hasMore: boolean }> {
    // One more may be the job of the cursor. If it is not, that shows whether there are more.
    const bounds = { ...boundsOf(window), limit: wanted + 1 };
    const pages = await Promise.all(partitions.map((hash) => this.#table.query({ index, hash, ...bounds })));
    const ends = pages.flatMap(({ items, next }) => (next === null ? [] : [listedOf(items.at(-1) ?? {})]));
    // After the end of a page, a partition may have entries that were not read.
    const isKnown = ({ listed }: Candidate): boolean => !ends.some((end) => comesFirst(end, listed, window.order));
    const entries = pages
      .flatMap(({ items }) => items.map(candidate))
      .filter((entry) => entry.listed !== window.cursor && isKnown(entry))
      .toSorted((a, b) => (comesFirst(a.listed, b.listed, window.order) ? -1 : 1));
    return { entries: entries.slice(0, wanted), hasMore: ends.length > 0 || entries.length > wanted };
  }

  /** Live jobs, lane by lane and by due time. */
  async #live(filter: JobFilter, config: Config, { position, window, wanted, ...rest }: ListRequest): Promise<Batch> {
    const { states = [], types } = filter;
    const place = placeIn("live", position);
    const lanes = lanesOf(filter, config)
      .map((hash) => ({ hash, name: groupName(hash) }))
      .filter(({ name }) => name >= place.group)
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    const positionAt = (group: string, at: string | null): Position => ({
      listed: position.listed,
      place: { by: "live", group, at },
    });
    const found: Batch["found"] = [];
    let { queries } = rest;
    let limit = wanted;
    for (const { hash, name } of lanes) {
      let at = name === place.group ? place.at : null;
      let hasMore = true;
      while (hasMore) {
        if (queries === 0 || found.length === wanted) return { found, next: positionAt(name, at) };
        queries--;
        const above = at === null ? {} : { above: at };
        const page: Page = await this.#table.query({ index: LIVE, hash, limit, ...above });
        for (const item of page.items) {
          if (found.length === wanted) return { found, next: positionAt(name, at) };
          at = stringOf(item, LIVE.range);
          const entry = candidate(item);
          const isOfType = types === undefined || types.includes(stringOf(item, "type") ?? "");
          if (isInside(entry.listed, window) && isOfType && mayBe(item, states))
            found.push({ ...entry, position: positionAt(name, at) });
        }
        hasMore = page.next !== null;
        limit = Math.min(4 * limit, MAX_ENTRIES);
      }
    }
    return { found, next: null };
  }
}

function keyOf({ pk }: Candidate): Key {
  return jobKey(idOf(pk));
}

/** A name of bounded length that sorts groups evenly; it can be part of a cursor. */
function groupName(partition: string): string {
  return createHash("sha256").update(partition).digest("hex").slice(0, 16);
}

/** The place of a position, which must be in lists of this kind. */
function placeIn(by: Place["by"], { place }: Position): Place {
  if (place === null) return { by, group: "", at: null };
  if (place.by !== by) throw foreignCursor();
  return place;
}
