import { createHash } from "node:crypto";
import type { HistoryMerge, HistoryPage, HistoryRange, HistoryRecord, HistoryResolution } from "../../store.js";
import { itemOf, numberOf, stringOf, type Item } from "./connection/attributes.js";
import { inParts } from "./connection/in-parts.js";
import { Change } from "./connection/expressions.js";
import type { Page, Table, TransactItem } from "./connection/table.js";
import { ttlSeconds } from "./jobs/items.js";
import { historyKey, sortableTime, type Key } from "./jobs/item-keys.js";

const DAY_MS = 86_400_000;
// If no maintenance deletes the records, DynamoDB does so.
const KEPT_MS: Readonly<Record<HistoryResolution, number>> = { minute: 2 * DAY_MS, hour: 32 * DAY_MS };
const CONCURRENT_WRITES = 8;
const LARGEST_PAGE = 1_000;
// DynamoDB's limits for a transaction are 100 writes and 4 MB, including the items that it deletes.
const MAX_WRITES = 100;
const MAX_MERGED_LENGTH = 1_000_000;

/**
 * Records of history. All of a resolution are in one partition, by time and writer, so that a range is read in order and
 * years without records cost nothing. A process writes one record a minute.
 */
export class HistoryRecords {
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  async put(records: readonly HistoryRecord[], now: number): Promise<void> {
    await inParts(records, CONCURRENT_WRITES, (record) => this.#table.put(recordItem(record, now)));
  }

  /** As many records as one request returns: up to a megabyte. */
  async read({ resolution, from, to, limit, after }: HistoryRange): Promise<HistoryPage> {
    const last = after === null ? null : recordKey(after);
    const start = last !== null && last > sortableTime(from) ? last : sortableTime(from);
    const end = sortableTime(to);
    if (limit <= 0 || start >= end) return { records: [], next: null };
    // One more, because the last record of the previous page is read again.
    const request = { hash: historyKey(resolution), from: start, below: end, consistent: true, limit: limit + 1 };
    let found: HistoryRecord[];
    let page: Page = { items: [], next: null };
    do {
      page = await this.#table.query({ ...request, after: page.next });
      const others = page.items.filter((item) => stringOf(item, "sk") !== last);
      found = others.map((item) => readRecord(item, resolution));
    } while (found.length === 0 && page.next !== null);
    const records = found.slice(0, limit);
    const newest = records.at(-1);
    const isEnd = newest === undefined || (page.next === null && found.length <= limit);
    return { records, next: isEnd ? null : { at: newest.at, writer: newest.writer } };
  }

  /**
   * One transaction. Its conditions compare hashes, because the values of all conditions count towards the size of the
   * transaction. False also if the records are too many or too large for one: at most 99 of them, about a megabyte of data.
   */
  async merge({ record, replaced }: HistoryMerge, now: number): Promise<boolean> {
    const { resolution, at, writer } = record;
    const unchanged = ({ data }: { data: string }): Change => {
      const change = new Change();
      return change.when(`#hash = ${change.value(hashOf(data))}`);
    };
    const own = replaced.find((each) => each.writer === writer);
    const writes: TransactItem[] = [
      { put: recordItem(record, now), ...(own !== undefined && { when: unchanged(own) }) },
      ...replaced
        .filter((each) => each !== own)
        .map((each) => ({ delete: keyOf({ resolution, at, writer: each.writer }), when: unchanged(each) })),
    ];
    const length = replaced.reduce((sum, { data }) => sum + data.length, record.data.length);
    if (writes.length > MAX_WRITES || length > MAX_MERGED_LENGTH) return false;
    return (await this.#table.transact(writes)).done;
  }

  async purge(request: { resolution: HistoryResolution; before: number; limit: number }): Promise<number> {
    const { resolution, before, limit } = request;
    let deleted = 0;
    if (limit <= 0) return 0;
    const found = { hash: historyKey(resolution), below: sortableTime(before), consistent: true };
    for await (const page of this.#table.pages({ ...found, limit: Math.min(LARGEST_PAGE, limit) })) {
      const some = page.slice(0, limit - deleted);
      await inParts(some, CONCURRENT_WRITES, (item) =>
        this.#table.delete({ pk: historyKey(resolution), sk: stringOf(item, "sk") ?? "" }),
      );
      deleted += some.length;
      if (deleted >= limit) break;
    }
    return deleted;
  }
}

function keyOf({ resolution, at, writer }: Pick<HistoryRecord, "resolution" | "at" | "writer">): Key {
  return { pk: historyKey(resolution), sk: recordKey({ at, writer }) };
}

function recordKey({ at, writer }: { at: number; writer: string }): string {
  return `${sortableTime(at)}#${writer}`;
}

function recordItem(record: HistoryRecord, now: number): Item {
  const { resolution, at, writer, data } = record;
  const ttl = ttlSeconds(Math.max(now, at) + KEPT_MS[resolution]);
  return itemOf({ ...keyOf(record), at, writer, data, hash: hashOf(data), ttl });
}

function readRecord(item: Item, resolution: HistoryResolution): HistoryRecord {
  return {
    resolution,
    at: numberOf(item, "at") ?? 0,
    writer: stringOf(item, "writer") ?? "",
    data: stringOf(item, "data") ?? "",
  };
}

function hashOf(data: string): string {
  return createHash("sha256").update(data).digest("base64url");
}
