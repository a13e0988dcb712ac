const EVERY_MS = 10_000;

/**
 * Rolls changes up into the counters when they are read. Maintenance does that too, but without a worker there is no
 * maintenance, and readers of counters and lists would soon read a million changes. It runs in the background, after
 * the reader's own query.
 */
export class CounterRollup {
  readonly #rollUp: () => Promise<boolean>;
  #lastAt = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | null = null;
  #isStopped = false;

  /** `rollUp` resolves to whether there is more. */
  constructor(rollUp: () => Promise<boolean>) {
    this.#rollUp = rollUp;
  }

  /** Called after every read. */
  trigger(): void {
    const now = performance.now();
    if (this.#isStopped || this.#running !== null || now - this.#lastAt < EVERY_MS) return;
    this.#lastAt = now;
    this.#running = this.#run().finally(() => (this.#running = null));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    try {
      if (await this.#rollUp()) this.#lastAt = Number.NEGATIVE_INFINITY;
    } catch {
      // A role that may only read cannot do it. In an outage, the reader's own query fails.
    }
  }
}
