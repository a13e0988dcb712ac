import { isState, type State } from "../../../job/state.js";
import type { TransitionRecord } from "../../../store.js";
import { itemOf, numberOf, stringOf, type Item } from "../connection/attributes.js";
import { ttlSeconds } from "../jobs/items.js";
import { transitionsKey } from "../jobs/item-keys.js";

/** A transition, with what its place depends on. */
export interface Recorded {
  transition: TransitionRecord;
  /** Its time, or a little later: after the job's previous transition, even if another process with another clock made that. */
  order: number;
  /** Transitions of a job with the same `order` are in the order of their fences. */
  fence: number;
}

/** A stored batch of transitions of one process. */
export interface Batch {
  number: number;
  /** When its number was taken, by the writer's clock. */
  sentAt: number;
  /** How many transitions were recorded in all, up to its last one. */
  total: number;
  transitions: Recorded[];
}

/** Longer than cursors last. */
const KEPT_MS = 15 * 60_000;
// Readers read whole batches, so small ones are better, but each one has a number.
const MAX_BYTES = 25_000;
const ROW_BYTES = 80;

/** Splits transitions into the data of batches, in order. */
export function pack(transitions: readonly Recorded[]): { data: string; count: number }[] {
  const packed: { data: string; count: number }[] = [];
  for (let from = 0; from < transitions.length;) {
    const names = new Map<string, number>();
    const rows: Row[] = [];
    const nameOf = (name: string): number => {
      const known = names.get(name);
      if (known !== undefined) return known;
      bytes += Buffer.byteLength(name) + 3;
      names.set(name, names.size);
      return names.size - 1;
    };
    let bytes = 0;
    for (; from < transitions.length && bytes < MAX_BYTES; from++, bytes += ROW_BYTES) {
      const { transition, order, fence } = transitions[from] as Recorded;
      const { id, type, queue, to, at } = transition;
      rows.push([at, order - at, fence, to, id, nameOf(type), nameOf(queue)]);
    }
    packed.push({ data: JSON.stringify({ names: [...names.keys()], rows }), count: rows.length });
  }
  return packed;
}
type Row = [at: number, delay: number, fence: number, to: State, id: string, type: number, queue: number];

interface StoredBatch extends Omit<Batch, "transitions"> {
  data: string;
  /** Identifies its writer, who may send it again. */
  token: string;
}

export function batchItem({ number, sentAt, total, data, token }: StoredBatch): Item {
  const ttl = ttlSeconds(sentAt + KEPT_MS);
  return itemOf({ ...transitionsKey(number), number, sent_at: sentAt, total, data, token, ttl });
}

/** Takes the place of a batch that was not written in time. Its writer then takes another number. */
export function skippedItem(number: number, now: number): Item {
  return itemOf({ ...transitionsKey(number), number, sent_at: now, ttl: ttlSeconds(now + KEPT_MS) });
}

export function readBatch(item: Item): Batch {
  return {
    number: numberOf(item, "number") ?? 0,
    sentAt: numberOf(item, "sent_at") ?? 0,
    total: numberOf(item, "total") ?? 0,
    transitions: readData(stringOf(item, "data")),
  };
}

function readData(data: string | null): Recorded[] {
  if (data === null) return [];
  const { names, rows } = JSON.parse(data) as { names: string[]; rows: Row[] };
  return rows.flatMap(([at, delay, fence, to, id, type, queue]) => {
    // A later version may have other states.
    if (!isState(to)) return [];
    const transition = { id, type: names[type] ?? "", queue: names[queue] ?? "", to, at };
    return [{ transition, order: at + delay, fence }];
  });
}

/** Transitions of a job in the same millisecond: those of an earlier claim first, then as a lease proceeds. */
export function inOrder(a: Recorded, b: Recorded): number {
  return a.order - b.order || a.fence - b.fence || stage(a.transition.to) - stage(b.transition.to);
}
function stage(to: State): number {
  return to === "claimed" ? 0 : to === "running" ? 1 : 2;
}
