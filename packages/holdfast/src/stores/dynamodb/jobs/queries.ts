import { isFinished, isLeased, type State } from "../../../job/state.js";
import type { JobFilter, JobPage, PageRequest, Scope, StoredJob } from "../../../store.js";
import { InvalidOptionError } from "../../../errors.js";
import { stringOf, type Item } from "../connection/attributes.js";
import { inputsOf, wholeJob } from "./job-details.js";
import type { Config, SharedConfig } from "../connection/config.js";
import { isDeleted, readItem, storedJob } from "./items.js";
import {
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
import type { Table } from "../connection/table.js";

interface Window {
  /** Only jobs with a smaller `listed` key; null: start with the newest. */
  before: string | null;
  /** Only jobs with at least this `listed` key. */
  from: string | null;
}

/** get and list. No list scans the table: each reads an index, newest first. */
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

  async list(filter: JobFilter, { limit, cursor, payloads = true }: PageRequest, now: number): Promise<JobPage> {
    const window = windowOf(filter, cursor);
    const config = await this.#config.read();
    const jobs: Item[] = [];
    // A job whose entry is moved during the read may be found twice.
    const seen = new Set<string>();
    // One more than the limit, to know whether there is another page.
    for await (const keys of this.#candidates(filter, config, window, limit + 1)) {
      const items = await this.#table.getAll(keys.map(({ pk }) => jobKey(idOf(pk))));
      const byKey = new Map(items.map((item) => [stringOf(item, "pk"), item]));
      for (const { pk } of keys) {
        const item = seen.has(pk) ? undefined : byKey.get(pk);
        seen.add(pk);
        if (item !== undefined && !isDeleted(item, now) && matches(item, filter)) jobs.push(item);
      }
      if (jobs.length > limit) break;
    }
    const shown = jobs.slice(0, limit);
    const inputs = payloads ? await inputsOf(this.#table, shown) : new Map<string, string>();
    const bare = payloads ? {} : { input: "null", output: null };
    const last = shown.at(-1);
    return {
      jobs: shown.map((item) => ({ ...storedJob(item, { inputs }), ...bare })),
      cursor: jobs.length > limit && last !== undefined ? cursorOf(stringOf(last, LISTED.range) ?? "") : null,
    };
  }

  /** Candidates in batches, newest first: from the index of the user, the live index, or the lists by type. */
  #candidates(filter: JobFilter, config: Config, window: Window, wanted: number): AsyncGenerator<Candidate[]> {
    const { states, user } = filter;
    const all = Array.from({ length: config.shards }, (_, shard) => shard);
    if (user !== undefined) return this.#mergeShards([this.#partition(OWNED, user, window, wanted)], wanted);
    if (states?.every((state) => !isFinished(state)) === true) return this.#live(filter, config, window, wanted);
    const classes = states === undefined ? LIST_CLASSES : [...new Set(states.map(classOf))];
    const types = filter.types ?? config.types;
    const partitions = types.flatMap((type) =>
      classes.flatMap((each) => all.map((shard) => `${each}#${shard}#${type}`)),
    );
    return this.#mergeShards(
      partitions.map((partition) => this.#partition(LISTED, partition, window, wanted)),
      wanted,
    );
  }

  /** Entries of one partition, newest first. */
  async *#partition(
    index: typeof LISTED | typeof OWNED,
    hash: string,
    { before, from }: Window,
    wanted: number,
  ): AsyncGenerator<Candidate[]> {
    const bounds = before === null && from === null ? {} : { from: from ?? "0", below: before ?? "~" };
    const limit = Math.min(PAGE, wanted);
    for await (const page of this.#table.pages({ index, hash, ...bounds, limit, newestFirst: true })) {
      yield page.map(candidate).filter(({ listed }) => listed !== before);
    }
  }

  /** Merges partitions, newest first. */
  async *#mergeShards(partitions: readonly AsyncGenerator<Candidate[]>[], wanted: number): AsyncGenerator<Candidate[]> {
    let part: Candidate[] = [];
    for await (const entry of mergeShards(partitions, (a, b) => a.listed > b.listed)) {
      part.push(entry);
      if (part.length < Math.min(PAGE, wanted)) continue;
      yield part;
      part = [];
    }
    if (part.length > 0) yield part;
  }

  /**
   * The live index is sorted by due time, so finding the newest jobs reads all live entries. Only the newest are kept
   * in memory. If more are needed, all entries are read again.
   */
  async *#live(filter: JobFilter, config: Config, window: Window, wanted: number): AsyncGenerator<Candidate[]> {
    const { states = [], queues, types } = filter;
    const keys = config.lanes
      .filter(({ queue }) => queues === undefined || queues.includes(queue))
      .flatMap(({ queue, priority }) =>
        Array.from({ length: config.shards }, (_, shard) => laneKey(queue, priority, shard)),
      );
    for (let { before } = window, isMore = true; isMore;) {
      const newest = new Newest(Math.max(MAX_KEPT, wanted));
      const readLane = async (lane: string): Promise<void> => {
        for await (const page of this.#table.pages({ index: LIVE, hash: lane })) {
          for (const item of page) {
            const entry = candidate(item);
            const isInside =
              (before === null || entry.listed < before) && (window.from === null || entry.listed >= window.from);
            const isOfType = types === undefined || types.includes(stringOf(item, "type") ?? "");
            if (isInside && isOfType && mayBe(item, states)) newest.add(entry);
          }
        }
      };
      await Promise.all(keys.map(readLane));
      const found = newest.inOrder();
      for (let from = 0; from < found.length; from += wanted) yield found.slice(from, from + wanted);
      isMore = newest.isCut;
      before = found.at(-1)?.listed ?? null;
    }
  }
}

