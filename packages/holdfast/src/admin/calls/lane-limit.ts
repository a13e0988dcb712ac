import { engineOf, type Holdfast } from "../../engine/client/holdfast.js";
import type { QueueRecord, SchedulePage, Store } from "../../store.js";
import { ApiError } from "../http/api-error.js";
import { remembered } from "./cached.js";

// How old what is known of the lanes may be. Callers who name new ones cost the store one look a second, however many they are.
const KNOWN_MS = 1_000;
// The same of the schedules, which a store keeps no count of.
const SCHEDULES_KNOWN_MS = 5_000;
// For so long a lane counts that was let in, whether it is stored yet or not: until the schedules were read again.
const ADMITTED_MS = 2 * SCHEDULES_KNOWN_MS;
const PAGE = 500;

/** Lanes that the store had at the last look and those that its schedules name, with those that were let in since. */
interface Lanes {
  names: Set<string>;
  queues: Set<string>;
}

interface Lane {
  queue: string;
  priority: number;
}

/**
 * Bounds the lanes (queues, with each of their priorities) that callers of the API make: each costs every claim something, and a caller
 * who enqueues to random names could make any number. Jobs for a lane that is there are taken, once it has been there for a second.
 */
export class LaneLimit {
  readonly #max: number;
  readonly #read: () => Promise<Lanes>;
  #last: Lanes = { names: new Set(), queues: new Set() };
  /** When a lane was let in, and its queue. */
  readonly #admitted = new Map<string, { queue: string; at: number }>();

  constructor(hf: Holdfast, max: number) {
    this.#max = max;
    const { store } = engineOf(hf);
    const scheduled = remembered(() => this.#scheduled(store), SCHEDULES_KNOWN_MS);
    this.#read = remembered(async () => {
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
    }, KNOWN_MS);
  }

  /** A schedule makes its lane when it fires. Those that make one too many need no more be read: no new lane is let in then. */
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

  /** Throws where a job in this lane would make one too many. */
  async admit(queue: string, priority: number): Promise<void> {
    const lane = nameOf(queue, priority);
    if (this.#last.names.has(lane)) return;
    const lanes = await this.#read();
    if (!lanes.names.has(lane)) this.#add(lanes, queue, lane);
  }

  /** The same for a queue as a whole, which is kept while it is paused. */
  async admitQueue(queue: string): Promise<void> {
    const lanes = await this.#read();
    if (!lanes.queues.has(queue)) this.#add(lanes, queue, queue);
  }

  #add({ names, queues }: Lanes, queue: string, name: string): void {
    if (names.size >= this.#max) {
      throw new ApiError(
        409,
        "TOO_MANY_LANES",
        `queue: there are ${this.#max} queues, counted with their priorities, and callers may make no more; use one that is there, or raise maxLanes`,
      );
    }
    names.add(name);
    queues.add(queue);
    this.#admitted.set(name, { queue, at: performance.now() });
  }
}

function lanesOf(records: readonly QueueRecord[]): Lanes {
  const names = records.flatMap(({ queue, priorities }) => priorities.map((priority) => nameOf(queue, priority)));
  return { names: new Set(names), queues: new Set(records.map(({ queue }) => queue)) };
}

function nameOf(queue: string, priority: number): string {
  return `${priority} ${queue}`;
}
