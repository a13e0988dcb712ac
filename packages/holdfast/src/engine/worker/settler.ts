import type { Clock, Timer } from "../../clock.js";
import { LIMITS } from "../../defaults.js";
import { isOutage } from "../../errors.js";
import type { State } from "../../job/state.js";
import type { Note, Outcome, SettleResult, Store } from "../../store.js";
import { batchLength } from "../batch.js";
import type { Emitter } from "../events/events.js";
import { BUSY } from "../retry-busy.js";

/** `dropped`: the buffer was full. The lease is still held, and the job runs again when the lease expires. */
export type SettlerResult = SettleResult | "dropped";

interface Unsettled {
  /** Position in the order in which outcomes were added. */
  number: number;
  outcome: Outcome;
  /** Monotonic time after which the lease may belong to another worker. */
  deadline: number;
  onSettled(result: SettlerResult | Error): void;
}

// While the store writes one batch, the next is already sent: otherwise the store idles for a round trip after each batch.
const MAX_BATCHES_IN_FLIGHT = 2;
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 2_000;

/**
 * Writes outcomes to the store, in batches (see `Batcher`). During an outage it keeps them and retries
 * until their leases expire. If the store rejects a batch, each outcome is written alone, so that only the bad one fails.
 */
export class Settler {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #events: Emitter;
  readonly #retentionMs: ReadonlyMap<State, number | null>;
  #waiting: Unsettled[] = [];
  /** Outcomes that wait for another transaction to release their row. */
  readonly #busy = new Set<Unsettled>();
  readonly #inFlight = new Set<readonly Unsettled[]>();
  #isFlushScheduled = false;
  #withNextBatch: (() => void)[] = [];
  #retryMs = 0;
  #retryTimer: Timer | null = null;
  #added = 0;
  #idle: { until: number; resolve: () => void }[] = [];

  /** `retentionMs`: how long finished jobs are stored, by state. 0: deleted when they finish; null: until a purge. */
  constructor(store: Store, clock: Clock, events: Emitter, retentionMs: ReadonlyMap<State, number | null> = new Map()) {
    this.#store = store;
    this.#clock = clock;
    this.#events = events;
    this.#retentionMs = retentionMs;
  }

  /** False during an outage. Workers then stop claiming: they could not settle what they claim. */
  get healthy(): boolean {
    return this.#retryMs === 0;
  }
  /** Outcomes that wait to be sent. */
  get size(): number {
    return this.#waiting.length;
  }

  /** How long jobs in a finished state are stored; null: until a purge. */
  retentionMs(state: State): number | null {
    return this.#retentionMs.get(state) ?? null;
  }

  add(outcome: Outcome, deadline: number, onSettled: (result: SettlerResult | Error) => void): void {
    // Full after a long outage, in which handlers kept ending.
    if (this.#waiting.length >= LIMITS.unsettled) {
      onSettled("dropped");
      return;
    }
    this.#setRetention(outcome);
    this.#waiting.push({ number: ++this.#added, outcome, deadline, onSettled });
    this.#schedule();
  }

  settle(outcome: Outcome, deadline: number): Promise<SettlerResult> {
    return new Promise((resolve, reject) => {
      this.add(outcome, deadline, (result) => (result instanceof Error ? reject(result) : resolve(result)));
    });
  }

  /** Settles inside the caller's transaction; synchronous where the store is. */
  settleIn(tx: unknown, outcome: Outcome, note: Note | null): SettleResult | Promise<SettleResult> {
    this.#setRetention(outcome);
    return this.#store.settleIn(tx, outcome, note);
  }

