import { Holdfast } from "../engine/holdfast.js";
import type { QueueRecord } from "../store.js";
import { ApiError } from "./api-error.js";
import { remembered } from "./remembered.js";

// How old what is known of the lanes may be. Callers who name new ones cost the store one look a second, however many they are.
const KNOWN_MS = 1_000;

/** Lanes that the store had at the last look, with those that were let in since. */
interface Lanes {
  names: Set<string>;
  queues: Set<string>;
}

/**
 * Bounds the lanes (queues, with each of their priorities) that callers of the API make: each costs every claim something, and a caller
 * who enqueues to random names could make any number. Jobs for a lane that is there are taken, once it has been there for a second.
 */
export class LaneLimit {
  readonly #max: number;
  readonly #read: () => Promise<Lanes>;
  #last: Lanes = { names: new Set(), queues: new Set() };

  constructor(hf: Holdfast, max: number) {
    this.#max = max;
    this.#read = remembered(async () => (this.#last = lanesOf(await Holdfast.coreOf(hf).store.queues())), KNOWN_MS);
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
  }
}

function lanesOf(records: readonly QueueRecord[]): Lanes {
  const names = records.flatMap(({ queue, priorities }) => priorities.map((priority) => nameOf(queue, priority)));
  return { names: new Set(names), queues: new Set(records.map(({ queue }) => queue)) };
}

function nameOf(queue: string, priority: number): string {
  return `${priority} ${queue}`;
}
