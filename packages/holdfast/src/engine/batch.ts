import { LIMITS } from "../defaults.js";

/**
 * How large one call to the store may be. A long transaction blocks claims and other writes, and DynamoDB refuses requests
 * that are too large.
 */
export interface BatchLimits {
  readonly maxItems: number;
  readonly maxBytes: number;
}

const JOB_BATCH: BatchLimits = { maxItems: LIMITS.batchJobs, maxBytes: LIMITS.batchBytes };

/** The size of a batch that grows item by item. */
export class BatchSize {
  readonly #limits: BatchLimits;
  #items = 0;
  #bytes = 0;

  constructor(limits: BatchLimits = JOB_BATCH) {
    this.#limits = limits;
  }

  /** Whether this much more fits. The first addition always does, however large: it cannot be split. */
  fits(bytes: number, items = 1): boolean {
    const { maxItems, maxBytes } = this.#limits;
    return this.#items === 0 || (this.#items + items <= maxItems && this.#bytes + bytes <= maxBytes);
  }

  add(bytes: number, items = 1): void {
    this.#items += items;
    this.#bytes += bytes;
  }

  get isFull(): boolean {
    return this.#items >= this.#limits.maxItems || this.#bytes >= this.#limits.maxBytes;
  }
}

/** How many of the first items make up the next batch. */
export function batchLength<Item>(
  items: readonly Item[],
  bytesOf: (item: Item) => number,
  limits: BatchLimits = JOB_BATCH,
): number {
  const size = new BatchSize(limits);
  let length = 0;
  for (const item of items) {
    const bytes = bytesOf(item);
    if (!size.fits(bytes)) break;
    size.add(bytes);
    length++;
  }
  return length;
}

/** Splits a list into batches, in order. `itemsOf`: how many rows an item writes. */
export function batchesOf<Item>(
  all: readonly Item[],
  bytesOf: (item: Item) => number,
  itemsOf: (item: Item) => number = () => 1,
): Item[][] {
  const batches: Item[][] = [];
  let batch: Item[] = [];
  let size = new BatchSize();
  for (const item of all) {
    const [bytes, items] = [bytesOf(item), itemsOf(item)];
    if (!size.fits(bytes, items)) {
      batches.push(batch);
      batch = [];
      size = new BatchSize();
    }
    batch.push(item);
    size.add(bytes, items);
  }
  if (batch.length > 0) batches.push(batch);
  return batches;
}