  /** Resolves when every outcome added so far is settled or its lease is lost. */
  idle(): Promise<void> {
    const until = this.#added;
    if (this.#isSettled(until)) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push({ until, resolve }));
  }

  /**
   * Makes `call` in the same event-loop iteration in which the next batch is sent, so that the store can run both in one
   * transaction. Returns false if no batch is about to be sent.
   */
  callWithNextBatch(call: () => void): boolean {
    if (this.#isFlushScheduled) this.#withNextBatch.push(call);
    return this.#isFlushScheduled;
  }

  #setRetention(outcome: Outcome): void {
    const keepMs = outcome.purgeMs ?? this.retentionMs(outcome.to);
    outcome.keep = keepMs !== 0;
    outcome.keepMs = keepMs;
  }

  /** Whether everything up to this number is settled. "Nothing waits" would never be true while a worker is busy. */
  #isSettled(until: number): boolean {
    if ((this.#waiting[0]?.number ?? Number.POSITIVE_INFINITY) <= until) return false;
    for (const [first] of this.#inFlight) if (first !== undefined && first.number <= until) return false;
    for (const entry of this.#busy) if (entry.number <= until) return false;
    return true;
  }

  #schedule(): void {
    if (this.#isFlushScheduled || this.#inFlight.size >= MAX_BATCHES_IN_FLIGHT || this.#retryMs > 0) return;
    this.#isFlushScheduled = true;
    setImmediate(() => {
      this.#isFlushScheduled = false;
      const written = this.#flush();
      for (const call of this.#withNextBatch.splice(0)) call();
      void written;
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#waiting.splice(0, batchLength(this.#waiting, outputBytes));
    // Every lease expired during the outage. Claims resume, and the next one shows whether the store is available.
    if (batch.length === 0) this.#retryMs = 0;
    this.#inFlight.add(batch);
    await this.#write(batch);
    this.#inFlight.delete(batch);
    if (this.#waiting.length > 0) this.#schedule();
    while (this.#idle[0] !== undefined && this.#isSettled(this.#idle[0].until)) this.#idle.shift()?.resolve();
  }

  async #write(batch: Unsettled[]): Promise<void> {
    if (batch.length === 0) return;
    try {
      const results = await this.#store.settle(batch.map((entry) => entry.outcome));
      this.#endOutage();
      for (const [index, entry] of batch.entries()) {
        const result = results[index] ?? "lost";
        if (result === "busy") this.#retryBusy(entry);
        else callBack(entry, result);
      }
    } catch (error) {
      if (isOutage(error)) this.#keepForRetry(batch, error);
      else if (batch.length > 1) for (const entry of batch) await this.#write([entry]);
      else for (const entry of batch) callBack(entry, error instanceof Error ? error : new Error(String(error)));
    }
  }

  /** Another transaction has locked the row. Its outcome is retried until the lease expires; the others are not delayed. */
  #retryBusy(entry: Unsettled): void {
    if (entry.deadline <= this.#clock.monotonic()) {
      callBack(entry, "lost");
      return;
    }
    this.#busy.add(entry);
    this.#clock.after(BUSY.retryMs, () => {
      this.#busy.delete(entry);
      this.#waiting = [...this.#waiting, entry].toSorted(byNumber);
      this.#schedule();
    });
  }

  #keepForRetry(batch: Unsettled[], error: unknown): void {
    const now = this.#clock.monotonic();
    const held = batch.filter((entry) => entry.deadline > now);
    for (const entry of batch) if (entry.deadline <= now) callBack(entry, "lost");
    // In the order of adding, whichever batch failed first: `idle` checks only the oldest entry.
    this.#waiting = [...held, ...this.#waiting].toSorted(byNumber);
    if (this.#retryMs === 0) this.#events.emit("outage", { doing: "settle", error });
    this.#retryMs = Math.min(Math.max(this.#retryMs * 2, FIRST_RETRY_MS), MAX_RETRY_MS);
    // One timer, even if several parts of a split batch failed: two concurrent flushes would mix their batches.
    this.#retryTimer?.cancel();
    this.#retryTimer = this.#clock.after(this.#retryMs, () => void this.#flush());
  }

  #endOutage(): void {
    if (this.#retryMs === 0) return;
    this.#retryMs = 0;
    this.#events.emit("outageEnded", { doing: "settle" });
  }
}

function outputBytes({ outcome }: Unsettled): number {
  return outcome.output?.length ?? 0;
}

function byNumber(a: Unsettled, b: Unsettled): number {
  return a.number - b.number;
}

function callBack(entry: Unsettled, result: SettleResult | Error): void {
  try {
    entry.onSettled(result);
  } catch {
    // A logger that throws must not block the other outcomes, nor cause this one to be written again.
  }
}
