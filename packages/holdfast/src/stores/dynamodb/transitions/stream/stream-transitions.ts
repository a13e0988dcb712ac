import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { TransitionPage, TransitionRecord } from "../../../../store.js";
import { itemOf, stringOf } from "../../connection/attributes.js";
import type { Streams, StreamShard } from "../../connection/streams.js";
import type { Table } from "../../connection/table.js";
import { positionKey } from "../../jobs/item-keys.js";
import { ttlSeconds } from "../../jobs/items.js";
import { ShardReader, type Placed } from "./shard-reader.js";
import type { Shards } from "./shards.js";
import {
  readPlaces,
  readStreamCursor,
  shardName,
  showPlaces,
  streamCursorOf,
  streamName,
  type Place,
  type StoredPlaces,
} from "./stream-cursor.js";
import type { TableStream } from "./table-stream.js";

interface Parts {
  streams: Streams;
  tableStream: TableStream;
  /** DynamoDB's time. */
  time: () => number;
  /** False under a test clock. */
  isLive: boolean;
  /** Aborted when the store closes. */
  closing: AbortSignal;
}

// Cursors are shorter-lived than the records, which DynamoDB keeps for 24 hours.
const CURSOR_MS = 12 * 60_000;
const KEPT_MS = 24 * 3_600_000;
// A shard without more records is read again after this long at the earliest.
const READ_EVERY_MS = 500;
// How many requests a page sends to one shard, and how many generations of shards it goes through.
const MAX_READS = 20;
const MAX_GENERATIONS = 8;
// Fewer than a reader keeps in memory.
const MAX_PAGE = 1_000;
// Children may be listed a little later than their parent is closed. Until then, shards are listed this often.
const LISTED_MS = 1_000;
// Readers of one shard at different places.
const MAX_READERS = 8;
const UNUSED_MS = 120_000;
// The header takes the rest of the 1,000 characters.
const MAX_PLACES_CHARS = 950;
const POSITION_KEPT_MS = 15 * 60_000;

/**
 * Transitions from the table's stream. Nothing has to be recorded: every write of a job is in the stream.
 *
 * A cursor has a place for each shard. Every shard is read by one reader for all followers, as long as they are not too far behind each
 * other.
 */
export class StreamTransitions {
  readonly #table: Table;
  readonly #parts: Parts;
  readonly #readers = new Map<string, ShardReader[]>();
  #listed: { arn: string; shards: Shards; at: number } | null = null;
  #purgedBefore = Number.NEGATIVE_INFINITY;

  constructor(table: Table, parts: Parts) {
    this.#table = table;
    this.#parts = parts;
  }

