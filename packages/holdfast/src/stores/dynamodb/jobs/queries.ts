import { isFinished, isLeased, type State } from "../../../job/state.js";
import type { JobFilter, JobPage, PageRequest, Scope, StoredJob } from "../../../store.js";
import { InvalidOptionError } from "../../../errors.js";
import { stringOf, type Item } from "../connection/attributes.js";
import { inputsOf, wholeJob } from "./job-details.js";
import type { Config, SharedConfig } from "../connection/config.js";
import { isDeleted, readItem, storedJob } from "./items.js";
import {
  CHILDREN,
  classOf,
  idOf,
  jobKey,
  laneKey,
  LIST_CLASSES,
  LISTED,
  LISTED_PATTERN,
  LIVE,
  OWNED,
  sortableTime,
} from "./item-keys.js";
import { mergeShards } from "./merge-shards.js";
import type { Page, Table } from "../connection/table.js";

type Order = "newest" | "oldest";

/** The part of a list that a page may contain. */
interface Window {
  order: Order;
  /** Only jobs with at least this `listed` key. */
  from: string | null;
  /** Only jobs with a smaller `listed` key. */
  below: string | null;
  /** The last job of the previous page. */
  cursor: string | null;
}

/** get and list. No list scans the table: each reads an index in the order of the page. */
export class Queries {
  readonly #table: Table;
  readonly #config: SharedConfig;

  constructor(table: Table, config: SharedConfig) {
    this.#table = table;
    this.#config = config;
  }

  async get(id: string, { user }: Scope, now: number): Promise<StoredJob | null> {
    const found = await wholeJob(this.#table, id);
    if (found === null || isDeleted(found.job, now)) return null;
    if (user !== undefined && readItem(found.job).user !== user) return null;
    return storedJob(found.job, found);
  }

  async list(filter: JobFilter, page: PageRequest, now: number): Promise<JobPage> {
    const { limit, cursor, payloads = true, order = "newest" } = page;
    const window = windowOf(filter, cursor, order);
    const isEmpty = [filter.ids, filter.states, filter.types, filter.queues].some((names) => names?.length === 0);
    // DynamoDB rejects a range whose end is before its start.
    if (isEmpty || (window.from !== null && window.below !== null && window.from > window.below)) return NO_JOBS;
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
    const shown = jobs.slice(0, limit);
    const inputs = payloads ? await inputsOf(this.#table, shown) : new Map<string, string>();
    const bare = payloads ? {} : { input: "null", output: null };
    const last = shown.at(-1);
    const next = jobs.length > limit && last !== undefined ? listedOf(last) : stoppedAt;
    return {
      jobs: shown.map((item) => ({ ...storedJob(item, { inputs }), ...bare })),
      cursor: next === null ? null : cursorOf(next),
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
    const { states, user, parent } = filter;
    if (parent !== undefined) return this.#children(parent, filter, config, window, wanted);
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

  /** The jobs of a parent. Tables of earlier versions may not have this index yet: then all jobs are read. */
  async *#children(
    parent: string,
    filter: JobFilter,
    config: Config,
    window: Window,
    wanted: number,
  ): AsyncGenerator<Candidate[]> {
    try {
      yield* this.#mergeShards([this.#partition(CHILDREN, parent, window, wanted)], window, wanted);
    } catch (error) {
      // DynamoDB has no separate error for an index that does not exist or is not complete.
      if ((error as Error).name !== "ValidationException") throw error;
      yield* this.#candidates({ ...filter, parent: undefined }, config, window, wanted);
    }
  }

  /** Entries of one partition, in the order of the page. */
  async *#partition(
    index: typeof LISTED | typeof OWNED | typeof CHILDREN,
    hash: string,
    { from, below, cursor, order }: Window,
    wanted: number,
  ): AsyncGenerator<Candidate[]> {
    const bounds = from === null && below === null ? {} : { from: from ?? "0", below: below ?? "~" };
    const request = { index, hash, ...bounds, newestFirst: order === "newest" };
    let next: Item | null = null;
    let limit = firstBatch(wanted);
    do {
      const page: Page = await this.#table.query({ ...request, limit, after: next });
      yield page.items.map(candidate).filter(({ listed }) => listed !== cursor);
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
    const { states = [], queues, types } = filter;
    const keys = config.lanes
      .filter(({ queue }) => queues === undefined || queues.includes(queue))
      .filter(({ priority }) => filter.priority === undefined || priority === filter.priority)
      .flatMap(({ queue, priority }) =>
        Array.from({ length: config.shards }, (_, shard) => laneKey(queue, priority, shard)),
      );
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

const NO_JOBS: JobPage = { jobs: [], cursor: null };
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

interface Candidate {
  pk: string;
  listed: string;
}

function candidate(item: Item): Candidate {
  return { pk: stringOf(item, "pk") ?? "", listed: listedOf(item) };
}

function listedOf(item: Item): string {
  return stringOf(item, LISTED.range) ?? "";
}

/** Whether the job may be in one of these states, by its entry in the live index. */
function mayBe(entry: Item, states: readonly State[]): boolean {
  if (entry["held"] !== undefined) return states.some(isLeased);
  return states.includes(entry["again"] === undefined ? "pending" : "failed");
}

/** A position in a list, without characters that a URL must escape. */
function cursorOf(listed: string): string {
  return listed.replaceAll("#", "_");
}

function windowOf({ createdAfter, createdBefore }: JobFilter, given: string | null, order: Order): Window {
  const cursor = given === null ? null : given.replaceAll("_", "#");
  if (cursor !== null && !LISTED_PATTERN.test(cursor))
    throw new InvalidOptionError("cursor", "is not a cursor that list() returned");
  const from = createdAfter === undefined ? null : sortableTime(createdAfter);
  const below = createdBefore === undefined ? null : sortableTime(createdBefore);
  return after({ order, from, below, cursor: null }, cursor);
}

/** The part of the window after this job. */
function after(window: Window, cursor: string | null): Window {
  if (cursor === null) return window;
  const { order, from, below } = window;
  if (order === "newest") return { ...window, cursor, below: below === null || cursor < below ? cursor : below };
  return { ...window, cursor, from: from === null || cursor > from ? cursor : from };
}

function isInside(listed: string, { from, below, cursor }: Window): boolean {
  return (from === null || listed >= from) && (below === null || listed < below) && listed !== cursor;
}

function comesFirst(a: string, b: string, order: Order): boolean {
  return order === "newest" ? a > b : a < b;
}

function matches(item: Item, filter: JobFilter): boolean {
  const { states, types, queues, user, tag, schedule, parent, priority, createdAfter, createdBefore } = filter;
  const job = storedJob(item);
  return (
    (states === undefined || states.includes(job.state)) &&
    (types === undefined || types.includes(job.type)) &&
    (queues === undefined || queues.includes(job.queue)) &&
    (user === undefined || job.user === user) &&
    (tag === undefined || job.tags.includes(tag)) &&
    (schedule === undefined || job.schedule?.name === schedule) &&
    (parent === undefined || job.parent === parent) &&
    (priority === undefined || job.priority === priority) &&
    (createdAfter === undefined || job.createdAt >= createdAfter) &&
    (createdBefore === undefined || job.createdAt < createdBefore)
  );
}
