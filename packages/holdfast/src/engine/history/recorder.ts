import { randomBytes, randomInt } from "node:crypto";
import type { Clock, Timer } from "../../clock.js";
import { StoreUnreadableError } from "../../errors.js";
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
  events: Emitter;
}

interface Minute {
  at: number;
  writer: string;
  counts: Counts;
  /** False once it is being written: what is counted meanwhile must not be lost. */
  isOpen: boolean;
}

/**
 * Counts what this process does to jobs, and writes the counts of each minute once, after its end. A process that is killed loses
 * the counts of its last minute. Counting is a few additions in memory: nothing waits for it.
 */
export class HistoryRecorder {
  readonly #parts: RecorderParts;
  readonly #writer = newWriter();
  /** The last minute of this writer. Another record of it or an earlier one has another writer, and does not replace it. */
  #lastMinute = Number.NEGATIVE_INFINITY;
  /** Not written yet, in the order of their creation. */
  #minutes: Minute[] = [];
  #current: Minute | null = null;
  /** The jobs of a batch mostly have one queue and type: the last pair of the current minute saves a lookup. */
  #last: { at: number; counted: Counted } | null = null;
  /** Not by the engine's random source: its sequence decides the delays of retries. */
  readonly #spreadMs = randomInt(SPREAD_MS);
  #timer: Timer | null = null;
  #writing: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isStopped = false;

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

  /** An attempt ended because its lease expired. */
  leaseExpired({ queue, type }: Named): void {
    this.#counted(queue, type, this.#parts.clock.now()).failed++;
  }

  cancelled({ queue, type }: Named): void {
    this.#counted(queue, type, this.#parts.clock.now()).cancelled++;
  }

  /** An attempt failed with an error of this group. */
  failedWith(fingerprint: string): void {
    this.#minuteOf(this.#parts.clock.now()).counts.addErrors(fingerprint, 1);
  }

  /** Writes the minutes that have ended; with `all`, the current one too. */
  flush({ all }: { all: boolean }): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write(all));
    return this.#writing;
  }

  /** Writes everything and stops. An error of the store is ignored: counts must not prevent a client from closing. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.flush({ all: true });
  }

  #counted(queue: string, type: string, now: number): Counted {
    const last = this.#last;
    if (last !== null && now >= last.at && now < last.at + MINUTE_MS) {
      if (last.counted.queue === queue && last.counted.type === type) return last.counted;
    }
    const { at, counts } = this.#minuteOf(now);
    const counted = counts.of(queue, type);
    this.#last = { at, counted };
    return counted;
  }

  #minuteOf(now: number): Minute {
    const at = startOf("minute", now);
    if (this.#current?.at !== at) {
      this.#current = this.#minutes.find((minute) => minute.at === at && minute.isOpen) ?? this.#open(at);
    }
    return this.#current;
  }

  #open(at: number): Minute {
    const writer = at > this.#lastMinute ? this.#writer : newWriter();
    this.#lastMinute = Math.max(this.#lastMinute, at);
    const minute = { at, writer, counts: new Counts(), isOpen: true };
    this.#minutes.push(minute);
    if (this.#minutes.length > MAX_MINUTES) this.#minutes.shift();
    this.#schedule();
    return minute;
  }

  #schedule(): void {
    if (this.#isStopped) return;
    const { clock } = this.#parts;
    const now = clock.now();
    const delayMs = startOf("minute", now) + MINUTE_MS - now + this.#spreadMs;
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
    const { store, clock } = this.#parts;
    const currentMinute = startOf("minute", clock.now());
    const ended = new Set(this.#minutes.filter(({ at }) => all || at !== currentMinute));
    if (ended.size > 0) {
      for (const minute of ended) minute.isOpen = false;
      this.#current = this.#last = null;
      const records = [...ended].map(({ at, writer, counts }): HistoryRecord => {
        return { resolution: "minute", at, writer, data: counts.toText() };
      });
      try {
        await store.putHistory(records);
        this.#minutes = this.#minutes.filter((minute) => !ended.has(minute));
        this.#report(null);
      } catch (error) {
        this.#report(error);
      }
    }
    if (this.#minutes.length > 0) this.#schedule();
  }

  /** Reports the beginning and the end of an outage. A database role that may only enqueue is none: its counts are dropped. */
  #report(error: unknown): void {
    const { events } = this.#parts;
    if (error instanceof StoreUnreadableError) return;
    const isFailing = error !== null;
    if (isFailing && !this.#isFailing) events.emit("outage", { doing: "history", error });
    if (!isFailing && this.#isFailing) events.emit("outageEnded", { doing: "history" });
    this.#isFailing = isFailing;
  }
}

function newWriter(): string {
  return randomBytes(8).toString("hex");
}
