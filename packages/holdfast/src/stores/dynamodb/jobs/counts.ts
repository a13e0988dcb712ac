import type { Clock } from "../../../clock.js";
import type { FinishedState } from "../../../job/state.js";
import { numberOf, textOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import type { Fields, JobItem } from "./items.js";
import type { Key } from "./keys.js";
import type { Table } from "../connection/table.js";

/**
 * How many jobs have completed: they leave the live index, and DynamoDB clears them away without a word, so nobody could
 * count them. Counted in this process and written now and then, by the day on which they will be gone.
 */
export class Counts {
  readonly #table: Table;
  readonly #flushMs: number;
  readonly #clock: Clock;
  #completed = new Map<string, { queue: string; type: string; goneOn: number | null; n: number }>();
  #ended = new Map<string, { second: number; state: FinishedState; n: number }>();
  #timer: { cancel(): void } | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(table: Table, clock: Clock, flushMs: number) {
    this.#table = table;
    this.#clock = clock;
    this.#flushMs = flushMs;
  }

  /** A job has ended; DynamoDB clears it away after `ttl`, or a purge does if that is null. */
  ended(job: Pick<JobItem, "queue" | "type">, state: FinishedState, now: number, ttl: number | null = null): void {
    if (state === "completed") this.#add(job, ttl, 1);
    this.passed(state, now);
  }

  /** A job has ended that is not kept. */
  passed(state: FinishedState, now: number): void {
    // What ended in the last minute is told by its seconds.
    const second = Math.floor(now / 1_000);
    const name = `${second} ${state}`;
    const count = this.#ended.get(name) ?? { second, state, n: 0 };
    this.#ended.set(name, { ...count, n: count.n + 1 });
    this.#soon();
  }

  /** A completed job was deleted. */
  deleted(job: Pick<JobItem, "queue" | "type">, ttl: number | null): void {
    this.#add(job, ttl, -1);
  }

  #add({ queue, type }: Pick<JobItem, "queue" | "type">, ttl: number | null, n: number): void {
    const goneOn = ttl === null ? null : Math.floor((ttl * 1_000) / DAY_MS);
    const name = JSON.stringify([goneOn, queue, type]);
    const count = this.#completed.get(name) ?? { queue, type, goneOn, n: 0 };
    this.#completed.set(name, { ...count, n: count.n + n });
    this.#soon();
  }

  #soon(): void {
    this.#timer ??= this.#clock.after(
      this.#flushMs,
      () => {
        this.#timer = null;
        // What cannot be written is kept for the next time.
        this.flush().catch(() => this.#soon());
      },
      { background: true },
    );
  }

  /** Writes what was counted since. */
  flush(): Promise<void> {
    this.#writing = this.#writing.catch(() => {}).then(() => this.#flush());
    return this.#writing;
  }

  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = null;
    await this.flush();
  }

  async #flush(): Promise<void> {
    const [completed, ended] = [this.#completed, this.#ended];
    if (completed.size === 0 && ended.size === 0) return;
    this.#completed = new Map();
    this.#ended = new Map();
    const shard = Math.floor(Math.random() * SHARDS);
    const written = [
      ...[...completed].map(async ([name, { queue, type, goneOn, n }]) => {
        const key = { pk: `counts#${shard}`, sk: `${goneOn ?? ""}#${queue.length}#${queue}#${type}` };
        const ttl = goneOn === null ? null : ((goneOn + 1) * DAY_MS) / 1_000;
        await this.#grow(key, n, { queue, type, gone_on: goneOn, ttl });
        completed.delete(name);
      }),
      ...[...ended].map(async ([name, { second, state, n }]) => {
        const key = { pk: minuteKey(second), sk: `${second}#${state}#${shard}` };
        await this.#grow(key, n, { second, ended: state, ttl: second + KEPT_SECONDS });
        ended.delete(name);
      }),
    ];
    const failed = (await Promise.allSettled(written)).find((each) => each.status === "rejected");
    for (const { queue, type, goneOn, n } of completed.values()) {
      this.#add({ queue, type }, goneOn === null ? null : (goneOn * DAY_MS) / 1_000, n);
    }
    for (const [name, count] of ended) {
      this.#ended.set(name, { ...count, n: count.n + (this.#ended.get(name)?.n ?? 0) });
    }
    if (failed !== undefined) throw failed.reason;
  }

  async #grow(key: Key, n: number, fields: Fields): Promise<void> {
    if (n === 0) return;
    const change = new Change().set(Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)));
    change.setTo("n", `if_not_exists(#n, ${change.value(0)}) + ${change.value(n)}`);
    await this.#table.updateOnce(key, change);
  }

  /** Completed jobs that are still there, by queue and type. */
  async total(now: number): Promise<{ queue: string; type: string; count: number }[]> {
    const today = Math.floor(now / DAY_MS);
    const sums = new Map<string, { queue: string; type: string; count: number }>();
    const pages = await Promise.all(Array.from({ length: SHARDS }, (_, shard) => this.#all(`counts#${shard}`)));
    for (const item of pages.flat()) {
      const goneOn = numberOf(item, "gone_on");
      if (goneOn !== null && goneOn < today) continue;
      const [queue, type] = [textOf(item, "queue") ?? "", textOf(item, "type") ?? ""];
      const name = JSON.stringify([queue, type]);
      const sum = sums.get(name) ?? { queue, type, count: 0 };
      sums.set(name, { ...sum, count: sum.count + (numberOf(item, "n") ?? 0) });
    }
    return [...sums.values()].filter(({ count }) => count > 0);
  }

  async lastMinute(now: number): Promise<Record<FinishedState, number>> {
    const last: Record<FinishedState, number> = { completed: 0, dead: 0, cancelled: 0 };
    const second = Math.floor(now / 1_000);
    const pages = await Promise.all([minuteKey(second), minuteKey(second - 60)].map((key) => this.#all(key)));
    for (const item of pages.flat()) {
      const at = numberOf(item, "second") ?? 0;
      if (at > second - 60 && at <= second) last[textOf(item, "ended") as FinishedState] += numberOf(item, "n") ?? 0;
    }
    return last;
  }

  #all(pk: string): Promise<Item[]> {
    return this.#table.all({ hash: pk, consistent: true });
  }
}

const DAY_MS = 86_400_000;
const SHARDS = 4;
const KEPT_SECONDS = 600;

function minuteKey(second: number): string {
  return `ended#${Math.floor(second / 60)}`;
}
