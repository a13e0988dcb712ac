import type { TransitionRecord } from "../../../../store.js";
import type { StreamRecord, Streams } from "../../connection/streams.js";
import type { Place } from "./stream-cursor.js";
import { transitionOf } from "./transition-of.js";

/** A transition, and the record of the shard that has it. */
export interface Placed {
  sequence: bigint;
  transition: TransitionRecord;
}

// Transitions in memory; a follower that is further behind reads the shard again.
const MAX_BUFFERED = 4_000;
const FULL = 1_000;
// An older newest record means that there are more.
const RECENT_MS = 3_000;
// DynamoDB rounds the time of a record down to the second, the emulator to the minute.
const [ROUNDED_MS, ROUNDED_MINUTE_MS] = [1_000, 60_000];
const CLOCKS_MS = 2_000;

interface ReaderParts {
  streams: Streams;
  /** The shard. */
  arn: string;
  shard: string;
  /** DynamoDB's time, also under a test clock. */
  now: () => number;
  /** Where it begins. An iterator is given if the place is a time that is now. */
  from: Place;
  iterator?: string;
}

/**
 * Reads a shard from a place on, and keeps what it has read. Followers at any place since then share it. Only one request is sent at a
 * time.
 */
export class ShardReader {
  readonly #parts: ReaderParts;
  #start: Place;
  /** The first record that was read. */
  #first: bigint | null = null;
  /** The newest record that was read, whether it is a transition or not. */
  #tip: bigint | null = null;
  #buffered: Placed[] = [];
  #iterator: string | null;
  /** Records from before this time are skipped. */
  readonly #skipBefore: number | null;
  #isClosed = false;
  #hasMore = false;
  #reading: Promise<void> | null = null;
  #readAt = Number.NEGATIVE_INFINITY;
  /** When it was last used, by `performance.now()`. */
  usedAt: number = performance.now();

  constructor(parts: ReaderParts) {
    this.#parts = parts;
    this.#start = parts.from;
    this.#iterator = parts.iterator ?? null;
    this.#skipBefore = parts.from.after === "time" ? parts.from.at : null;
  }

  /** All records of the shard were read, and there will be no others. */
  get isClosed(): boolean {
    return this.#isClosed;
  }
  /** The shard has more records now. */
  get hasMore(): boolean {
    return this.#hasMore && !this.#isClosed;
  }
  get tip(): bigint | null {
    return this.#tip;
  }
  /** How long ago the last request was, in milliseconds. */
  get ageMs(): number {
    return performance.now() - this.#readAt;
  }

  /** Whether it has everything after this place. */
  covers(place: Place): boolean {
    if (typeof place.after !== "bigint") return isSamePlace(place, this.#start);
    const from = typeof this.#start.after === "bigint" ? this.#start.after : this.#first;
    return from !== null && place.after >= from && place.after <= (this.#tip ?? from);
  }

  /** What it has read after a place that it covers. */
  after(place: Place): readonly Placed[] {
    const { after } = place;
    if (typeof after !== "bigint") return this.#buffered;
    const first = this.#buffered.findIndex(({ sequence }) => sequence > after);
    return first < 0 ? [] : first === 0 ? this.#buffered : this.#buffered.slice(first);
  }

  /** Reads the next records. */
  read(): Promise<void> {
    const reading = (this.#reading ??= this.#read());
    const done = (): void => void (this.#reading = null);
    reading.then(done, done);
    return reading;
  }

  async #read(): Promise<void> {
    if (this.#isClosed) return;
    this.#readAt = performance.now();
    this.#iterator ??= await this.#newIterator();
    let received: Awaited<ReturnType<Streams["records"]>>;
    try {
      received = await this.#parts.streams.records(this.#iterator);
    } catch (error) {
      if (!this.#isRenewable(error)) throw error;
      this.#iterator = await this.#newIterator();
      received = await this.#parts.streams.records(this.#iterator);
    }
    const { records, next } = received;
    this.#iterator = next;
    this.#isClosed = next === null;
    const newest = records.at(-1);
    this.#hasMore =
      records.length >= FULL || (newest !== undefined && latestTimeOf(newest) < this.#parts.now() - RECENT_MS);
    this.#first ??= records[0]?.sequence ?? null;
    this.#tip = newest?.sequence ?? this.#tip;
    for (const record of records) {
      const transition = this.#isSkipped(record) ? null : transitionOf(record);
      if (transition !== null) this.#buffered.push({ sequence: record.sequence, transition });
    }
    this.#trim();
  }

  /**
   * Iterators are valid for 15 minutes. One at the newest record of a shard that has none yet can be refused too, as the emulator does
   * after a stream was switched off and on. A place after a record is really gone then.
   */
  #isRenewable(error: unknown): boolean {
    const { name } = error as Error;
    const hasPlace = this.#tip !== null || typeof this.#start.after === "bigint";
    return name === "ExpiredIteratorException" || (name === "TrimmedDataAccessException" && !hasPlace);
  }

  #newIterator(): Promise<string> {
    const { streams, arn, shard } = this.#parts;
    const from = this.#tip ?? (typeof this.#start.after === "bigint" ? this.#start.after : "oldest");
    return streams.iterator(arn, shard, from);
  }

  /** A shard can be read from its beginning only. Records that may be after the time are not skipped. */
  #isSkipped(record: StreamRecord): boolean {
    return this.#skipBefore !== null && latestTimeOf(record) + CLOCKS_MS <= this.#skipBefore;
  }

  #trim(): void {
    if (this.#buffered.length <= MAX_BUFFERED) return;
    const dropped = this.#buffered.splice(0, this.#buffered.length - MAX_BUFFERED).at(-1);
    if (dropped !== undefined) this.#start = { after: dropped.sequence };
  }
}

/** When the record was created at the latest. */
function latestTimeOf({ createdAt }: StreamRecord): number {
  return createdAt + (createdAt % ROUNDED_MINUTE_MS === 0 ? ROUNDED_MINUTE_MS : ROUNDED_MS);
}

function isSamePlace(a: Place, b: Place): boolean {
  if (a.after === "time") return b.after === "time" && a.at === b.at;
  return a.after === b.after;
}