  /** A cursor after everything that is in the stream now. Null: the table has no stream that this process can read. */
  async start(): Promise<string | null> {
    const { tableStream, streams, time } = this.#parts;
    const arn = await tableStream.arn();
    if (arn === null) return null;
    const shards = await this.#list(arn);
    if (shards === null || !shards.isEnabled) {
      tableStream.forget();
      return null;
    }
    const at = time();
    const leaves = shards.leaves();
    const iterators = await tableStream.ifReadable(() =>
      Promise.all(leaves.map(({ id }) => streams.iterator(arn, id, "newest"))),
    );
    if (iterators === null) return null;
    const place: Place = { after: "time", at: this.#now() };
    for (const [nth, { id }] of leaves.entries()) this.#addReader(arn, id, place, iterators[nth]);
    return this.#cursorOf(arn, at, new Map(leaves.map((shard) => [shard, place])));
  }

  /** See `Store.transitions`. */
  async page(cursor: string, limit: number): Promise<TransitionPage | null> {
    const { at, stream, stored } = readStreamCursor(cursor);
    const { time, isLive, tableStream } = this.#parts;
    const inline = "places" in stored ? readPlaces(stored.places) : null;
    const now = time();
    const isExpired = isLive ? at < now - CURSOR_MS : at <= now - KEPT_MS;
    if (isExpired || at < this.#purgedBefore) return null;
    const arn = await this.#find(stream);
    const places = inline ?? (await this.#readItem(stored));
    if (arn === null || places === null) return null;
    const shards = await this.#list(arn, (known) =>
      [...places.keys()].every((name) => known.named(name) !== undefined),
    );
    const complete = shards?.complete(places) ?? null;
    if (shards === null || complete === null) return null;
    try {
      return await this.#read(arn, complete, { now, limit: Math.min(limit, MAX_PAGE) });
    } catch (error) {
      const { name } = error as Error;
      if (name !== "TrimmedDataAccessException" && name !== "ResourceNotFoundException") throw error;
      tableStream.forget();
      return null;
    }
  }

  /** Cursors from before that expire. Nothing is deleted: DynamoDB does that. */
  purge(before: number): void {
    this.#purgedBefore = Math.max(this.#purgedBefore, before);
  }

  async #find(stream: string): Promise<string | null> {
    const { tableStream } = this.#parts;
    const known = this.#listed?.arn;
    if (known !== undefined && streamName(known) === stream) return known;
    const arn = await tableStream.arn();
    if (arn !== null && streamName(arn) === stream) return arn;
    // This cursor may be of a newer stream than the one that is known here.
    tableStream.forget();
    const again = await tableStream.arn();
    return again !== null && streamName(again) === stream ? again : null;
  }

  /** Reads every shard, and replaces those that were read completely by their children. */
  async #read(
    arn: string,
    places: Map<StreamShard, Place>,
    { now, limit }: { now: number; limit: number },
  ): Promise<TransitionPage | null> {
    let found = new Map<StreamShard, ShardReader>();
    let hasEnded = false;
    for (let generation = 0; generation < MAX_GENERATIONS; generation++) {
      const read = await Promise.all(
        [...places].map(async ([shard, place]) => [shard, await this.#fill(arn, shard, place, limit)] as const),
      );
      found = new Map(read);
      const ended = read.filter(
        ([shard, reader]) => reader.isClosed && reader.after(places.get(shard) as Place).length === 0,
      );
      if (ended.length === 0) break;
      const isListed = (shards: Shards): boolean => ended.every(([{ id }]) => shards.childrenOf(id).length > 0);
      const shards = await this.#list(arn, isListed, LISTED_MS);
      if (shards === null) return null;
      const children = ended.flatMap(([shard]) => {
        const after = shards.childrenOf(shard.id);
        if (after.length > 0) places.delete(shard);
        return after;
      });
      for (const child of children) places.set(child, { after: "start" });
      // A stream that was switched off has no further shards. What happened since then is not recorded.
      hasEnded = children.length === 0 && !shards.isEnabled;
      if (children.length === 0) break;
    }
    const { transitions, consumed } = merge(places, found, limit);
    if (hasEnded && transitions.length === 0) {
      this.#listed = null;
      this.#parts.tableStream.forget();
      return null;
    }
    return { transitions, cursor: await this.#cursorOf(arn, now, consumed) };
  }

  /** A reader that has the next records after the place, if there are any. */
  async #fill(arn: string, { id, isClosed }: StreamShard, place: Place, limit: number): Promise<ShardReader> {
    const reader = this.#readerOf(id, place) ?? this.#addReader(arn, id, place);
    const { isLive, closing } = this.#parts;
    for (let reads = 0; reads < MAX_READS && !reader.isClosed; reads++) {
      const count = reader.after(place).length;
      if (count >= limit) break;
      // A closed shard is read to its end.
      const hasMore = reader.hasMore || (isClosed && count === 0);
      if (reads > 0 && !hasMore) break;
      const waitMs = isLive && !hasMore ? READ_EVERY_MS - reader.ageMs : 0;
      if (waitMs > 0 && count > 0) break;
      if (waitMs > 0) await sleep(waitMs, undefined, { signal: closing }).catch(() => {});
      if (closing.aborted) break;
      await reader.read();
    }
    return reader;
  }

  /** Of the readers that cover the place, the one that has read most. */
  #readerOf(shard: string, place: Place): ShardReader | null {
    const readers = (this.#readers.get(shard) ?? []).filter((reader) => reader.covers(place));
    const [first = null, ...others] = readers;
    const best = others.reduce<ShardReader | null>(
      (found, reader) => ((reader.tip ?? -1n) > (found?.tip ?? -1n) ? reader : found),
      first,
    );
    if (best !== null) best.usedAt = performance.now();
    return best;
  }

  #addReader(arn: string, shard: string, from: Place, iterator?: string): ShardReader {
    const { streams } = this.#parts;
    const reader = new ShardReader({
      streams,
      arn,
      shard,
      from,
      now: () => this.#now(),
      ...(iterator !== undefined && { iterator }),
    });
    this.#dropUnused();
    const readers = this.#readers.get(shard) ?? [];
    const kept = readers.toSorted((a, b) => b.usedAt - a.usedAt).slice(0, MAX_READERS - 1);
    this.#readers.set(shard, [...kept, reader]);
    return reader;
  }

  #dropUnused(): void {
    const from = performance.now() - UNUSED_MS;
    for (const [shard, readers] of this.#readers) {
      const used = readers.filter(({ usedAt }) => usedAt >= from);
      if (used.length === 0) this.#readers.delete(shard);
      else this.#readers.set(shard, used);
    }
  }

