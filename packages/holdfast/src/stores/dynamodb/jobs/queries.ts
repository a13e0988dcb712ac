import { isFinished, isLeased, type State } from "../../../job/state.js";
import type { JobFilter, JobPage, PageRequest, Scope, StoredJob } from "../../../store.js";
import { InvalidOptionError } from "../../../errors.js";
import { textOf, type Item } from "../connection/attributes.js";
import { inputsOf, wholeJob } from "./job-details.js";
import type { Config, ConfigKeeper } from "../connection/config.js";
import { isGone, readItem, storedJob } from "./items.js";
import { classOf, idOf, jobKey, laneKey, LIST_CLASSES, LISTED, LISTED_FORM, LIVE, OWNED, timeText } from "./keys.js";
import { merged } from "./merge-shards.js";
import type { Table } from "../connection/table.js";

interface Window {
  /** Listed before this; null: from the newest on. */
  before: string | null;
  /** And not before this. */
  from: string | null;
}

/** Jobs as people ask for them. No list scans the table: each walks entries of an index, newest first. */
export class Queries {
  readonly #table: Table;
  readonly #config: ConfigKeeper;

  constructor(table: Table, config: ConfigKeeper) {
    this.#table = table;
    this.#config = config;
  }

  async get(id: string, { user }: Scope, now: number): Promise<StoredJob | null> {
    const found = await wholeJob(this.#table, id);
    if (found === null || isGone(found.job, now)) return null;
    if (user !== undefined && readItem(found.job).user !== user) return null;
    return storedJob(found.job, found);
  }

  async list(filter: JobFilter, { limit, cursor, payloads = true }: PageRequest, now: number): Promise<JobPage> {
    const window = windowOf(filter, cursor);
    const config = await this.#config.read();
    const jobs: Item[] = [];
    // A job whose entry moves meanwhile may be met in two places.
    const seen = new Set<string>();
    // One more than asked for tells whether there are more.
    for await (const keys of this.#candidates(filter, config, window, limit + 1)) {
      const items = await this.#table.getAll(keys.map(({ pk }) => jobKey(idOf(pk))));
      const byKey = new Map(items.map((item) => [textOf(item, "pk"), item]));
      for (const { pk } of keys) {
        const item = seen.has(pk) ? undefined : byKey.get(pk);
        seen.add(pk);
        if (item !== undefined && !isGone(item, now) && matches(item, filter)) jobs.push(item);
      }
      if (jobs.length > limit) break;
    }
    const shown = jobs.slice(0, limit);
    const inputs = payloads ? await inputsOf(this.#table, shown) : new Map<string, string>();
    const bare = payloads ? {} : { input: "null", output: null };
    const last = shown.at(-1);
    return {
      jobs: shown.map((item) => ({ ...storedJob(item, { inputs }), ...bare })),
      cursor: jobs.length > limit && last !== undefined ? cursorOf(textOf(last, LISTED.range) ?? "") : null,
    };
  }

  /** Newest first, in parts. What is live is found among the live, the rest by user or type. */
  #candidates(filter: JobFilter, config: Config, window: Window, wanted: number): AsyncGenerator<Candidate[]> {
    const { states, user } = filter;
    const all = Array.from({ length: config.shards }, (_, shard) => shard);
    if (user !== undefined) return this.#merged([this.#walk(OWNED, user, window, wanted)], wanted);
    if (states?.every((state) => !isFinished(state)) === true) return this.#live(filter, config, window, wanted);
    const classes = states === undefined ? LIST_CLASSES : [...new Set(states.map(classOf))];
    const types = filter.types ?? config.types;
    const partitions = types.flatMap((type) =>
      classes.flatMap((each) => all.map((shard) => `${each}#${shard}#${type}`)),
    );
    return this.#merged(
      partitions.map((partition) => this.#walk(LISTED, partition, window, wanted)),
      wanted,
    );
  }

  /** Entries of one partition, newest first. */
  async *#walk(
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

  /** The newest of all walks first. */
  async *#merged(walks: readonly AsyncGenerator<Candidate[]>[], wanted: number): AsyncGenerator<Candidate[]> {
    let part: Candidate[] = [];
    for await (const entry of merged(walks, (a, b) => a.listed > b.listed)) {
      part.push(entry);
      if (part.length < Math.min(PAGE, wanted)) continue;
      yield part;
      part = [];
    }
    if (part.length > 0) yield part;
  }

