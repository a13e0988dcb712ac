import { systemClock } from "../../../clock.js";
import type { State } from "../../../job/state.js";
import { numberOf, type Item } from "../connection/attributes.js";
import type { SharedConfig } from "../connection/config.js";
import { Change } from "../connection/expressions.js";
import type { Table } from "../connection/table.js";
import { isOwnWrite, newRequestToken, waitForAll } from "../jobs/insert.js";
import { FOLLOWING } from "../jobs/item-keys.js";
import { batchItem, pack, type Recorded } from "./batch.js";
import type { ChangedJob } from "./transition-log.js";

/** How old the config may be by which a process decides whether to record a transition. */
export const NOTICED_MS = 5_000;
// How long transitions are collected before they are written.
const FLUSH_MS = 200;
const RETRY_MS = 1_000;
// Recording ends this long after the stored time: until then a follower may extend it, and processes notice that later. Clocks
// differ too.
const GRACE_MS = NOTICED_MS + 2_000;
// Times of other processes that are further ahead are ignored.
const MAX_AHEAD_MS = 5_000;
// Transitions held in memory while DynamoDB is not available.
const MAX_PENDING = 100_000;

/** A batch of this process that may not be stored yet. */
interface Unwritten {
  data: string;
  count: number;
  token: string;
  place: { number: number; total: number; sentAt: number } | null;
}

interface NumberedBatch extends Unwritten {
  place: NonNullable<Unwritten["place"]>;
}

export interface RecorderParts {
  config: SharedConfig;
  /** DynamoDB's time. */
  time: () => number;
  /** False under a test clock: then every call writes its transitions before it returns, and reads the config each time. */
  isLive: boolean;
}

/**
 * Records the transitions that this process makes, while jobs are followed.
 *
 * Whether they are is in the shared config, which every claim reads. If it was read too long ago, the transitions are kept until it
 * was read again, at most every NOTICED_MS. So a process writes nothing without followers, and no call waits.
 *
 * Transitions are collected and written in batches. Each batch takes the next number of a counter, and is put under that number if
 * nothing is there. Readers read the batches in the order of their numbers. If one is missing for long, a reader puts an empty item
 * in its place: either the batch is there, for all readers, or its writer is refused and takes another number. So no batch is
 * missed or read twice, however long a request takes, and whatever the clocks of the processes show.
 *
 * A process that is killed loses the transitions of the last FLUSH_MS.
 */
export class TransitionRecorder {
  readonly #table: Table;
  readonly #parts: RecorderParts;
  #added: Recorded[] = [];
  /** Batches that could not be written. */
  #failed: Unwritten[] = [];
  /** Transitions that are in batches, and not written yet. */
  #unwritten = 0;
  readonly #writes = new Set<Promise<void>>();
  #numbering: Promise<void> = Promise.resolve();
  #timer: { cancel(): void } | null = null;
  #latestAt = 0;
  #hasLost = false;
  #isStopped = false;

  constructor(table: Table, parts: RecorderParts) {
    this.#table = table;
    this.#parts = parts;
  }

  add({ id, type, queue, fence, item }: ChangedJob, to: State, now: number): void {
    if (this.#isFollowed(now) === false) return;
    if (this.#added.length + this.#unwritten >= MAX_PENDING) {
      // Followers must not miss these transitions without notice, so their cursors expire.
      this.#hasLost = true;
      this.#added = [];
      this.#drop(this.#failed.splice(0));
    }
    this.#added.push({ transition: { id, type, queue, to, at: now }, order: this.#timeAfter(item, now), fence });
    this.#schedule(FLUSH_MS);
  }

  /** Null: the config was read too long ago. */
  #isFollowed(now: number): boolean | null {
    const { config, isLive } = this.#parts;
    if (!isLive || config.known === null || config.known.ageMs > NOTICED_MS) return null;
    return config.known.config.followUntil + GRACE_MS > now;
  }

  /**
   * A time after that of the job's previous transition, even if another process made it whose clock is a little ahead. Readers
   * sort by it.
   */
  #timeAfter(before: Item | undefined, now: number): number {
    const previous = (numberOf(before ?? {}, "updated_at") ?? 0) + 1;
    const times = [previous, this.#latestAt].filter((at) => at <= now + MAX_AHEAD_MS);
    this.#latestAt = Math.max(now, ...times);
    return this.#latestAt;
  }

