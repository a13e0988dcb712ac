import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import type { QueueRecord, SchedulePage, Store } from "../../store.js";
import { ApiError } from "../http/api-error.js";
import { cached } from "./cached.js";

// Callers that send new names cost the store one read per second, however many they are.
const CACHE_MS = 1_000;
// Schedules are cached longer: the store has no count of their lanes, so all schedules are read.
const SCHEDULES_CACHE_MS = 5_000;
// An admitted lane counts for this long even if it is not stored yet: long enough for both caches to be refreshed.
const ADMITTED_MS = 2 * SCHEDULES_CACHE_MS;
const PAGE = 500;

/** Lanes in the store, lanes of its schedules, and lanes that were admitted since they were read. */
interface Lanes {
  names: Set<string>;
  queues: Set<string>;
}

export interface Lane {
  queue: string;
  priority: number;
}

/**
 * Limits the lanes (pairs of queue and priority) that API callers can create. Each lane slows down every claim, and a caller that
 * enqueues to random queue names could create any number. Jobs for lanes that have existed for a second are always accepted.
 */
export class LaneLimit {
  readonly #max: number;
  readonly #read: () => Promise<Lanes>;
  #last: Lanes = { names: new Set(), queues: new Set() };
  /** By lane name: its queue, and when it was admitted. */
  readonly #admitted = new Map<string, { queue: string; at: number }>();

  constructor(hf: Holdfast, max: number) {
    this.#max = max;
    const { store } = engineOf(hf);
    const scheduled = cached(() => this.#scheduled(store), SCHEDULES_CACHE_MS);
    this.#read = cached(async () => {
      const lanes = lanesOf(await store.queues());
      const add = (queue: string, name: string): void => {
        lanes.names.add(name);
        lanes.queues.add(queue);
      };
      for (const { queue, priority } of await scheduled()) add(queue, nameOf(queue, priority));
      for (const [name, { queue, at }] of this.#admitted) {
        if (performance.now() - at < ADMITTED_MS) add(queue, name);
        else this.#admitted.delete(name);
      }
      return (this.#last = lanes);
    }, CACHE_MS);
  }

  /** Lanes that schedules create when they fire. Reading stops at the limit, because no new lane is admitted then anyway. */
  async #scheduled(store: Pick<Store, "listSchedules">): Promise<Lane[]> {
    const lanes = new Map<string, Lane>();
    let cursor: string | null = null;
    do {
      const page: SchedulePage = await store.listSchedules({}, { limit: PAGE, cursor });
      for (const { queue, priority } of page.schedules) lanes.set(nameOf(queue, priority), { queue, priority });
      cursor = page.cursor;
    } while (cursor !== null && lanes.size < this.#max);
    return [...lanes.values()];
  }

  /** Throws if a job in this lane would exceed the limit. */
  async admit(queue: string, priority: number): Promise<void> {
    const lane = nameOf(queue, priority);
    if (this.#last.names.has(lane)) return;
    const lanes = await this.#read();
    if (!lanes.names.has(lane)) this.#add(lanes, queue, lane);
  }

  /** The same for several lanes, all or none of them. */
  async admitAll(lanes: readonly Lane[]): Promise<void> {
    const known = await this.#read();
    const added = new Map<string, string>();
    for (const { queue, priority } of lanes) {
      const lane = nameOf(queue, priority);
      if (!known.names.has(lane)) added.set(lane, queue);
    }
    if (added.size > 0 && known.names.size + added.size > this.#max) throw this.#tooMany();
    for (const [lane, queue] of added) this.#add(known, queue, lane);
  }

  /** The same for a queue without a priority: a paused queue is stored even if it has no jobs. */
  async admitQueue(queue: string): Promise<void> {
    const lanes = await this.#read();
    if (!lanes.queues.has(queue)) this.#add(lanes, queue, queue);
  }

  #add({ names, queues }: Lanes, queue: string, name: string): void {
    if (names.size >= this.#max) throw this.#tooMany();
    names.add(name);
    queues.add(queue);
    this.#admitted.set(name, { queue, at: performance.now() });
  }

  #tooMany(): ApiError {
    return new ApiError(
      409,
      "TOO_MANY_LANES",
      `queue: limit of ${this.#max} lanes (queue and priority) reached; use an existing one, or raise maxLanes`,
    );
  }
}

function lanesOf(records: readonly QueueRecord[]): Lanes {
  const names = records.flatMap(({ queue, priorities }) => priorities.map((priority) => nameOf(queue, priority)));
  return { names: new Set(names), queues: new Set(records.map(({ queue }) => queue)) };
}

function nameOf(queue: string, priority: number): string {
  return `${priority} ${queue}`;
}
