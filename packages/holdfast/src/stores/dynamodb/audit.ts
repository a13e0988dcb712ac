import { auditCursor, auditWindow, type AuditWindow } from "../../access/audit-order.js";
import type { AuditEntry, AuditFilter, AuditPage, StoredAuditEntry } from "../../store.js";
import { itemOf, numberOf, stringOf, type Item } from "./connection/attributes.js";
import { Change } from "./connection/expressions.js";
import { isDeleted, ttlSeconds } from "./jobs/items.js";
import { AUDIT, auditIdKey, auditKey, sortableTime, type Key } from "./jobs/item-keys.js";
import type { Table, TransactItem } from "./connection/table.js";

// How many entries one page reads at most, including those that do not match the filter.
const MAX_READ = 1_000;
const QUERY_LIMIT = 250;
// A transaction has at most 100 writes, and deleting an entry takes two.
const DELETE_BATCH = 50;

/**
 * The audit log. Each month is a partition, with its entries by time. An item per month lists the months that have
 * entries, so that a list skips empty years. Another item per entry has only its id: if the same entry is appended
 * again at another time, that item rejects it.
 */
export class AuditLog {
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  async append(given: readonly AuditEntry[], now: number): Promise<void> {
    let entries = [...new Map(given.map((entry) => [entry.id, entry])).values()];
    const month = monthOf(now);
    // Before the entries, so that every visible entry is in a listed month.
    if (entries.length > 0) await this.#table.put(itemOf({ pk: AUDIT, sk: month }));
    while (entries.length > 0) {
      const writes = entries.flatMap((entry): TransactItem[] => {
        const ttl = entry.keepMs === null ? null : ttlSeconds(now + entry.keepMs);
        return [
          { put: itemOf({ ...auditIdKey(entry.id), ttl }), when: idIsFree(now) },
          { put: entryItem(entry, month, now, ttl) },
        ];
      });
      const written = await this.#table.transact(writes);
      if (written.done) return;
      // Leave out the entries that are already stored, and try again.
      entries = entries.filter((_, at) => written.failed[2 * at] === undefined);
    }
  }

  async list(
    filter: AuditFilter,
    { limit, cursor }: { limit: number; cursor: string | null },
    now: number,
  ): Promise<AuditPage> {
    const window = auditWindow(filter, cursor);
    const found: StoredAuditEntry[] = [];
    const isFiltered = filter.actor !== undefined || filter.action !== undefined;
    const queryLimit = isFiltered ? QUERY_LIMIT : Math.min(QUERY_LIMIT, limit + 1);
    const maxRead = Math.max(MAX_READ, limit + 1);
    let read = 0;
    for (const month of (await this.#months()).toReversed()) {
      if (!overlaps(month, window)) continue;
      for await (const page of this.#pages(month, window, queryLimit)) {
        const entries = page.map(readEntry);
        found.push(...entries.filter((entry, at) => !isDeleted(page[at] ?? {}, now) && matches(entry, filter)));
        read += page.length;
        if (found.length > limit) return pageOf(found.slice(0, limit));
        const last = entries.at(-1);
        if (read >= maxRead && last !== undefined) return { entries: found, cursor: auditCursor(last) };
      }
    }
    return { entries: found, cursor: null };
  }

  async purge({ before, limit }: { before: number; limit: number }): Promise<number> {
    let removed = 0;
    for (const month of await this.#months()) {
      const [start, end] = boundsOf(month);
      if (start >= before || removed >= limit) break;
      for await (const page of this.#table.pages({
        hash: auditKey(month),
        below: sortableTime(before),
        limit: DELETE_BATCH,
        consistent: true,
      })) {
        const some = page.slice(0, limit - removed);
        await this.#remove(some);
        removed += some.length;
        if (removed >= limit) return removed;
      }
      // All entries of the month are deleted, and no new ones can be appended.
      if (end <= before) await this.#table.delete({ pk: AUDIT, sk: month });
    }
    return removed;
  }

  async #remove(items: readonly Item[]): Promise<void> {
    const keys = items.flatMap((item): Key[] => [
      { pk: stringOf(item, "pk") ?? "", sk: stringOf(item, "sk") ?? "" },
      auditIdKey(stringOf(item, "id") ?? ""),
    ]);
    await this.#table.transact(keys.map((key) => ({ delete: key })));
  }

  /** Oldest first. */
  async #months(): Promise<string[]> {
    return (await this.#table.all({ hash: AUDIT, consistent: true })).map((item) => stringOf(item, "sk") ?? "");
  }

  /** Entries of a month, newest first. */
  async *#pages(month: string, { from, below }: AuditWindow, limit: number): AsyncGenerator<Item[]> {
    const end = entryKey(below.at, below.id);
    const bounds = { from: sortableTime(from), below: end };
    const request = { hash: auditKey(month), ...bounds, limit, newestFirst: true, consistent: true };
    // BETWEEN includes both ends.
    for await (const page of this.#table.pages(request)) yield page.filter((item) => stringOf(item, "sk") !== end);
  }
}

function entryItem(entry: AuditEntry, month: string, at: number, ttl: number | null): Item {
  const { id, actor, action, target, count, detail } = entry;
  return itemOf({ pk: auditKey(month), sk: entryKey(at, id), id, at, actor, action, target, count, detail, ttl });
}

function readEntry(item: Item): StoredAuditEntry {
  return {
    id: stringOf(item, "id") ?? "",
    at: numberOf(item, "at") ?? 0,
    actor: stringOf(item, "actor") ?? "",
    action: stringOf(item, "action") ?? "",
    target: stringOf(item, "target"),
    count: numberOf(item, "count") ?? 0,
    detail: stringOf(item, "detail"),
  };
}

function pageOf(entries: StoredAuditEntry[]): AuditPage {
  const last = entries.at(-1);
  return { entries, cursor: last === undefined ? null : auditCursor(last) };
}

function matches(entry: StoredAuditEntry, { actor, action }: AuditFilter): boolean {
  return (actor === undefined || entry.actor === actor) && (action === undefined || entry.action === action);
}

function entryKey(at: number, id: string): string {
  return `${sortableTime(at)}#${id}`;
}

/** The month in UTC, such as `2026-01`. */
function monthOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 7);
}

/** The start of a month and of the next one. */
function boundsOf(month: string): [start: number, end: number] {
  const [year = 0, nth = 1] = month.split("-").map(Number);
  return [Date.UTC(year, nth - 1), Date.UTC(year, nth)];
}

function overlaps(month: string, { from, below }: AuditWindow): boolean {
  const [start, end] = boundsOf(month);
  return start <= below.at && end > from && from <= below.at;
}

/** A condition: no entry has this id, or one whose time to live is over. */
function idIsFree(now: number): Change {
  const change = new Change();
  return change.when(`attribute_not_exists(#pk) OR #ttl <= ${change.value(Math.floor(now / 1_000))}`);
}
