import type {
  ClaimedOperation,
  OperationEnd,
  OperationLease,
  OperationProgress,
  OperationRecord,
  OperationState,
  SaveOperationResult,
  StoredOperation,
} from "../../store.js";
import { flagOf, itemOf, numberOf, stringOf, type Item } from "./connection/attributes.js";
import { inParts } from "./connection/in-parts.js";
import { Change } from "./connection/expressions.js";
import type { Table } from "./connection/table.js";
import { ttlSeconds } from "./jobs/items.js";
import { OPERATIONS, type Key } from "./jobs/item-keys.js";

// If no server deletes ended operations, DynamoDB does so. One that never ends is deleted later: no server has run it for long.
const ENDED_KEPT_MS = 30 * 86_400_000;
const RUNNING_KEPT_MS = 400 * 86_400_000;
const CONCURRENT_WRITES = 8;

/**
 * Operations of the admin API, in one partition. An operation has an item with its progress, one with its plan, so that a write of
 * the progress stays small, and, while it runs, one that marks it: servers look for abandoned operations among those only.
 */
export class StoredOperations {
  readonly #table: Table;

  constructor(table: Table) {
    this.#table = table;
  }

  async put({ id, startedAt, summary, plan }: OperationRecord, lease: OperationLease, now: number): Promise<void> {
    const ttl = ttlSeconds(now + RUNNING_KEPT_MS);
    const common = { started_at: startedAt, state: "running", summary };
    const item = itemOf({ ...itemKey(id), ...common, owner: lease.owner, lease_until: now + lease.leaseMs, ttl });
    await this.#table.transact([
      { put: item, when: new Change().when("attribute_not_exists(#pk)") },
      { put: itemOf({ ...planKey(id), plan, ttl }) },
      { put: itemOf({ ...markKey(id), ttl }) },
    ]);
  }

  async claim({ owner, leaseMs }: OperationLease, now: number): Promise<ClaimedOperation | null> {
    const marks = await this.#table.all({ hash: OPERATIONS, from: MARK, below: END_OF_MARKS, consistent: true });
    if (marks.length === 0) return null;
    const ids = marks.map((mark) => (stringOf(mark, "sk") ?? "").slice(MARK.length));
    const running = (await this.#table.getAll(ids.map(itemKey))).map((item) => readOperation(item, now));
    for (const { id, owner: previous, abandoned } of running.toSorted(byStart)) {
      if (!abandoned) continue;
      const change = new Change().set({ owner, lease_until: now + leaseMs });
      change.when(`#owner = ${change.value(previous)}`, `#lease_until <= ${change.value(now)}`);
      const written = await this.#table.update(itemKey(id), change);
      // The response to the first request may have been lost.
      const item = written.done ? written.old : written.found;
      if (item === null || !(written.done || stringOf(item, "owner") === owner)) continue;
      // Without its plan, the caller ends it.
      const plan = stringOf((await this.#table.get(planKey(id))) ?? {}, "plan") ?? "";
      const claimed = { ...item, ...itemOf({ owner, lease_until: now + leaseMs }) };
      return { ...readOperation(claimed, now), plan };
    }
    return null;
  }

  async save({ id, owner, leaseMs, summary }: OperationProgress, now: number): Promise<SaveOperationResult> {
    const change = new Change().set({ summary, lease_until: now + leaseMs });
    change.when(`#owner = ${change.value(owner)}`, `#state = ${change.value("running")}`);
    const written = await this.#table.update(itemKey(id), change);
    if (!written.done) return "lost";
    return flagOf(written.old ?? {}, "stop") ? "stop" : "kept";
  }

  async end({ id, owner, state, summary }: OperationEnd, now: number): Promise<boolean> {
    const change = new Change().set({ state, summary, ended_at: now, lease_until: null });
    change.set({ ttl: ttlSeconds(now + ENDED_KEPT_MS) });
    change.when(`#owner = ${change.value(owner)}`, `#state = ${change.value("running")}`);
    const written = await this.#table.transact([{ update: itemKey(id), change }, { delete: markKey(id) }]);
    if (written.done) return true;
    const item = (await this.#table.get(itemKey(id))) ?? {};
    return stringOf(item, "owner") === owner && stringOf(item, "state") === state;
  }

  async stop(id: string): Promise<boolean> {
    const change = new Change().set({ stop: true });
    return (await this.#table.update(itemKey(id), change.when(`#state = ${change.value("running")}`))).done;
  }

  async get(id: string, now: number): Promise<StoredOperation | null> {
    const item = await this.#table.get(itemKey(id));
    return item === null ? null : readOperation(item, now);
  }

  async list(now: number): Promise<StoredOperation[]> {
    const items = await this.#table.all({ hash: OPERATIONS, from: ITEM, below: END_OF_ITEMS, consistent: true });
    return items.map((item) => readOperation(item, now)).toSorted((a, b) => -byStart(a, b));
  }

  async purge({ before, keep }: { before: number; keep: number }): Promise<number> {
    const ended = (await this.list(0)).filter(({ state }) => state !== "running");
    const old = ended.filter(({ endedAt }, at) => (endedAt ?? 0) < before || at >= keep);
    await inParts(old, CONCURRENT_WRITES, async ({ id }) => {
      await this.#table.delete(planKey(id));
      await this.#table.delete(itemKey(id));
    });
    return old.length;
  }
}

const ITEM = "operation#";
const END_OF_ITEMS = "operation$";
const MARK = "running#";
const END_OF_MARKS = "running$";

function itemKey(id: string): Key {
  return { pk: OPERATIONS, sk: `${ITEM}${id}` };
}
function planKey(id: string): Key {
  return { pk: OPERATIONS, sk: `plan#${id}` };
}
function markKey(id: string): Key {
  return { pk: OPERATIONS, sk: `${MARK}${id}` };
}

/** The oldest first. */
function byStart(a: StoredOperation, b: StoredOperation): number {
  return a.startedAt - b.startedAt || (a.id < b.id ? -1 : 1);
}

function readOperation(item: Item, now: number): StoredOperation {
  const leaseUntil = numberOf(item, "lease_until");
  return {
    id: (stringOf(item, "sk") ?? "").slice(ITEM.length),
    startedAt: numberOf(item, "started_at") ?? 0,
    state: stringOf(item, "state") as OperationState,
    endedAt: numberOf(item, "ended_at"),
    stopRequested: flagOf(item, "stop"),
    owner: stringOf(item, "owner") ?? "",
    leaseUntil,
    abandoned: leaseUntil !== null && leaseUntil <= now,
    summary: stringOf(item, "summary") ?? "",
  };
}
