import { LIMITS } from "../../../defaults.js";
import { HoldfastError } from "../../../errors.js";
import type { QueueRecord } from "../../../store.js";
import { flagOf, itemOf, MAX_ITEM_BYTES, numberOf, numbersOf, stringMapOf, type Item } from "./attributes.js";
import { Change } from "./expressions.js";
import { isInvalidItem } from "./errors.js";
import { CONFIG, LIVE, LISTED, LIST_CLASSES, laneKey, listKey } from "../jobs/item-keys.js";
import type { Table, Written } from "./table.js";

export interface Lane {
  queue: string;
  priority: number;
}

/** The settings that all processes share, stored in one item. */
export interface Config {
  shards: number;
  /** Every (queue, priority) pair in use. A claim reads these lanes only. */
  lanes: Lane[];
  /** Paused queues. */
  paused: ReadonlyMap<string, Pause>;
  /** Every job type in use. A list reads these types only. */
  types: string[];
  /** Whether a job has ever finished with its own purge time. */
  hasOwnTimes: boolean;
  /** Whether a step has ever waited for an event or a job. */
  hasWaits: boolean;
  /** Until then, every process records the transitions that it makes; see transitions/. */
  followUntil: number;
}

interface Pause {
  at: number;
  /** Null: unknown. */
  by: string | null;
}

/** The config as it was read last, and how long ago at most. */
export interface KnownConfig {
  config: Config;
  ageMs: number;
}

// A process writes the time of use of a lane or type again after this long.
const REGISTER_AGAIN_MS = 3_600_000;
// An empty lane or type that was not used for this long is removed.
const UNUSED_MS = 172_800_000;
const MAX_REGISTERED = 10_000;
const SHARDS_CACHED_MS = 60_000;

/** The names that must be registered before the job is written. */
type Named = Lane & { type: string };
/** The result of registering the names of several jobs. */
export interface Ensured<Job> {
  /** New jobs are spread over this many shards. */
  shards: number;
  /** Jobs whose names do not fit into the item, with the error message. */
  refused: ReadonlyMap<Job, string>;
}

/** The item has no space for another queue, priority or type. */
class TooManyNamesError extends HoldfastError {
  constructor(cause: unknown) {
    super(
      "NOT_STORED",
      "too many different types, queues and priorities: their names are stored in one DynamoDB item of at most " +
        `${MAX_ITEM_BYTES} bytes; use fewer, and separate customers by user or tags. ` +
        "Names without jobs that were not used for two days are removed automatically",
      { cause },
    );
  }
}

/**
 * Reads and writes the shared item. A lane, a type or a shard must be registered in it before a job is written there:
 * claims and lists read only what is registered.
 */
export class SharedConfig {
  readonly #table: Table;
  readonly #requestedShards: number | null;
  readonly #registeredAt = new Map<string, number>();
  #shards = 0;
  /** When `shards` last read the item. */
  #shardsReadAt = Number.NEGATIVE_INFINITY;
  /** The item has our number of shards. Before that, other processes would not find jobs in the new shards. */
  #shardsRegistered = false;
  readonly #registeredUses = new Set<string>();
  #hasPausedBy = false;
  #known: { config: Config; readAt: Moment } | null = null;

  /** `shards` is a minimum; null uses the number that the table has. */
  constructor(table: Table, shards: number | null) {
    this.#table = table;
    this.#requestedShards = shards;
  }

  /** The number of shards as last read, or the requested minimum before the first read. It never decreases. */
  get minShards(): number {
    return this.#shards === 0 ? (this.#requestedShards ?? DEFAULT_SHARDS) : this.#shards;
  }

  /** The number of shards, at most a minute old. */
  async shards(now: number): Promise<number> {
    if (this.#shards === 0 || now - this.#shardsReadAt >= SHARDS_CACHED_MS || now < this.#shardsReadAt) {
      await this.read();
      this.#shardsReadAt = now;
    }
    return this.#shards;
  }

