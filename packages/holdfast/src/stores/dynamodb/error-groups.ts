import { LIMITS } from "../../defaults.js";
import type { ErrorGroupRecord } from "../../store.js";
import { itemOf, numberOf, stringOf, type Item } from "./connection/attributes.js";
import { inParts } from "./connection/in-parts.js";
import { Change } from "./connection/expressions.js";
import type { Table } from "./connection/table.js";
import { ttlSeconds } from "./jobs/items.js";
import { ERROR_GROUPS, type Key } from "./jobs/item-keys.js";

// No caller waits for these writes: most of the connections are left to the workers.
const CONCURRENT_WRITES = 8;
// If no maintenance deletes the groups, DynamoDB does so, this long after their last error.
const KEPT_MS = 90 * 86_400_000;
const MAX_TRIES = 5;
// A query returns up to a megabyte, at least 300 groups.
const MAX_PAGES = 10;

/** Groups of errors. All are in one partition, by fingerprint: there are few, and a list reads all of them. */
export class ErrorGroups {
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  async record(groups: readonly ErrorGroupRecord[], now: number): Promise<void> {
    await inParts(groups, CONCURRENT_WRITES, (group) => this.#record(group, now));
  }

  /**
   * One write, if this error is the latest and not the first of its group, as most are. The condition of a write that fails
   * returns the group. As the first time only decreases and the last time only increases, the third write succeeds.
   */
  async #record(group: ErrorGroupRecord, now: number): Promise<void> {
    let written = await this.#table.update(keyOf(group), additionTo(null, group, now));
    for (let trial = 1; !written.done && trial < MAX_TRIES; trial++) {
      written = await this.#table.update(keyOf(group), additionTo(written.found, group, now));
    }
  }

  async list(limit: number): Promise<ErrorGroupRecord[]> {
    return (await this.#all()).slice(0, Math.min(limit, LIMITS.errorGroups));
  }

  async purge(before: number): Promise<number> {
    const groups = await this.#all();
    const old = groups.filter(({ lastAt }, at) => lastAt < before || at >= LIMITS.errorGroups);
    const deleted = await inParts(old, CONCURRENT_WRITES, async (group) => {
      const change = new Change();
      // Not if it has failed again.
      const when = change.when(`#last_at = ${change.value(group.lastAt)}`);
      return (await this.#table.delete(keyOf(group), when)).done;
    });
    return deleted.filter(Boolean).length;
  }

  /** The latest first. */
  async #all(): Promise<ErrorGroupRecord[]> {
    const groups: ErrorGroupRecord[] = [];
    let pages = 0;
    for await (const page of this.#table.pages({ hash: ERROR_GROUPS, consistent: true })) {
      groups.push(...page.map(readGroup));
      if (++pages >= MAX_PAGES) break;
    }
    return groups.toSorted((a, b) => b.lastAt - a.lastAt || (a.fingerprint < b.fingerprint ? 1 : -1));
  }
}

/** Adds to a group. Fails if it is the latest or the first error of the group, and was not when the group was read, or vice versa. */
function additionTo(read: Item | null, group: ErrorGroupRecord, now: number): Change {
  const { type, name, code, message, frame, count, firstAt, lastAt, job, example } = group;
  const isLatest = lastAt >= (numberOf(read ?? {}, "last_at") ?? lastAt);
  const isFirst = firstAt < (numberOf(read ?? {}, "first_at") ?? firstAt);
  const change = new Change();
  change.setTo("count", `if_not_exists(#count, ${change.value(0)}) + ${change.value(count)}`);
  if (isLatest) {
    const ttl = ttlSeconds(Math.max(now, lastAt) + KEPT_MS);
    change.set(itemOf({ type, name, code, message, frame, job, example, last_at: lastAt, ttl }));
  }
  const [first, last] = [change.value(firstAt), change.value(lastAt)];
  change.setTo("first_at", isFirst ? first : `if_not_exists(#first_at, ${first})`);
  const isSame = `#last_at ${isLatest ? "<=" : ">"} ${last} AND #first_at ${isFirst ? ">" : "<="} ${first}`;
  return change.when(read === null ? `attribute_not_exists(#pk) OR (${isSame})` : isSame);
}

function keyOf({ fingerprint }: Pick<ErrorGroupRecord, "fingerprint">): Key {
  return { pk: ERROR_GROUPS, sk: fingerprint };
}

function readGroup(item: Item): ErrorGroupRecord {
  return {
    fingerprint: stringOf(item, "sk") ?? "",
    type: stringOf(item, "type"),
    name: stringOf(item, "name"),
    code: stringOf(item, "code"),
    message: stringOf(item, "message") ?? "",
    frame: stringOf(item, "frame"),
    count: numberOf(item, "count") ?? 0,
    firstAt: numberOf(item, "first_at") ?? 0,
    lastAt: numberOf(item, "last_at") ?? 0,
    job: stringOf(item, "job") ?? "",
    example: stringOf(item, "example") ?? "",
  };
}