  /** The shards of the stream: listed before, if that list is as needed or was read within `maxAgeMs`; else listed now. */
  async #list(
    arn: string,
    isAsNeeded: ((shards: Shards) => boolean) | null = null,
    maxAgeMs = 0,
  ): Promise<Shards | null> {
    const listed = this.#listed?.arn === arn ? this.#listed : null;
    const at = performance.now();
    if (listed !== null && isAsNeeded !== null) {
      const isRecent = this.#parts.isLive && at - listed.at < maxAgeMs;
      if (isRecent || isAsNeeded(listed.shards)) return listed.shards;
    }
    const shards = await this.#parts.tableStream.shards(arn);
    this.#listed = shards === null ? null : { arn, shards, at };
    return shards;
  }

  async #cursorOf(arn: string, at: number, places: ReadonlyMap<StreamShard, Place>): Promise<string> {
    const shown = showPlaces(new Map([...places].map(([{ id }, place]) => [shardName(id), place])));
    const stored = shown.length <= MAX_PLACES_CHARS ? { places: shown } : { item: await this.#putItem(shown) };
    return streamCursorOf({ at, stream: streamName(arn) }, stored);
  }

  /** A table with so many shards has tens of thousands of write units a second. */
  async #putItem(places: string): Promise<string> {
    const id = randomUUID();
    const ttl = ttlSeconds(this.#parts.time() + POSITION_KEPT_MS);
    await this.#table.put(itemOf({ ...positionKey(id), places, ttl }));
    return id;
  }

  async #readItem(stored: StoredPlaces): Promise<Map<string, Place> | null> {
    const item = "item" in stored ? await this.#table.get(positionKey(stored.item)) : null;
    const places = item === null ? null : stringOf(item, "places");
    return places === null ? null : readPlaces(places);
  }

  /** DynamoDB's time, also under a test clock. */
  #now(): number {
    return Math.round(Date.now() + this.#table.time.offset);
  }
}

/** The first transitions of all shards, by time, each shard's in its order. `consumed`: the place in each shard after them. */
function merge(
  places: ReadonlyMap<StreamShard, Place>,
  readers: ReadonlyMap<StreamShard, ShardReader>,
  limit: number,
): { transitions: TransitionRecord[]; consumed: Map<StreamShard, Place> } {
  const lines = [...places].map(([shard, place]) => {
    const reader = readers.get(shard);
    // Another page may have read so much meanwhile that this place is not in memory any more.
    const isCovered = reader?.covers(place) === true;
    const found: readonly Placed[] = isCovered ? reader.after(place) : [];
    return { shard, place, found, next: 0, tip: isCovered ? reader.tip : null };
  });
  const transitions: TransitionRecord[] = [];
  while (transitions.length < limit) {
    let first: (typeof lines)[number] | null = null;
    for (const line of lines) {
      const [at, best] = [line.found[line.next]?.transition.at, first?.found[first.next]?.transition.at];
      if (at !== undefined && (best === undefined || at < best)) first = line;
    }
    const transition = first?.found[first.next]?.transition;
    if (first === null || transition === undefined) break;
    transitions.push(transition);
    first.next++;
  }
  const consumed = new Map(
    lines.map(({ shard, place, found, next, tip }) => {
      const after = next < found.length ? (found[next - 1]?.sequence ?? null) : tip;
      return [shard, after === null ? place : { after }];
    }),
  );
  return { transitions, consumed };
}
