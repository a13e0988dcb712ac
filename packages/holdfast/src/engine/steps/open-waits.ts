import type { Clock, Timer } from "../../clock.js";

interface OpenWait {
  resolve(): void;
  reject(error: unknown): void;
  /** Monotonic time at which it ends by itself. */
  endsAt: number;
  /** The same in the store's time; null: never. */
  until: number | null;
  /** Whether what is stored shows that it has ended. */
  hasEnded: () => boolean;
}

/** The waits of a handler that have not ended. */
export class OpenWaits {
  readonly #clock: Clock;
  readonly #waits = new Set<OpenWait>();
  #timer: Timer | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#waits.size;
  }

  /** Resolves at its time, or when `check` finds that it has ended. `storeNow`: the store's time. */
  add(until: number | null, storeNow: number, hasEnded: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      const endsAt =
        until === null ? Number.POSITIVE_INFINITY : this.#clock.monotonic() + Math.max(0, until - storeNow);
      this.#waits.add({ resolve, reject, endsAt, until, hasEnded });
      this.#setTimer();
    });
  }

  /** Ends waits that have ended in what is stored. */
  check(): void {
    for (const wait of this.#waits) if (wait.hasEnded()) this.#end(wait);
  }

  /** Fails all waits. */
  fail(error: unknown): void {
    this.#timer?.cancel();
    this.#timer = null;
    for (const wait of this.#waits) wait.reject(error);
    this.#waits.clear();
  }

  /** The first time at which a wait ends by itself, in the store's time, and how long until then. Null: none does. */
  next(): { until: number; inMs: number } | null {
    const first = this.#first();
    if (first?.until == null) return null;
    return { until: first.until, inMs: Math.max(0, first.endsAt - this.#clock.monotonic()) };
  }

  #first(): OpenWait | null {
    let first: OpenWait | null = null;
    for (const wait of this.#waits) if (first === null || wait.endsAt < first.endsAt) first = wait;
    return first;
  }

  #end(wait: OpenWait): void {
    this.#waits.delete(wait);
    wait.resolve();
  }

  /** Fires at the first end. A timer that fires too early is set again. */
  #setTimer(): void {
    this.#timer?.cancel();
    const next = this.next();
    this.#timer =
      next === null
        ? null
        : this.#clock.after(next.inMs, () => {
            const now = this.#clock.monotonic();
            for (const wait of this.#waits) if (wait.endsAt <= now) this.#end(wait);
            this.#setTimer();
          });
  }
}