/** Keeps the newest of any number of candidates. */
class Newest {
  readonly #max: number;
  #kept: Candidate[] = [];
  /** Older candidates are ignored. */
  #oldest = "";
  isCut = false;

  constructor(max: number) {
    this.#max = max;
  }

  add(entry: Candidate): void {
    if (entry.listed < this.#oldest) return;
    this.#kept.push(entry);
    if (this.#kept.length < 2 * this.#max) return;
    this.#kept = this.inOrder().slice(0, this.#max);
    this.#oldest = this.#kept.at(-1)?.listed ?? "";
    this.isCut = true;
  }

  inOrder(): Candidate[] {
    return this.#kept.toSorted((a, b) => (a.listed > b.listed ? -1 : 1));
  }
}

const PAGE = 100;
const MAX_KEPT = 1_000;

interface Candidate {
  pk: string;
  listed: string;
}

function candidate(item: Item): Candidate {
  return { pk: stringOf(item, "pk") ?? "", listed: stringOf(item, LISTED.range) ?? "" };
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

function windowOf({ createdAfter, createdBefore }: JobFilter, given: string | null): Window {
  const cursor = given === null ? null : given.replaceAll("_", "#");
  if (cursor !== null && !LISTED_PATTERN.test(cursor))
    throw new InvalidOptionError("cursor", "is not a cursor that list() returned");
  const bound = createdBefore === undefined ? null : sortableTime(createdBefore);
  const before = cursor === null ? bound : bound === null || cursor < bound ? cursor : bound;
  return { before, from: createdAfter === undefined ? null : sortableTime(createdAfter) };
}

function matches(
  item: Item,
  { states, types, queues, user, tag, schedule, createdAfter, createdBefore }: JobFilter,
): boolean {
  const job = storedJob(item);
  return (
    (states === undefined || states.includes(job.state)) &&
    (types === undefined || types.includes(job.type)) &&
    (queues === undefined || queues.includes(job.queue)) &&
    (user === undefined || job.user === user) &&
    (tag === undefined || job.tags.includes(tag)) &&
    (schedule === undefined || job.schedule?.name === schedule) &&
    (createdAfter === undefined || job.createdAt >= createdAfter) &&
    (createdBefore === undefined || job.createdAt < createdBefore)
  );
}