  #schedule(ms: number): void {
    // Under a test clock, each call flushes.
    if (this.#isStopped || !this.#parts.isLive) return;
    this.#timer ??= systemClock.after(
      ms,
      () => {
        this.#timer = null;
        void this.flush();
      },
      { background: true },
    );
  }

  flush(): Promise<void> {
    const write = this.#write().catch(() => this.#schedule(RETRY_MS));
    this.#writes.add(write);
    return write.finally(() => this.#writes.delete(write));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#timer?.cancel();
    await this.flush();
    await Promise.all(this.#writes);
    // Batches that were being written before may have failed.
    await this.flush();
  }

  /** Numbers are taken in order, so that the transitions of this process stay in order. The batches are then put concurrently. */
  async #write(): Promise<void> {
    for (;;) {
      const numbered = this.#numbering.then(() => this.#numberBatches());
      this.#numbering = numbered.then(
        () => {},
        () => {},
      );
      const batches = await numbered;
      const isPut = await waitForAll(batches.map((batch) => this.#put(batch)));
      if (isPut.every(Boolean)) return;
    }
  }

  /** Makes batches of what was added, and gives them numbers, after those that could not be written before. */
  async #numberBatches(): Promise<NumberedBatch[]> {
    if (this.#added.length === 0 && this.#failed.length === 0) return [];
    const { config, time, isLive } = this.#parts;
    if (this.#isFollowed(time()) === null) await config.read();
    const until = config.known?.config.followUntil ?? 0;
    const added = this.#added.splice(0);
    if (until + (isLive ? GRACE_MS : 0) <= time()) {
      this.#drop(this.#failed.splice(0));
      this.#hasLost = false;
      return [];
    }
    this.#unwritten += added.length;
    this.#failed.push(...pack(added).map((batch) => ({ ...batch, token: newRequestToken(), place: null })));
    if (this.#hasLost) await this.#expireCursors();
    const batches = this.#failed.splice(0);
    try {
      await this.#takeNumbers(batches.filter(({ place }) => place === null));
    } catch (error) {
      this.#failed.unshift(...batches);
      throw error;
    }
    return batches.filter((batch): batch is NumberedBatch => batch.place !== null);
  }

  #drop(batches: readonly Unwritten[]): void {
    for (const { count } of batches) this.#unwritten -= count;
  }

  /** False: it needs another number. */
  async #put(batch: NumberedBatch): Promise<boolean> {
    const change = new Change();
    const when = change.when(`attribute_not_exists(#pk) OR #token = ${change.value(batch.token)}`);
    try {
      const written = await this.#table.put(batchItem({ ...batch, ...batch.place }), when);
      if (written.done || isOwnWrite(written.found, batch.token)) {
        this.#drop([batch]);
        return true;
      }
    } catch (error) {
      // It may be stored. The next try uses the same number.
      this.#failed.push(batch);
      throw error;
    }
    // A reader has skipped it.
    this.#failed.push({ ...batch, place: null });
    return false;
  }

  /** If the response is lost, the numbers are taken again, and readers skip the first ones. */
  async #takeNumbers(batches: readonly Unwritten[]): Promise<void> {
    if (batches.length === 0) return;
    const transitions = batches.reduce((sum, { count }) => sum + count, 0);
    const change = new Change();
    change.setTo("number", `if_not_exists(#number, ${change.value(0)}) + ${change.value(batches.length)}`);
    change.setTo("total", `if_not_exists(#total, ${change.value(0)}) + ${change.value(transitions)}`);
    const written = await this.#table.update(FOLLOWING, change);
    const before = (written.done ? written.old : null) ?? {};
    const sentAt = this.#parts.time();
    let [number, total] = [numberOf(before, "number") ?? 0, numberOf(before, "total") ?? 0];
    for (const batch of batches) batch.place = { number: ++number, total: (total += batch.count), sentAt };
  }

  async #expireCursors(): Promise<void> {
    const change = new Change();
    change.setTo("epoch", `if_not_exists(#epoch, ${change.value(0)}) + ${change.value(1)}`);
    await this.#table.update(FOLLOWING, change);
    this.#hasLost = false;
  }
}
