/**
 * Natural batching: one write is under way, and whatever gathers meanwhile goes in the next. An idle system answers at
 * once, a loaded one batches by itself; there is no timer to tune.
 */
export class Batcher<Item, Answer> {
  readonly #send: (items: Item[]) => Promise<Answer[]>;
  readonly #limits: BatchLimits<Item>;
  #waiting: Entry<Item, Answer>[] = [];
  #scheduled = false;
  #writing: Promise<void> | null = null;

  constructor(send: (items: Item[]) => Promise<Answer[]>, limits: BatchLimits<Item>) {
    this.#send = send;
    this.#limits = limits;
  }

  add(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ item, resolve, reject });
      this.#schedule();
    });
  }

  /** Resolves when everything added so far has its answer. */
  async idle(): Promise<void> {
    while (this.#waiting.length > 0 || this.#writing !== null) {
      await (this.#writing ?? new Promise((resolve) => setImmediate(resolve)));
    }
  }

  // The end of the turn, not the end of the microtask: fifty callers answered by one batch come back in one turn, and
  // a flush between them would send one and then forty-nine.
  #schedule(): void {
    if (this.#scheduled || this.#writing !== null) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#writing = this.#flush().finally(() => {
        this.#writing = null;
        if (this.#waiting.length > 0) this.#schedule();
      });
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#take();
    try {
      const answers = await this.#send(batch.map((entry) => entry.item));
      for (const [index, entry] of batch.entries()) entry.resolve(answers[index] as Answer);
    } catch (error) {
      for (const entry of batch) entry.reject(error);
    }
  }

  #take(): Entry<Item, Answer>[] {
    let bytes = 0;
    let count = 0;
    for (const { item } of this.#waiting) {
      bytes += this.#limits.bytes(item);
      if (count >= this.#limits.items || (count > 0 && bytes > this.#limits.most)) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }
}

export interface BatchLimits<Item> {
  items: number;
  /** Size of an item, and the most a batch may have of it. */
  bytes(item: Item): number;
  most: number;
}

interface Entry<Item, Answer> {
  item: Item;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}
