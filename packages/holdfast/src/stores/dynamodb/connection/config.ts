import { LIMITS } from "../../../defaults.js";
import { HoldfastError } from "../../../errors.js";
import type { QueueRecord } from "../../../store.js";
import { itemOf, MOST_BYTES, numberOf, numbersOf, type Item } from "./attributes.js";
import { Change } from "./expressions.js";
import { isItemsFault } from "./errors.js";
import { CONFIG, LIVE, LISTED, LIST_CLASSES, laneKey, listKey } from "../jobs/keys.js";
import type { Table, Written } from "./table.js";

export interface Lane {
  queue: string;
  priority: number;
}

/** What all processes share, in one item: the lanes and types in use, the queues that are paused, the number of shards. */
export interface Config {
  shards: number;
  lanes: Lane[];
  paused: ReadonlySet<string>;
  types: string[];
}

// What is used says so at least this often, and is forgotten much later.
const FRESH_MS = 3_600_000;
const UNUSED_MS = 172_800_000;
const MOST_KNOWN = 10_000;
const LOOKED_MS = 60_000;

/** What of a job must be known to all. */
type Named = Lane & { type: string };
/** Where jobs may be put, and which of them may not. */
export interface Ensured<Job> {
  shards: number;
  refused: ReadonlyMap<Job, string>;
}

/** There are more queues, priorities and types than fit where all processes look for them. */
class NamesFull extends HoldfastError {
  constructor(cause: unknown) {
    super(
      "NOT_STORED",
      `the names of all types, queues and priorities in use stand in one item of DynamoDB, which holds ${MOST_BYTES} bytes, ` +
        "and this one does not fit any more; use fewer, and tell customers apart by user or tags. " +
        "What nobody has used for two days, and is empty, is forgotten",
      { cause },
    );
  }
}

/** Sees to it that jobs are written only where claims and lists look. */
export class ConfigKeeper {
  readonly #table: Table;
  readonly #wanted: number | null;
  readonly #known = new Map<string, number>();
  #shards = 0;
  /** When the shards were looked at last by somebody who needs not know of new ones at once. */
  #lookedAt = Number.NEGATIVE_INFINITY;
  /** All others know of as many shards. Until then nothing may be put there: nobody would find it. */
  #told = false;

  /** `shards`: as many at least; null, as many as the table has. */
  constructor(table: Table, shards: number | null) {
    this.#table = table;
    this.#wanted = shards;
  }

  /** How many shards there are at least, as far as it is known now. */
  get atLeast(): number {
    return this.#shards === 0 ? (this.#wanted ?? SHARDS) : this.#shards;
  }

  /** How many shards to look at, as of the last minute. */
  async shards(now: number): Promise<number> {
    if (this.#shards === 0 || now - this.#lookedAt >= LOOKED_MS || now < this.#lookedAt) {
      await this.read();
      this.#lookedAt = now;
    }
    return this.#shards;
  }

