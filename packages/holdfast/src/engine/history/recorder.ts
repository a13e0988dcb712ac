import { randomBytes } from "node:crypto";
import type { Clock, Timer } from "../../clock.js";
import { Counts, type Counted } from "../../history/counted.js";
import type { HistoryRecord, Store } from "../../store.js";
import type { Emitter } from "../events/events.js";
import { MINUTE_MS, startOf } from "./records.js";

// Processes write at different moments after the end of a minute.
const SPREAD_MS = 5_000;
// Minutes that are kept in memory while the store is not available.
const MAX_MINUTES = 10;

interface Named {
  queue: string;
  type: string;
}

interface RecorderParts {
  store: Pick<Store, "putHistory">;
  clock: Clock;
  random: () => number;
  events: Emitter;
}

/**
 * Counts what this process does to jobs, and writes the counts of each minute once, after its end. A process that is killed loses
 * the counts of its last minute. Counting is a few additions in memory: nothing waits for it.
 */
export class HistoryRecorder {
  readonly #parts: RecorderParts;
  readonly #writer = randomBytes(8).toString("hex");
  readonly #minutes = new Map<number, Counts>();
  #current: { at: number; counts: Counts } | null = null;
  /** The jobs of a batch mostly have one queue and type: the last pair of the current minute saves a lookup. */
  #last: { at: number; counted: Counted } | null = null;
  #timer: Timer | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(parts: RecorderParts) {
    this.#parts = parts;
  }

  enqueued({ queue, type }: Named): void {
    this.#counted(queue, type, this.#parts.clock.now()).enqueued++;
  }

  /** An attempt ended. Times are null if its handler did not start. */
  ended(
    { queue, type }: Named,
    end: "completed" | "failed" | "dead",
    times: { waitMs: number; runMs: number } | null,
    now: number,
  ): void {
    const counted = this.#counted(queue, type, now);
    if (end === "completed") counted.completed++;
    else {
      if (end === "dead") counted.dead++;
      if (times !== null || end === "failed") counted.failed++;
    }
    if (times === null) return;
    counted.wait.add(times.waitMs);
    counted.run.add(times.runMs);
  }

  cancelled({ queue, type }: Named): void {
    this.#counted(queue, type, this.#parts.clock.now()).cancelled++;
  }

  /** Writes the minutes that have ended; with `all`, the current one too. */
  flush({ all }: { all: boolean }): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write(all));
    return this.#writing;
  }

  /** Writes everything and stops. An error of the store is ignored: counts must not prevent a client from closing. */
  async stop(): Promise<void> {
    this.#timer?.cancel();
    await this.flush({ all: true });
    this.#timer?.cancel();
  }

  #counted(queue: string, type: string, now: number): Counted {
    const last = this.#last;
    if (last !== null && now >= last.at && now < last.at + MINUTE_MS) {
      if (last.counted.queue === queue && last.counted.type === type) return last.counted;
    }
    const at = startOf("minute", now);
    const counted = this.#counts(at).of(queue, type);
    this.#last = { at, counted };
    return counted;
  }

  /** The counts of this minute. */
  #counts(at: number): Counts {
    if (this.#current?.at === at) return this.#current.counts;
    let counts = this.#minutes.get(at);
    if (counts === undefined) {
      this.#minutes.set(at, (counts = new Counts()));
      if (this.#minutes.size > MAX_MINUTES) this.#minutes.delete(Math.min(...this.#minutes.keys()));
      this.#schedule();
    }
    this.#current = { at, counts };
    return counts;
  }

  #schedule(): void {
    const { clock, random } = this.#parts;
    const now = clock.now();
    const delayMs = startOf("minute", now) + MINUTE_MS - now + SPREAD_MS * random();
    this.#timer ??= clock.after(
      delayMs,
      () => {
        this.#timer = null;
        void this.flush({ all: false });
      },
      { background: true },
    );
  }

  async #write(all: boolean): Promise<void> {
    const { store, clock, events } = this.#parts;
    const currentMinute = startOf("minute", clock.now());
    const ended = [...this.#minutes].filter(([at]) => all || at !== currentMinute);
    if (ended.length > 0) {
      const records = ended.map(([at, counts]): HistoryRecord => {
        return { resolution: "minute", at, writer: this.#writer, data: counts.toText() };
      });
      try {
        await store.putHistory(records);
        for (const [at] of ended) this.#minutes.delete(at);
        if (this.#current !== null && !this.#minutes.has(this.#current.at)) this.#current = this.#last = null;
      } catch (error) {
        events.emit("outage", { doing: "history", error });
      }
    }
    if (this.#minutes.size > 0) this.#schedule();
  }
}
