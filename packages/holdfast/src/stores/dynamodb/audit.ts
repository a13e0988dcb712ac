import { auditCursor, auditWindow, type AuditWindow } from "../../access/audit-order.js";
import type { AuditEntry, AuditFilter, AuditPage, StoredAuditEntry } from "../../store.js";
import { itemOf, numberOf, textOf, type Item } from "./connection/attributes.js";
import { Change } from "./connection/expressions.js";
import { isGone, ttlSeconds } from "./jobs/items.js";
import { AUDIT, auditIdKey, auditKey, timeText, type Key } from "./jobs/keys.js";
import type { Table, TransactItem } from "./connection/table.js";

// Entries that one page reads at most, fit or not, and that one query reads.
const MOST_READ = 1_000;
const READ_AT_ONCE = 250;
// Each takes two of the hundred writes that a transaction can hold.
const REMOVED_AT_ONCE = 50;

/**
 * Entries stand by their time, in a partition for each month; an item for each month that has some keeps lists from walking
 * through years that have none. Beside each entry stands an item under its id alone: a repetition, at another time, meets it.
 */
export class AuditLog {
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  async append(given: readonly AuditEntry[], now: number): Promise<void> {
    let entries = [...new Map(given.map((entry) => [entry.id, entry])).values()];
    const month = monthOf(now);
    // Before the entries: whoever could see those finds the month.
    if (entries.length > 0) await this.#table.put(itemOf({ pk: AUDIT, sk: month }));
    while (entries.length > 0) {
      const writes = entries.flatMap((entry): TransactItem[] => {
        const ttl = entry.keepMs === null ? null : ttlSeconds(now + entry.keepMs);
        return [
          { put: itemOf({ ...auditIdKey(entry.id), ttl }), when: isUnknown(now) },
          { put: entryItem(entry, month, now, ttl) },
        ];
      });
      const written = await this.#table.transact(writes);
      if (written.done) return;
      // Those that are there already are left out of the next try; an id that is there stays there.
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
    const isPicky = filter.actor !== undefined || filter.action !== undefined;
    const atOnce = isPicky ? READ_AT_ONCE : Math.min(READ_AT_ONCE, limit + 1);
    const most = Math.max(MOST_READ, limit + 1);
    let read = 0;
    for (const month of (await this.#months()).toReversed()) {
      if (!overlaps(month, window)) continue;
      for await (const page of this.#pages(month, window, atOnce)) {
        const entries = page.map(readEntry);
        found.push(...entries.filter((entry, at) => !isGone(page[at] ?? {}, now) && fits(entry, filter)));
        read += page.length;
        if (found.length > limit) return pageOf(found.slice(0, limit));
        const last = entries.at(-1);
        if (read >= most && last !== undefined) return { entries: found, cursor: auditCursor(last) };
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
        below: timeText(before),
        limit: REMOVED_AT_ONCE,
        consistent: true,
      })) {
        const some = page.slice(0, limit - removed);
        await this.#remove(some);
        removed += some.length;
        if (removed >= limit) return removed;
      }
      // All of its entries are gone, and none comes any more.
      if (end <= before) await this.#table.delete({ pk: AUDIT, sk: month });
    }
    return removed;
  }

  async #remove(items: readonly Item[]): Promise<void> {
    const keys = items.flatMap((item): Key[] => [
      { pk: textOf(item, "pk") ?? "", sk: textOf(item, "sk") ?? "" },
      auditIdKey(textOf(item, "id") ?? ""),
    ]);
    await this.#table.transact(keys.map((key) => ({ delete: key })));
  }

  /** Oldest first. */
  async #months(): Promise<string[]> {
    return (await this.#table.all({ hash: AUDIT, consistent: true })).map((item) => textOf(item, "sk") ?? "");
  }

  /** Entries of a month, newest first. */
  async *#pages(month: string, { from, below }: AuditWindow, limit: number): AsyncGenerator<Item[]> {
    const end = placeText(below.at, below.id);
    const bounds = { from: timeText(from), below: end };
    const walk = { hash: auditKey(month), ...bounds, limit, newestFirst: true, consistent: true };
    // DynamoDB counts both ends in.
    for await (const page of this.#table.pages(walk)) yield page.filter((item) => textOf(item, "sk") !== end);
  }
}

function entryItem(entry: AuditEntry, month: string, at: number, ttl: number | null): Item {
  const { id, actor, action, target, count, detail } = entry;
  return itemOf({ pk: auditKey(month), sk: placeText(at, id), id, at, actor, action, target, count, detail, ttl });
}

function readEntry(item: Item): StoredAuditEntry {
  return {
    id: textOf(item, "id") ?? "",
    at: numberOf(item, "at") ?? 0,
    actor: textOf(item, "actor") ?? "",
    action: textOf(item, "action") ?? "",
    target: textOf(item, "target"),
    count: numberOf(item, "count") ?? 0,
    detail: textOf(item, "detail"),
  };
}

function pageOf(entries: StoredAuditEntry[]): AuditPage {
  const last = entries.at(-1);
  return { entries, cursor: last === undefined ? null : auditCursor(last) };
}

function fits(entry: StoredAuditEntry, { actor, action }: AuditFilter): boolean {
  return (actor === undefined || entry.actor === actor) && (action === undefined || entry.action === action);
}

function placeText(at: number, id: string): string {
  return `${timeText(at)}#${id}`;
}

/** Of UTC: `2026-01`. */
function monthOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 7);
}

/** When a month begins, and when it is over. */
function boundsOf(month: string): [start: number, end: number] {
  const [year = 0, nth = 1] = month.split("-").map(Number);
  return [Date.UTC(year, nth - 1), Date.UTC(year, nth)];
}

function overlaps(month: string, { from, below }: AuditWindow): boolean {
  const [start, end] = boundsOf(month);
  return start <= below.at && end > from && from <= below.at;
}

/** No entry has this id, or one whose time is over and that DynamoDB has not yet cleared away. */
function isUnknown(now: number): Change {
  const change = new Change();
  return change.when(`attribute_not_exists(#pk) OR #ttl <= ${change.value(Math.floor(now / 1_000))}`);
}