  /**
   * Live jobs stand by when they are due, so all of them are looked at to tell the newest. Only so many are kept in mind;
   * for those before them, should they be asked for, all are looked at once more.
   */
  async *#live(filter: JobFilter, config: Config, window: Window, wanted: number): AsyncGenerator<Candidate[]> {
    const { states = [], queues, types } = filter;
    const keys = config.lanes
      .filter(({ queue }) => queues === undefined || queues.includes(queue))
      .flatMap(({ queue, priority }) =>
        Array.from({ length: config.shards }, (_, shard) => laneKey(queue, priority, shard)),
      );
    for (let { before } = window, isMore = true; isMore;) {
      const newest = new Newest(Math.max(MOST_KEPT, wanted));
      const look = async (lane: string): Promise<void> => {
        for await (const page of this.#table.pages({ index: LIVE, hash: lane })) {
          for (const item of page) {
            const entry = candidate(item);
            const isInside =
              (before === null || entry.listed < before) && (window.from === null || entry.listed >= window.from);
            const isOfType = types === undefined || types.includes(textOf(item, "type") ?? "");
            if (isInside && isOfType && mayBe(item, states)) newest.add(entry);
          }
        }
      };
      await Promise.all(keys.map(look));
      const found = newest.inOrder();
      for (let from = 0; from < found.length; from += wanted) yield found.slice(from, from + wanted);
      isMore = newest.isCut;
      before = found.at(-1)?.listed ?? null;
    }
  }
}

/** The newest of any number of candidates. */
class Newest {
  readonly #most: number;
  #kept: Candidate[] = [];
  /** Those that were listed before this are left out. */
  #floor = "";
  isCut = false;

  constructor(most: number) {
    this.#most = most;
  }

  add(entry: Candidate): void {
    if (entry.listed < this.#floor) return;
    this.#kept.push(entry);
    if (this.#kept.length < 2 * this.#most) return;
    this.#kept = this.inOrder().slice(0, this.#most);
    this.#floor = this.#kept.at(-1)?.listed ?? "";
    this.isCut = true;
  }

  inOrder(): Candidate[] {
    return this.#kept.toSorted((a, b) => (a.listed > b.listed ? -1 : 1));
  }
}

const PAGE = 100;
const MOST_KEPT = 1_000;

interface Candidate {
  pk: string;
  listed: string;
}

function candidate(item: Item): Candidate {
  return { pk: textOf(item, "pk") ?? "", listed: textOf(item, LISTED.range) ?? "" };
}

/** As far as an entry of the live index tells. */
function mayBe(entry: Item, states: readonly State[]): boolean {
  if (entry["held"] !== undefined) return states.some(isLeased);
  return states.includes(entry["again"] === undefined ? "pending" : "failed");
}

/** A place in the order of lists, as an address on the web can carry it. */
function cursorOf(listed: string): string {
  return listed.replaceAll("#", "_");
}

function windowOf({ createdAfter, createdBefore }: JobFilter, given: string | null): Window {
  const cursor = given === null ? null : given.replaceAll("_", "#");
  if (cursor !== null && !LISTED_FORM.test(cursor))
    throw new InvalidOptionError("cursor", "is not a cursor that list gave");
  const bound = createdBefore === undefined ? null : timeText(createdBefore);
  const before = cursor === null ? bound : bound === null || cursor < bound ? cursor : bound;
  return { before, from: createdAfter === undefined ? null : timeText(createdAfter) };
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
