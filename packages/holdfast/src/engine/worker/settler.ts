import type { Clock, Timer } from "../../clock.js";
import { LIMITS } from "../../defaults.js";
import { isOutage } from "../../errors.js";
import type { State } from "../../job/state.js";
import type { Outcome, SettleResult, Store } from "../../store.js";
import type { Emitter } from "../events/events.js";

interface Unsettled {
  /** Counts up in the order of adding. */
  number: number;
  outcome: Outcome;
  /** Monotonic time after which the lease may be another worker's. */
  deadline: number;
  answered(answer: SettleResult | Error): void;
}

// While one batch is written the next is on its way: a store that has to wait for the caller stands still.
const UNDER_WAY = 2;
const FIRST_RETRY_MS = 50;
// How soon an outcome is tried again whose row somebody else has locked.
const BUSY_MS = 50;
const LONGEST_RETRY_MS = 2_000;

/**
 * Brings outcomes to the store, in natural batches. Through an outage they are kept and tried again until their leases
 * are lost; a bad outcome is told apart from its batch and fails alone.
 */
export class Settler {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #events: Emitter;
  readonly #kept: ReadonlyMap<State, number | null>;
  #waiting: Unsettled[] = [];
  readonly #aside = new Set<Unsettled>();
  #scheduled = false;
  /** Batches under way. */
  readonly #writing = new Set<readonly Unsettled[]>();
  #riders: (() => void)[] = [];
  #retryMs = 0;
  #retryTimer: Timer | null = null;
  #added = 0;
  #idle: { until: number; resolve: () => void }[] = [];

  /** `kept`: how long jobs in finished states are kept; 0, they are deleted at once; null, until they are purged. */
  constructor(store: Store, clock: Clock, events: Emitter, kept: ReadonlyMap<State, number | null> = new Map()) {
    this.#store = store;
    this.#clock = clock;
    this.#events = events;
    this.#kept = kept;
  }

  /** False during an outage: nobody should claim what could not be settled. */
  get healthy(): boolean {
    return this.#retryMs === 0;
  }
  /** Outcomes not yet answered. */
  get size(): number {
    return this.#waiting.length;
  }

  add(outcome: Outcome, deadline: number, answered: (answer: SettleResult | Error) => void): void {
    if (this.#waiting.length >= LIMITS.unsettled) {
      answered("lost");
      return;
    }
    this.retain(outcome);
    this.#waiting.push({ number: ++this.#added, outcome, deadline, answered });
    this.#schedule();
  }

  /** How long jobs in a finished state are kept; null, as long as a purge says. */
  keptMs(state: State): number | null {
    return this.#kept.get(state) ?? null;
  }

  /** Says how long the job is kept, if it comes to this end. */
  retain(outcome: Outcome): void {
    const keepMs = this.keptMs(outcome.to);
    outcome.keep = keepMs !== 0;
    outcome.keepMs = keepMs;
  }

  settle(outcome: Outcome, deadline: number): Promise<SettleResult> {
    return new Promise((resolve, reject) => {
      this.add(outcome, deadline, (answer) => (answer instanceof Error ? reject(answer) : resolve(answer)));
    });
  }

  /** Resolves when everything added so far has its answer, or its lease is lost. */
  idle(): Promise<void> {
    const until = this.#added;
    if (this.#isAnswered(until)) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push({ until, resolve }));
  }

  /**
   * Has `call` made in the same turn as the next batch is sent, so that a store can carry out both at once. False if no
   * batch is about to go.
   */
  ride(call: () => void): boolean {
    if (this.#scheduled) this.#riders.push(call);
    return this.#scheduled;
  }

  /** Everything up to this number has its answer. Not "nothing waits": beside a busy worker that never comes. */
  #isAnswered(until: number): boolean {
    if ((this.#waiting[0]?.number ?? Number.POSITIVE_INFINITY) <= until) return false;
    for (const [first] of this.#writing) if (first !== undefined && first.number <= until) return false;
    for (const entry of this.#aside) if (entry.number <= until) return false;
    return true;
  }

  #schedule(): void {
    if (this.#scheduled || this.#writing.size >= UNDER_WAY || this.#retryMs > 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      const written = this.#flush();
      for (const call of this.#riders.splice(0)) call();
      void written;
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#waiting.splice(0, this.#batchLength());
    // Every lease was lost meanwhile: whether the store is back, the next claim finds out.
    if (batch.length === 0) this.#retryMs = 0;
    this.#writing.add(batch);
    await this.#write(batch);
    this.#writing.delete(batch);
    if (this.#waiting.length > 0) this.#schedule();
    while (this.#idle[0] !== undefined && this.#isAnswered(this.#idle[0].until)) this.#idle.shift()?.resolve();
  }

  /** As many outcomes as a batch may have, in number and in bytes of output. */
  #batchLength(): number {
    let bytes = 0;
    let length = 0;
    for (const { outcome } of this.#waiting) {
      bytes += outcome.output?.length ?? 0;
      if (length >= LIMITS.batchJobs || (length > 0 && bytes > LIMITS.batchBytes)) break;
      length++;
    }
    return length;
  }

  #answer(entry: Unsettled, answer: SettleResult | Error): void {
    try {
      entry.answered(answer);
    } catch {
      // A logger that throws must not hold up the other outcomes, nor have this one written again.
    }
  }

  async #write(batch: Unsettled[]): Promise<void> {
    if (batch.length === 0) return;
    try {
      const answers = await this.#store.settle(batch.map((entry) => entry.outcome));
      this.#recovered();
      for (const [index, entry] of batch.entries()) {
        const answer = answers[index] ?? "lost";
        if (answer === "busy") this.#putAside(entry);
        else this.#answer(entry, answer);
      }
    } catch (error) {
      if (isOutage(error)) this.#keep(batch, error);
      else if (batch.length > 1) for (const entry of batch) await this.#write([entry]);
      else for (const entry of batch) this.#answer(entry, error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Somebody else has the row: the outcome is tried again for as long as the lease lasts. */
  #putAside(entry: Unsettled): void {
    if (entry.deadline <= this.#clock.monotonic()) {
      this.#answer(entry, "lost");
      return;
    }
    this.#aside.add(entry);
    this.#clock.after(BUSY_MS, () => {
      this.#aside.delete(entry);
      this.#waiting = [...this.#waiting, entry].toSorted((a, b) => a.number - b.number);
      this.#schedule();
    });
  }

  #keep(batch: Unsettled[], error: unknown): void {
    const now = this.#clock.monotonic();
    const held = batch.filter((entry) => entry.deadline > now);
    for (const entry of batch) if (entry.deadline <= now) this.#answer(entry, "lost");
    // In the order of adding, whichever batch failed first: `idle` judges by the oldest that waits.
    this.#waiting = [...held, ...this.#waiting].toSorted((a, b) => a.number - b.number);
    if (this.#retryMs === 0) this.#events.emit("outage", { doing: "settle", error });
    this.#retryMs = Math.min(Math.max(this.#retryMs * 2, FIRST_RETRY_MS), LONGEST_RETRY_MS);
    // One timer, however many parts of a split batch met the outage: two flushes at once would mix their batches.
    this.#retryTimer?.cancel();
    this.#retryTimer = this.#clock.after(this.#retryMs, () => void this.#flush());
  }

  #recovered(): void {
    if (this.#retryMs === 0) return;
    this.#retryMs = 0;
    this.#events.emit("outageEnded", { doing: "settle" });
  }
}