  /** As it is now: a pause, a new lane or more shards count from the next claim on. */
  async read(): Promise<Config> {
    const item = (await this.#table.get(CONFIG)) ?? {};
    this.#shards = this.#shardsIn(item);
    return readConfig(item, this.#shards);
  }

  /**
   * The shards that jobs and schedules may be put in, once these and lanes and types are known to all. Shards are never
   * fewer than somebody has said: what is in them would not be found.
   */
  async ensure(jobs: readonly Named[], now: number): Promise<number> {
    const names = new Map<string, [field: string, name: string]>();
    for (const { queue, priority, type } of jobs) {
      if (Math.abs(priority) <= LIMITS.priority)
        names.set(`l${laneName({ queue, priority })}`, ["lanes", laneName({ queue, priority })]);
      names.set(`t${type}`, ["types", type]);
    }
    const missing = [...names].filter(([id]) => (this.#known.get(id) ?? Number.NEGATIVE_INFINITY) < now - FRESH_MS);
    if (missing.length > 0 || !this.#told) {
      await this.#say(
        missing.map(([, path]) => path),
        now,
      );
      if (this.#known.size > MOST_KNOWN) this.#known.clear();
      for (const [id] of missing) this.#known.set(id, now);
    }
    return this.#shards;
  }

  /** The same for jobs of which some may be refused, with the reason: there is no room for their queue or type. */
  async ensureEach<Job extends Named>(jobs: readonly Job[], now: number): Promise<Ensured<Job>> {
    try {
      return { shards: await this.ensure(jobs, now), refused: new Map() };
    } catch (error) {
      if (!(error instanceof NamesFull)) throw error;
      const item = (await this.#table.get(CONFIG)) ?? {};
      const [lanes, types] = [numbersOf(item, "lanes"), numbersOf(item, "types")];
      const isThere = (job: Job): boolean => lanes.has(laneName(job)) && types.has(job.type);
      const refused = new Map(jobs.filter((job) => !isThere(job)).map((job) => [job, error.message]));
      return { shards: await this.ensure(jobs.filter(isThere), now), refused };
    }
  }

  /** Never more than this many at once: an expression has its limits. */
  async #say(paths: readonly (readonly [field: string, name: string])[], now: number): Promise<void> {
    for (let from = 0; from === 0 || from < paths.length; from += SAID_AT_ONCE) {
      const item = await this.#sayUsed(paths.slice(from, from + SAID_AT_ONCE), now);
      this.#shards = this.#shardsIn(item);
      if ((numberOf(item, "shards") ?? 0) < this.#shards) await this.#raiseShards();
    }
    this.#told = true;
  }

  async #sayUsed(paths: readonly (readonly [field: string, name: string])[], now: number): Promise<Item> {
    for (let trial = 0; ; trial++) {
      const change = new NamedChange().when("attribute_exists(#pk)");
      for (const [field, name] of paths) change.setIn(field, name, now);
      if (paths.length === 0) change.setTo("shards", "#shards");
      const { done, ...met } = await this.#write(change);
      if (done) return "old" in met ? (met.old ?? {}) : {};
      if (trial > 0) throw new Error("the item with the lanes cannot be written");
      await this.create();
    }
  }

  async #write(change: Change): Promise<Written> {
    try {
      return await this.#table.update(CONFIG, change);
    } catch (error) {
      throw isItemsFault(error) ? new NamesFull(error) : error;
    }
  }

  /** The item is there from now on. */
  async create(): Promise<void> {
    const maps = { lanes: { M: {} }, paused: { M: {} }, types: { M: {} } };
    const item = itemOf({ ...CONFIG, ...maps, shards: this.#wanted ?? SHARDS, version: SCHEMA_VERSION });
    await this.#table.put(item, new Change().when("attribute_not_exists(#pk)"));
  }

  #shardsIn(item: Item): number {
    return Math.max(this.#wanted ?? 1, numberOf(item, "shards") ?? this.#wanted ?? SHARDS);
  }

  async #raiseShards(): Promise<void> {
    const change = new Change().set({ shards: this.#shards });
    change.when(`attribute_not_exists(#shards) OR #shards < ${change.value(this.#shards)}`);
    await this.#table.update(CONFIG, change);
  }

  async pause(queue: string, now: number): Promise<void> {
    const change = new NamedChange().when("attribute_exists(#pk)").setIn("paused", queue, now);
    if ((await this.#write(change)).done) return;
    await this.create();
    await this.pause(queue, now);
  }

  async resume(queue: string): Promise<void> {
    await this.#table.update(CONFIG, new NamedChange().when("attribute_exists(#pk)").removeIn("paused", queue));
  }

  async queues(): Promise<QueueRecord[]> {
    const { lanes, paused } = await this.read();
    const priorities = new Map<string, number[]>([...paused].map((queue) => [queue, []]));
    for (const { queue, priority } of lanes) priorities.set(queue, [...(priorities.get(queue) ?? []), priority]);
    return [...priorities].map(([queue, found]) => ({
      queue,
      paused: paused.has(queue),
      priorities: found.toSorted((a, b) => a - b),
    }));
  }

  /** Forgets lanes and types that nobody has used for long, and that are empty. */
  async forget(now: number): Promise<void> {
    const item = (await this.#table.get(CONFIG)) ?? {};
    const shards = this.#shardsIn(item);
    for (const field of ["lanes", "types"] as const) {
      for (const [name, usedAt] of numbersOf(item, field)) {
        if (usedAt >= now - UNUSED_MS || !(await this.#isEmpty(field, name, shards))) continue;
        const change = new NamedChange().removeIn(field, name);
        await this.#table.update(CONFIG, change.whenIn(field, name, usedAt));
      }
    }
  }

  async #isEmpty(field: "lanes" | "types", name: string, shards: number): Promise<boolean> {
    for (let shard = 0; shard < shards; shard++) {
      const { queue, priority } = laneOf(name);
      const places =
        field === "lanes"
          ? [[LIVE, laneKey(queue, priority, shard)] as const]
          : LIST_CLASSES.map((state) => [LISTED, listKey(state, name, shard)] as const);
      for (const [index, hash] of places) {
        const { items } = await this.#table.query({ index, hash, limit: 1 });
        if (items.length > 0) return false;
      }
    }
    return true;
  }
}

export const SCHEMA_VERSION = 1;
/** Of a table that nobody has said otherwise of. */
const SHARDS = 8;
const SAID_AT_ONCE = 50;

/** A change of entries in maps, whose names may hold any character. */
class NamedChange extends Change {
  readonly #names: Record<string, string> = {};
  #count = 0;

  #name(name: string): string {
    const place = `#n${this.#count++}`;
    this.#names[place] = name;
    return place;
  }
  setIn(field: string, name: string, value: number): this {
    return this.setTo(`${field}.${this.#name(name)}`, this.value(value));
  }
  removeIn(field: string, name: string): this {
    return this.remove(`${field}.${this.#name(name)}`);
  }
  whenIn(field: string, name: string, value: number): this {
    return this.when(`#${field}.${this.#name(name)} = ${this.value(value)}`);
  }
  override get updateInput(): Change["updateInput"] {
    const input = super.updateInput;
    return { ...input, ExpressionAttributeNames: { ...input.ExpressionAttributeNames, ...this.#names } };
  }
}

/** The priority stands first: it ends where the queue begins. */
function laneName({ queue, priority }: Lane): string {
  return `${priority} ${queue}`;
}
function laneOf(name: string): Lane {
  const at = name.indexOf(" ");
  return { priority: Number(name.slice(0, at)), queue: name.slice(at + 1) };
}

function readConfig(item: Item, shards: number): Config {
  return {
    shards,
    lanes: [...numbersOf(item, "lanes").keys()].map(laneOf),
    paused: new Set(numbersOf(item, "paused").keys()),
    types: [...numbersOf(item, "types").keys()],
  };
}
