import { isFinished } from "../../../job/state.js";
import type { JobFilter, JobPage, PageRequest, Scope, StoredJob } from "../../../store.js";
import { stringOf, type Item } from "../connection/attributes.js";
import type { Config, SharedConfig } from "../connection/config.js";
import type { Page, Table } from "../connection/table.js";
import { BoundedLists } from "./bounded-lists.js";
import { fittingJobs } from "./fitting-jobs.js";
import { CHILDREN, classOf, ERRORS, idOf, jobKey, LIST_CLASSES, LISTED, LIVE, OWNED } from "./item-keys.js";
import { isDeleted, readItem, storedJob } from "./items.js";
import { inputsOf, wholeJob } from "./job-details.js";
import { cursorOf, positionOf } from "./list-cursors.js";
import { lanesOf, matches, matchesNothing, mayBe } from "./list-matching.js";
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
  type Order,
  type Window,
} from "./list-window.js";
import { mergeShards } from "./merge-shards.js";

/** get and list. No list scans the table: each reads an index in the order of the page. */
export class Queries {
  readonly #table: Table;
  readonly #config: SharedConfig;
  readonly #bounded: BoundedLists;

  constructor(table: Table, config: SharedConfig) {
    this.#table = table;
    this.#config = config;
    this.#bounded = new BoundedLists(table, config);
  }

  async get(id: string, { user }: Scope, now: number): Promise<StoredJob | null> {
    const found = await wholeJob(this.#table, id);
    if (found === null || isDeleted(found.job, now)) return null;
    if (user !== undefined && readItem(found.job).user !== user) return null;
    return storedJob(found.job, found);
  }

  async list(filter: JobFilter, page: PageRequest, now: number): Promise<JobPage> {
    if (matchesNothing(filter)) return NO_JOBS;
    const { limit, payloads = true, order = "newest", anyOrder = false, bytes } = page;
    const position = positionOf(page.cursor, { anyOrder });
    if (anyOrder) return this.#bounded.page(filter, page, position, now);
    const window = windowOf(filter, position.listed, order);
    if (isEmptyWindow(window)) return NO_JOBS;
    const jobs: Item[] = [];
    // A job whose entry is moved during the read may be found twice.
    const seen = new Set<string>();
    let stoppedAt: string | null = null;
    // One more than the limit, to know whether there is another page.
    for await (const items of this.#items(filter, window, limit + 1)) {
      for (const item of items) {
        const pk = stringOf(item, "pk") ?? "";
        if (!seen.has(pk) && !isDeleted(item, now) && matches(item, filter)) jobs.push(item);
        seen.add(pk);
      }
      if (jobs.length > limit) break;
      if (seen.size <= limit || seen.size < MAX_READ || filter.ids !== undefined) continue;
      stoppedAt = listedOf(items.at(-1) ?? {});
      break;
    }
    const fitting = payloads && bytes !== undefined ? fittingJobs(jobs, bytes) : jobs.length;
    const shown = jobs.slice(0, Math.min(limit, fitting));
    const inputs = payloads ? await inputsOf(this.#table, shown) : new Map<string, string>();
    const bare = payloads ? {} : { input: "null", output: null };
    const last = shown.at(-1);
    const next = jobs.length > shown.length && last !== undefined ? listedOf(last) : stoppedAt;
    const cursorAt = (listed: string): string => cursorOf({ listed, place: null });
    return {
      jobs: shown.map((item) => ({ ...storedJob(item, { inputs }), ...bare })),
      cursors: shown.map((item) => cursorAt(listedOf(item))),
      cursor: next === null ? null : cursorAt(next),
    };
  }

  /** Jobs that may match, in batches and in the order of the page. */
  async *#items(filter: JobFilter, window: Window, wanted: number): AsyncGenerator<Item[]> {
    if (filter.ids !== undefined) {
      const items = await this.#table.getAll(filter.ids.map(jobKey));
      yield items
        .filter((item) => isInside(listedOf(item), window))
        .toSorted((a, b) => (comesFirst(listedOf(a), listedOf(b), window.order) ? -1 : 1));
      return;
    }
    const config = await this.#config.read();
    for await (const keys of this.#candidates(filter, config, window, wanted)) {
      const items = await this.#table.getAll(keys.map(({ pk }) => jobKey(idOf(pk))));
      const byKey = new Map(items.map((item) => [stringOf(item, "pk"), item]));
      // The entry of a deleted job may still be there when its id is used again.
      yield keys.flatMap(({ pk, listed }) => {
        const item = byKey.get(pk);
        return item === undefined || listedOf(item) !== listed ? [] : [item];
      });
    }
  }

  /** Candidates in batches: from the index of the parent or the user, the live index, or the lists by type. */
  #candidates(filter: JobFilter, config: Config, window: Window, wanted: number): AsyncGenerator<Candidate[]> {
    const { states, user, parent, fingerprint } = filter;
    if (parent !== undefined) {
      const others = { ...filter, parent: undefined };
      return this.#optional(this.#partition(CHILDREN, parent, window, wanted), others, config, window, wanted);
    }
    if (fingerprint !== undefined) {
      const others = { ...filter, fingerprint: undefined };
      return this.#optional(this.#partition(ERRORS, fingerprint, window, wanted), others, config, window, wanted);
    }
    if (user !== undefined) return this.#mergeShards([this.#partition(OWNED, user, window, wanted)], window, wanted);
    if (states?.every((state) => !isFinished(state)) === true) return this.#live(filter, config, window, wanted);
    const all = Array.from({ length: config.shards }, (_, shard) => shard);
    const classes = states === undefined ? LIST_CLASSES : [...new Set(states.map(classOf))];
    const types = filter.types ?? config.types;
    const partitions = types.flatMap((type) =>
      classes.flatMap((each) => all.map((shard) => `${each}#${shard}#${type}`)),
    );
    return this.#mergeShards(
      partitions.map((partition) => this.#partition(LISTED, partition, window, wanted)),
      window,
      wanted,
    );
  }

