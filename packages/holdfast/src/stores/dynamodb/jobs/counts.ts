import type { Clock } from "../../../clock.js";
import type { FinishedState } from "../../../job/state.js";
import { numberOf, stringOf, type Item } from "../connection/attributes.js";
import { Change } from "../connection/expressions.js";
import type { Fields, JobItem } from "./items.js";
import type { Key } from "./item-keys.js";
import type { Table } from "../connection/table.js";

/**
 * Counters of completed jobs. These jobs are not in the live index, and DynamoDB deletes them without notice, so they
 * cannot be counted later. Counted in memory and written about every second, by the day on which the jobs will be
 * deleted.
 */
export class Counts {
  readonly #table: Table;
  readonly #flushMs: number;
  readonly #clock: Clock;
  #completed = new Map<string, { queue: string; type: string; deletedOn: number | null; n: number }>();
  #ended = new Map<string, { second: number; state: FinishedState; n: number }>();
  #timer: { cancel(): void } | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(table: Table, clock: Clock, flushMs: number) {
    this.#table = table;
    this.#clock = clock;
    this.#flushMs = flushMs;
  }

  /** A job has finished. DynamoDB deletes it after `ttl`; if that is null, a purge does. */
  finished(job: Pick<JobItem, "queue" | "type">, state: FinishedState, now: number, ttl: number | null = null): void {
    if (state === "completed") this.#add(job, ttl, 1);
    this.#countEnd(state, now);
  }

  /** A job has finished and was deleted. */
  finishedAndDeleted(state: FinishedState, now: number): void {
    this.#countEnd(state, now);
  }

  #countEnd(state: FinishedState, now: number): void {
    // Counted by second, for the figures of the last minute.
    const second = Math.floor(now / 1_000);
    const name = `${second} ${state}`;
    const count = this.#ended.get(name) ?? { second, state, n: 0 };
    this.#ended.set(name, { ...count, n: count.n + 1 });
    this.#scheduleFlush();
  }

  /** A completed job was deleted. */
  deleted(job: Pick<JobItem, "queue" | "type">, ttl: number | null): void {
    this.#add(job, ttl, -1);
  }

  #add({ queue, type }: Pick<JobItem, "queue" | "type">, ttl: number | null, n: number): void {
    const deletedOn = ttl === null ? null : Math.floor((ttl * 1_000) / DAY_MS);
    const name = JSON.stringify([deletedOn, queue, type]);
    const count = this.#completed.get(name) ?? { queue, type, deletedOn, n: 0 };
    this.#completed.set(name, { ...count, n: count.n + n });
    this.#scheduleFlush();
  }

  #scheduleFlush(): void {
    this.#timer ??= this.#clock.after(
      this.#flushMs,
      () => {
        this.#timer = null;
        // Counts that could not be written are added to the next write.
        this.flush().catch(() => this.#scheduleFlush());
      },
      { background: true },
    );
  }

  /** Writes the counts since the last flush. */
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
      ...[...completed].map(async ([name, { queue, type, deletedOn, n }]) => {
        const key = { pk: `counts#${shard}`, sk: `${deletedOn ?? ""}#${queue.length}#${queue}#${type}` };
        const ttl = deletedOn === null ? null : ((deletedOn + 1) * DAY_MS) / 1_000;
        await this.#increment(key, n, { queue, type, gone_on: deletedOn, ttl });
        completed.delete(name);
      }),
      ...[...ended].map(async ([name, { second, state, n }]) => {
        const key = { pk: minuteKey(second), sk: `${second}#${state}#${shard}` };
        await this.#increment(key, n, { second, ended: state, ttl: second + KEPT_SECONDS });
        ended.delete(name);
      }),
    ];
    const failed = (await Promise.allSettled(written)).find((each) => each.status === "rejected");
    for (const { queue, type, deletedOn, n } of completed.values()) {
      this.#add({ queue, type }, deletedOn === null ? null : (deletedOn * DAY_MS) / 1_000, n);
    }
    for (const [name, count] of ended) {
      this.#ended.set(name, { ...count, n: count.n + (this.#ended.get(name)?.n ?? 0) });
    }
    if (failed !== undefined) throw failed.reason;
  }

  async #increment(key: Key, n: number, fields: Fields): Promise<void> {
    if (n === 0) return;
    const change = new Change().set(Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null)));
    change.setTo("n", `if_not_exists(#n, ${change.value(0)}) + ${change.value(n)}`);
    await this.#table.updateOnce(key, change);
  }

  /** Completed jobs that still exist, by queue and type. */
  async total(now: number): Promise<{ queue: string; type: string; count: number }[]> {
    const today = Math.floor(now / DAY_MS);
    const sums = new Map<string, { queue: string; type: string; count: number }>();
    const pages = await Promise.all(Array.from({ length: SHARDS }, (_, shard) => this.#all(`counts#${shard}`)));
    for (const item of pages.flat()) {
      const deletedOn = numberOf(item, "gone_on");
      if (deletedOn !== null && deletedOn < today) continue;
      const [queue, type] = [stringOf(item, "queue") ?? "", stringOf(item, "type") ?? ""];
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
      if (at > second - 60 && at <= second) last[stringOf(item, "ended") as FinishedState] += numberOf(item, "n") ?? 0;
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
