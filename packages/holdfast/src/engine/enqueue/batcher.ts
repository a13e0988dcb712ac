import { batchLength, type BatchLimits } from "../batch.js";

/**
 * Groups concurrent calls into batches without a timer: while one batch is written, the next is collected. An idle system
 * writes immediately; a loaded one batches by itself.
 */
export class Batcher<Item, Result> {
  readonly #send: (items: Item[]) => Promise<Result[]>;
  readonly #bytesOf: (entry: Entry<Item, Result>) => number;
  readonly #limits: BatchLimits | undefined;
  #waiting: Entry<Item, Result>[] = [];
  #isFlushScheduled = false;
  #writing: Promise<void> | null = null;

  constructor(
    send: (items: Item[]) => Promise<Result[]>,
    { bytesOf, limits }: { bytesOf: (item: Item) => number; limits?: BatchLimits },
  ) {
    this.#send = send;
    this.#bytesOf = ({ item }) => bytesOf(item);
    this.#limits = limits;
  }

  add(item: Item): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when every item added so far has its result. */
  async idle(): Promise<void> {
    while (this.#waiting.length > 0 || this.#writing !== null) {
      await (this.#writing ?? new Promise((resolve) => setImmediate(resolve)));
    }
  }

  // Flushes at the end of the event-loop iteration, not of the microtask: fifty callers whose batch has just resolved call
  // again one microtask after the other, and a flush between them would send one item and then forty-nine.
  #schedule(): void {
    if (this.#isFlushScheduled || this.#writing !== null) return;
    this.#isFlushScheduled = true;
    setImmediate(() => {
      this.#isFlushScheduled = false;
      this.#writing = this.#flush().finally(() => {
        this.#writing = null;
        if (this.#waiting.length > 0) this.#schedule();
      });
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#waiting.splice(0, batchLength(this.#waiting, this.#bytesOf, this.#limits));
    try {
      const results = await this.#send(batch.map((entry) => entry.item));
      for (const [index, entry] of batch.entries()) entry.resolve(results[index] as Result);
    } catch (error) {
      for (const entry of batch) entry.reject(error);
    }
  }
}

interface Entry<Item, Result> {
  item: Item;
  resolve(result: Result): void;
  reject(error: unknown): void;
}