  /**
   * The jobs of a parent or of an error group. Tables of earlier versions may not have this index yet: then the jobs are
   * found by the other parts of the filter.
   */
  async *#optional(
    partition: AsyncGenerator<Candidate[]>,
    others: JobFilter,
    config: Config,
    window: Window,
    wanted: number,
  ): AsyncGenerator<Candidate[]> {
    try {
      yield* this.#mergeShards([partition], window, wanted);
    } catch (error) {
      // DynamoDB has no separate error for an index that does not exist or is not complete.
      if ((error as Error).name !== "ValidationException") throw error;
      yield* this.#candidates(others, config, window, wanted);
    }
  }

  /** Entries of one partition, in the order of the page. */
  async *#partition(
    index: typeof LISTED | typeof OWNED | typeof CHILDREN | typeof ERRORS,
    hash: string,
    window: Window,
    wanted: number,
  ): AsyncGenerator<Candidate[]> {
    const request = { index, hash, ...boundsOf(window) };
    let next: Item | null = null;
    let limit = firstBatch(wanted);
    do {
      const page: Page = await this.#table.query({ ...request, limit, after: next });
      yield page.items.map(candidate).filter(({ listed }) => listed !== window.cursor);
      next = page.next;
      limit = nextBatch(limit);
    } while (next !== null);
  }

  /** Merges partitions. */
  async *#mergeShards(
    partitions: readonly AsyncGenerator<Candidate[]>[],
    { order }: Window,
    wanted: number,
  ): AsyncGenerator<Candidate[]> {
    let part: Candidate[] = [];
    let size = firstBatch(wanted);
    for await (const entry of mergeShards(partitions, (a, b) => comesFirst(a.listed, b.listed, order))) {
      part.push(entry);
      if (part.length < size) continue;
      yield part;
      part = [];
      size = nextBatch(size);
    }
    if (part.length > 0) yield part;
  }

  /**
   * The live index is sorted by due time, so finding the newest or oldest jobs reads all live entries. Only the first of
   * them are kept in memory. If more are needed, all entries are read again.
   */
  async *#live(filter: JobFilter, config: Config, window: Window, wanted: number): AsyncGenerator<Candidate[]> {
    const { states = [], types } = filter;
    const keys = lanesOf(filter, config);
    for (let rest = window, isMore = true; isMore;) {
      const first = new First(Math.max(MAX_KEPT, wanted), window.order);
      const readLane = async (lane: string): Promise<void> => {
        for await (const page of this.#table.pages({ index: LIVE, hash: lane })) {
          for (const item of page) {
            const entry = candidate(item);
            const isOfType = types === undefined || types.includes(stringOf(item, "type") ?? "");
            if (isInside(entry.listed, rest) && isOfType && mayBe(item, states)) first.add(entry);
          }
        }
      };
      await Promise.all(keys.map(readLane));
      const found = first.inOrder();
      for (let at = 0, size = firstBatch(wanted); at < found.length; at += size, size = nextBatch(size))
        yield found.slice(at, at + size);
      isMore = first.isCut;
      rest = after(rest, found.at(-1)?.listed ?? null);
    }
  }
}

/** Keeps those of any number of candidates that come first. */
class First {
  readonly #max: number;
  readonly #order: Order;
  #kept: Candidate[] = [];
  /** Candidates after it are ignored. */
  #last: string | null = null;
  isCut = false;

  constructor(max: number, order: Order) {
    this.#max = max;
    this.#order = order;
  }

  add(entry: Candidate): void {
    if (this.#last !== null && comesFirst(this.#last, entry.listed, this.#order)) return;
    this.#kept.push(entry);
    if (this.#kept.length < 2 * this.#max) return;
    this.#kept = this.inOrder().slice(0, this.#max);
    this.#last = this.#kept.at(-1)?.listed ?? null;
    this.isCut = true;
  }

  inOrder(): Candidate[] {
    return this.#kept.toSorted((a, b) => (comesFirst(a.listed, b.listed, this.#order) ? -1 : 1));
  }
}

const NO_JOBS: JobPage = { jobs: [], cursors: [], cursor: null };
// How many jobs one call reads if few of them match.
const MAX_READ = 500;
// Jobs per batch: as many as one BatchGetItem request reads.
const PAGE = 100;
const MAX_KEPT = 1_000;

/** Most pages are filled by the first batch. If few jobs match, larger batches need fewer requests. */
function firstBatch(wanted: number): number {
  return Math.min(PAGE, wanted);
}
function nextBatch(size: number): number {
  return Math.min(PAGE, 4 * size);
}
