import type { Clock } from "../clock.js";
import { LIMITS } from "../defaults.js";
import { StoreUnavailable, DiskFull } from "../errors.js";
import type { Outcome, SettleAnswer, Store } from "../store.js";
import type { Emitter } from "./events.js";

interface Unsettled {
  outcome: Outcome;
  /** Monotonic time after which the lease may be another worker's. */
  deadline: number;
  answered(answer: SettleAnswer | Error): void;
}

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 2_000;

/**
 * Brings outcomes to the store, in natural batches. Through an outage they are kept and tried again until their leases
 * are lost; a bad outcome is told apart from its batch and fails alone.
 */
export class Settler {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #events: Emitter;
  #waiting: Unsettled[] = [];
  #scheduled = false;
  #writing = false;
  #retryMs = 0;
  #idle: (() => void)[] = [];

  constructor(store: Store, clock: Clock, events: Emitter) {
    this.#store = store;
    this.#clock = clock;
    this.#events = events;
  }

  /** False during an outage: nobody should claim what could not be settled. */
  get healthy(): boolean {
    return this.#retryMs === 0;
  }
  /** Outcomes not yet answered. */
  get size(): number {
    return this.#waiting.length;
  }

  add(outcome: Outcome, deadline: number, answered: (answer: SettleAnswer | Error) => void): void {
    if (this.#waiting.length >= LIMITS.unsettled) {
      answered("lost");
      return;
    }
    this.#waiting.push({ outcome, deadline, answered });
    this.#schedule();
  }

  settle(outcome: Outcome, deadline: number): Promise<SettleAnswer> {
    return new Promise((resolve, reject) => {
      this.add(outcome, deadline, (answer) => (answer instanceof Error ? reject(answer) : resolve(answer)));
    });
  }

  /** Resolves when everything added so far has its answer, or its lease is lost. */
  idle(): Promise<void> {
    if (this.#waiting.length === 0 && !this.#writing) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #schedule(): void {
    if (this.#scheduled || this.#writing || this.#retryMs > 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    this.#writing = true;
    const batch = this.#waiting.splice(0, LIMITS.batchJobs);
    // Every lease was lost meanwhile: whether the store is back, the next claim finds out.
    if (batch.length === 0) this.#retryMs = 0;
    await this.#write(batch);
    this.#writing = false;
    if (this.#waiting.length === 0) {
      for (const resolve of this.#idle.splice(0)) resolve();
    } else this.#schedule();
  }

  async #write(batch: Unsettled[]): Promise<void> {
    if (batch.length === 0) return;
    try {
      const answers = await this.#store.settle(batch.map((entry) => entry.outcome));
      this.#recovered();
      for (const [index, entry] of batch.entries()) entry.answered(answers[index] as SettleAnswer);
    } catch (error) {
      if (error instanceof StoreUnavailable || error instanceof DiskFull) this.#keep(batch, error);
      else if (batch.length > 1) for (const entry of batch) await this.#write([entry]);
      else batch[0]?.answered(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #keep(batch: Unsettled[], error: unknown): void {
    const now = this.#clock.monotonic();
    const held = batch.filter((entry) => entry.deadline > now);
    for (const entry of batch) if (entry.deadline <= now) entry.answered("lost");
    this.#waiting.unshift(...held);
    if (this.#retryMs === 0) this.#events.emit("outage", { doing: "settle", error });
    this.#retryMs = Math.min(Math.max(this.#retryMs * 2, FIRST_RETRY_MS), LONGEST_RETRY_MS);
    this.#clock.after(this.#retryMs, () => void this.#flush());
  }

  #recovered(): void {
    if (this.#retryMs === 0) return;
    this.#retryMs = 0;
    this.#events.emit("back", { doing: "settle" });
  }
}
