// Between two looks at whether there is something to fold.
const EVERY_MS = 10_000;

/**
 * What each write changed is folded into the counters by maintenance. Where no worker runs nobody maintains, and whoever reads
 * counters or lists would in time read a million changes: so readers have some folded too, behind their own answer.
 */
export class Folding {
  readonly #fold: () => Promise<boolean>;
  #lastAt = Number.NEGATIVE_INFINITY;
  #underWay: Promise<void> | null = null;
  #isStopped = false;

  /** `fold` answers whether there is more. */
  constructor(fold: () => Promise<boolean>) {
    this.#fold = fold;
  }

  /** Called by every reader; nobody waits for it. */
  soon(): void {
    const now = performance.now();
    if (this.#isStopped || this.#underWay !== null || now - this.#lastAt < EVERY_MS) return;
    this.#lastAt = now;
    this.#underWay = this.#once().finally(() => (this.#underWay = null));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#underWay;
  }

  async #once(): Promise<void> {
    try {
      if (await this.#fold()) this.#lastAt = Number.NEGATIVE_INFINITY;
    } catch {
      // A role that only reads may not, and of an outage whoever reads is told by their own answer.
    }
  }
}