  /** Reads the item. Every claim does, so a pause, a new lane or more shards apply from the next claim. */
  async read(): Promise<Config> {
    const readAt = moment();
    const item = (await this.#table.get(CONFIG)) ?? {};
    this.#shards = this.#shardsIn(item);
    const config = readConfig(item, this.#shards);
    // Concurrent reads may end in another order.
    if (this.#known === null || this.#known.readAt.monotonic <= readAt.monotonic) this.#known = { config, readAt };
    return config;
  }

  /** The result of the last read. Its age counts from before that read. Null before the first read. */
  get known(): KnownConfig | null {
    return this.#known === null ? null : { config: this.#known.config, ageMs: sinceMs(this.#known.readAt) };
  }

  /**
   * Registers the lanes and types of these jobs and returns the number of shards. The number of shards never decreases:
   * jobs in removed shards would not be found.
   */
  async ensure(jobs: readonly Named[], now: number): Promise<number> {
    const names = new Map<string, [field: string, name: string]>();
    for (const { queue, priority, type } of jobs) {
      if (Math.abs(priority) <= LIMITS.priority)
        names.set(`l${laneName({ queue, priority })}`, ["lanes", laneName({ queue, priority })]);
      names.set(`t${type}`, ["types", type]);
    }
    const missing = [...names].filter(
      ([id]) => (this.#registeredAt.get(id) ?? Number.NEGATIVE_INFINITY) < now - REGISTER_AGAIN_MS,
    );
    if (missing.length > 0 || !this.#shardsRegistered) {
      await this.#register(
        missing.map(([, path]) => path),
        now,
      );
      if (this.#registeredAt.size > MAX_REGISTERED) this.#registeredAt.clear();
      for (const [id] of missing) this.#registeredAt.set(id, now);
    }
    return this.#shards;
  }

  /** Like `ensure`. If names do not fit into the item, it refuses only the jobs that need those names. */
  async ensureEach<Job extends Named>(jobs: readonly Job[], now: number): Promise<Ensured<Job>> {
    try {
      return { shards: await this.ensure(jobs, now), refused: new Map() };
    } catch (error) {
      if (!(error instanceof TooManyNamesError)) throw error;
      const item = (await this.#table.get(CONFIG)) ?? {};
      const [lanes, types] = [numbersOf(item, "lanes"), numbersOf(item, "types")];
      const isRegistered = (job: Job): boolean => lanes.has(laneName(job)) && types.has(job.type);
      const refused = new Map(jobs.filter((job) => !isRegistered(job)).map((job) => [job, error.message]));
      return { shards: await this.ensure(jobs.filter(isRegistered), now), refused };
    }
  }

  /** In several updates, because the size of an update expression is limited. */
  async #register(paths: readonly (readonly [field: string, name: string])[], now: number): Promise<void> {
    for (let from = 0; from === 0 || from < paths.length; from += NAMES_PER_UPDATE) {
      const item = await this.#writeUsed(paths.slice(from, from + NAMES_PER_UPDATE), now);
      this.#shards = this.#shardsIn(item);
      if ((numberOf(item, "shards") ?? 0) < this.#shards) await this.#raiseShards();
    }
    this.#shardsRegistered = true;
  }

  async #writeUsed(paths: readonly (readonly [field: string, name: string])[], now: number): Promise<Item> {
    for (let trial = 0; ; trial++) {
      const change = new NamedChange().when("attribute_exists(#pk)");
      for (const [field, name] of paths) change.setIn(field, name, now);
      if (paths.length === 0) change.setTo("shards", "#shards");
      const { done, ...result } = await this.#write(change);
      if (done) return "old" in result ? (result.old ?? {}) : {};
      if (trial > 0) throw new Error("the shared config item cannot be created");
      await this.create();
    }
  }

  async #write(change: Change): Promise<Written> {
    try {
      return await this.#table.update(CONFIG, change);
    } catch (error) {
      throw isInvalidItem(error) ? new TooManyNamesError(error) : error;
    }
  }

  /** Creates the item if it does not exist. */
  async create(): Promise<void> {
    const maps = { lanes: { M: {} }, paused: { M: {} }, paused_by: { M: {} }, types: { M: {} } };
    const item = itemOf({
      ...CONFIG,
      ...maps,
      shards: this.#requestedShards ?? DEFAULT_SHARDS,
      version: SCHEMA_VERSION,
    });
    await this.#table.put(item, new Change().when("attribute_not_exists(#pk)"));
  }

  #shardsIn(item: Item): number {
    return Math.max(this.#requestedShards ?? 1, numberOf(item, "shards") ?? this.#requestedShards ?? DEFAULT_SHARDS);
  }

  async #raiseShards(): Promise<void> {
    const change = new Change().set({ shards: this.#shards });
    change.when(`attribute_not_exists(#shards) OR #shards < ${change.value(this.#shards)}`);
    await this.#table.update(CONFIG, change);
  }

  /**
   * Who paused the queue is in a second map, because earlier builds read numbers from `paused`. They also pause and resume
   * without that map, so an entry in it has the time of its pause too and counts for that pause only.
   */
  async pause(queue: string, by: string | null, now: number): Promise<void> {
    if (by !== null) await this.#ensurePausedBy();
    const change = new NamedChange().when("attribute_exists(#pk)").setIn("paused", queue, now);
    if (by !== null) change.setIn("paused_by", queue, `${now} ${by}`);
    const written = await this.#write(change.whenNoneIn("paused", queue));
    // Paused already, or by this same request if its response was lost.
    if (written.done || written.found !== null) return;
    await this.create();
    await this.pause(queue, by, now);
  }

  /** Items that an earlier build created do not have the map. */
  async #ensurePausedBy(): Promise<void> {
    if (this.#hasPausedBy) return;
    const change = new Change().when("attribute_exists(#pk)");
    change.setTo("paused_by", `if_not_exists(#paused_by, ${change.value({ M: {} })})`);
    if ((await this.#write(change)).done) this.#hasPausedBy = true;
    else await this.create();
  }

  async resume(queue: string): Promise<void> {
    const written = await this.#table.update(
      CONFIG,
      new NamedChange().when("attribute_exists(#pk)").removeIn("paused", queue),
    );
    if (!written.done || !stringMapOf(written.old ?? {}, "paused_by").has(queue)) return;
    await this.#table.update(CONFIG, new NamedChange().removeIn("paused_by", queue));
  }

  /** Makes every process record its transitions at least until then. */
  async followUntil(until: number): Promise<void> {
    const change = new Change().set({ follow_until: until }).when("attribute_exists(#pk)");
    change.when(`attribute_not_exists(#follow_until) OR #follow_until < ${change.value(until)}`);
    const written = await this.#table.update(CONFIG, change);
    if (written.done || written.found !== null) return;
    await this.create();
    await this.followUntil(until);
  }

  /** Call it before a job finishes with its own purge time. Without one, no call reads the partitions of such jobs. */
  ensureOwnTimes(): Promise<void> {
    return this.#ensureUse("own_times");
  }

  /** Call it before a step waits for an event or a job. Without one, no call looks for waits that a crash has left. */
  ensureWaits(): Promise<void> {
    return this.#ensureUse("waits");
  }

  async #ensureUse(use: string): Promise<void> {
    if (this.#registeredUses.has(use)) return;
    const change = new Change().set({ [use]: true }).when("attribute_exists(#pk)");
    if (!(await this.#table.update(CONFIG, change)).done) {
      await this.create();
      await this.#table.update(CONFIG, change);
    }
    this.#registeredUses.add(use);
  }

  async queues(): Promise<QueueRecord[]> {
    const { lanes, paused } = await this.read();
    const priorities = new Map<string, number[]>([...paused.keys()].map((queue) => [queue, []]));
    for (const { queue, priority } of lanes) priorities.set(queue, [...(priorities.get(queue) ?? []), priority]);
    return [...priorities].map(([queue, found]) => ({
      queue,
      paused: paused.has(queue),
      pausedAt: paused.get(queue)?.at ?? null,
      pausedBy: paused.get(queue)?.by ?? null,
      priorities: found.toSorted((a, b) => a - b),
    }));
  }

  /** Removes lanes and types that are empty and were not used for two days. */
  async removeUnused(now: number): Promise<void> {
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
      const partitions =
        field === "lanes"
          ? [[LIVE, laneKey(queue, priority, shard)] as const]
          : LIST_CLASSES.map((state) => [LISTED, listKey(state, name, shard)] as const);
      for (const [index, hash] of partitions) {
        const { items } = await this.#table.query({ index, hash, limit: 1 });
        if (items.length > 0) return false;
      }
    }
    return true;
  }
}

export const SCHEMA_VERSION = 1;
const DEFAULT_SHARDS = 8;
const NAMES_PER_UPDATE = 50;

/** A change of map entries. Their names may contain any character, so each gets a placeholder. */
class NamedChange extends Change {
  readonly #names: Record<string, string> = {};
  #count = 0;

  #name(name: string): string {
    const placeholder = `#n${this.#count++}`;
    this.#names[placeholder] = name;
    return placeholder;
  }
  setIn(field: string, name: string, value: number | string): this {
    return this.setTo(`${field}.${this.#name(name)}`, this.value(value));
  }
  removeIn(field: string, name: string): this {
    return this.remove(`${field}.${this.#name(name)}`);
  }
  whenIn(field: string, name: string, value: number): this {
    return this.when(`#${field}.${this.#name(name)} = ${this.value(value)}`);
  }
  whenNoneIn(field: string, name: string): this {
    return this.when(`attribute_not_exists(#${field}.${this.#name(name)})`);
  }
  override get updateInput(): Change["updateInput"] {
    const input = super.updateInput;
    return { ...input, ExpressionAttributeNames: { ...input.ExpressionAttributeNames, ...this.#names } };
  }
}

/** The priority comes first, because a queue may contain spaces. */
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
    paused: pausesIn(item),
    types: [...numbersOf(item, "types").keys()],
    hasOwnTimes: flagOf(item, "own_times"),
    hasWaits: flagOf(item, "waits"),
    followUntil: numberOf(item, "follow_until") ?? 0,
  };
}

function pausesIn(item: Item): Map<string, Pause> {
  const names = stringMapOf(item, "paused_by");
  return new Map(
    [...numbersOf(item, "paused")].map(([queue, at]) => {
      const prefix = `${at} `;
      const entry = names.get(queue) ?? "";
      return [queue, { at, by: entry.startsWith(prefix) ? entry.slice(prefix.length) : null }];
    }),
  );
}

/** A moment by both local clocks: the monotonic one stops while the machine sleeps, the other one can be set. */
interface Moment {
  monotonic: number;
  wall: number;
}
function moment(): Moment {
  return { monotonic: performance.now(), wall: Date.now() };
}
/** How long ago, by the clock that says more. */
function sinceMs({ monotonic, wall }: Moment): number {
  return Math.max(performance.now() - monotonic, Math.abs(Date.now() - wall));
}
