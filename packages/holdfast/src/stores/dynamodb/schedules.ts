import { HoldfastError } from "../../errors.js";
import { LIMITS } from "../../defaults.js";
import { jsonBytes } from "../../job/json.js";
import { NEVER, slotResult } from "../../schedule/slots.js";
import type {
  DueSchedules,
  FireResult,
  FiredSlot,
  Firing,
  StoredSlot,
  NewJob,
  PutResult,
  ScheduleFilter,
  SchedulePage,
  ScheduleRecord,
  SlotReason,
  StoredSchedule,
} from "../../store.js";
import {
  itemBytes,
  itemOf,
  MAX_ITEM_BYTES,
  numberOf,
  stringOf,
  stringList,
  stringsOf,
  type Item,
} from "./connection/attributes.js";
import { isAbandoned } from "./jobs/job-details.js";
import type { SharedConfig, Ensured } from "./connection/config.js";
import { Change } from "./connection/expressions.js";
import { isInvalidItem } from "./connection/errors.js";
import {
  freeKey,
  newRequestToken,
  waitForAll,
  refusalOf,
  idIsFree,
  isOwnWrite,
  type Inserts,
  type KeyState,
} from "./jobs/insert.js";
import { keyItemOf, newItem, type Draft, type Fields } from "./jobs/items.js";
import {
  endOfMillisecond,
  LIVE,
  SCHEDULES,
  schedulesLane,
  shardOf,
  slotsKey,
  timeOf,
  sortableTime,
  type Key,
} from "./jobs/item-keys.js";
import type { Table, TransactItem } from "./connection/table.js";
import { readReason } from "../stored-values.js";

interface Parts {
  config: SharedConfig;
  inserts: Inserts;
}

const PAGE = 100;
const MAX_TRIES = 20;
// DynamoDB's limit for a transaction.
const MAX_WRITES = 100;

/** Schedules. Each is one item, sorted by name. Enabled schedules are also in the live index, by their next run. */
export class Schedules {
  readonly #table: Table;
  readonly #parts: Parts;

  constructor(table: Table, parts: Parts) {
    this.#table = table;
    this.#parts = parts;
  }

  async put(schedule: ScheduleRecord, version: string | null, now: number): Promise<PutResult> {
    const { name } = schedule;
    const token = newRequestToken();
    const large = LARGE_FIELDS.filter((field) => jsonBytes(schedule[field] ?? "") > LIMITS.inlineInputBytes);
    const shards = await this.#parts.config.ensure([], now);
    const change = new Change().set({
      record: JSON.stringify({ ...schedule, ...Object.fromEntries(large.map((field) => [field, null])) }),
      texts: large.length === 0 ? null : stringList(large.map((field) => fieldKey(field, token))),
      version: schedule.version,
      next_run_at: schedule.nextRunAt,
      updated_at: now,
      ...dueFields(schedule, shards),
    });
    change.setTo("created_at", `if_not_exists(#created_at, ${change.value(now)})`);
    if (version === null) change.when("attribute_not_exists(#pk)");
    else change.when(`#version = ${change.value(version)}`);
    const items = large.map((field) =>
      itemOf({ pk: slotsKey(name), sk: fieldKey(field, token), text: schedule[field] ?? "", at: now }),
    );
    if (items.some((item) => itemBytes(item) > MAX_ITEM_BYTES)) {
      throw new HoldfastError(
        "NOT_STORED",
        `the schedule ${name} is too large to store: a DynamoDB item holds ${MAX_ITEM_BYTES} bytes`,
      );
    }
    // Before the schedule, so that a schedule that can be read is complete.
    await waitForAll(items.map((item) => this.#table.put(item)));
    const written = await this.#table.update(scheduleKey(name), change);
    // Lost response: the schedule has our version because our first request was done.
    const isOwnWrite = !written.done && written.resent && stringOf(written.found ?? {}, "version") === schedule.version;
    if (isOwnWrite) return "put";
    const stale = written.done
      ? stringsOf(written.old ?? {}, "texts")
      : items.map((item) => stringOf(item, "sk") ?? "");
    await waitForAll(stale.map((sk) => this.#table.delete({ pk: slotsKey(name), sk })));
    return written.done ? "put" : "changed";
  }

  async get(name: string): Promise<StoredSchedule | null> {
    const item = await this.#table.get(scheduleKey(name));
    if (item === null) return null;
    const details = await this.#detailItems(name);
    const slots = details
      .filter((each) => numberOf(each, "nth") !== null)
      .toSorted((a, b) => (numberOf(b, "nth") ?? 0) - (numberOf(a, "nth") ?? 0))
      .map(readSlot);
    return readSchedule(item, fieldValues(details), slots);
  }

  async list(
    filter: ScheduleFilter,
    { limit, cursor }: { limit: number; cursor: string | null },
  ): Promise<SchedulePage> {
    const found: Item[] = [];
    const from = { hash: SCHEDULES, ...(cursor !== null && { above: cursor }) };
    for await (const page of this.#table.pages({ ...from, consistent: true, limit: Math.max(PAGE, limit + 1) })) {
      found.push(...page.filter((item) => passes(item, filter)));
      if (found.length > limit) break;
    }
    const shown = found.slice(0, limit);
    const large = await this.#readLargeFields(shown);
    return {
      schedules: shown.map((item) => readSchedule(item, large, [])),
      cursor: found.length > limit ? (stringOf(shown.at(-1) ?? {}, "sk") ?? null) : null,
    };
  }

  async remove(name: string): Promise<boolean> {
    const key = scheduleKey(name);
    let stored = await this.#table.get(key);
    const first = stored;
    // With another creation time, it is a new schedule of the same name, and ours is already removed.
    while (stored !== null && createdAt(stored) === createdAt(first)) {
      const change = new Change();
      const when = change.when(`#version = ${change.value(stringOf(stored, "version") ?? "")}`);
      const written = await this.#table.delete(key, when);
      if (written.done) await this.#deleteDetails(name, stored);
      stored = written.done ? null : written.found;
    }
    return first !== null;
  }

  /** Deletes slots and large fields. Not fields of another version: a concurrent put may be about to refer to them. */
  async #deleteDetails(name: string, stored: Item): Promise<void> {
    const own = stringsOf(stored, "texts");
    const at = numberOf(stored, "updated_at") ?? 0;
    const keys = (await this.#detailItems(name))
      .filter((item) => item["text"] === undefined || own.includes(stringOf(item, "sk") ?? "") || isAbandoned(item, at))
      .map((item) => ({ pk: slotsKey(name), sk: stringOf(item, "sk") ?? "" }));
    await waitForAll(keys.map((key) => this.#table.delete(key)));
  }

  async due(limit: number, now: number): Promise<DueSchedules> {
    const shards = await this.#parts.config.shards(now);
    const scans = Array.from({ length: shards }, (_, shard): ShardScan => ({
      shard,
      after: undefined,
      nextRunAt: null,
    }));
    const schedules: StoredSchedule[] = [];
    // Lagging index: an entry may be out of date, and another process may just have fired the schedule. The item decides.
    for (let open = scans; open.length > 0 && (schedules.length < limit || open === scans);) {
      const names = (await Promise.all(open.map((scan) => this.#readDue(scan, now, limit)))).flat();
      open = open.filter(({ after }) => after !== null);
      const items = await this.#table.getAll(names.map((name) => scheduleKey(name)));
      const large = await this.#readLargeFields(items);
      for (const item of items) {
        const schedule = readSchedule(item, large, []);
        const isDue = schedule.nextRunAt === null || schedule.nextRunAt <= now;
        if (schedule.enabled && isDue) schedules.push(schedule);
      }
    }
    const nextIn = async ({ shard, after, nextRunAt: next }: ShardScan): Promise<number> =>
      (after === null ? next : await this.#nextRun(shard, now)) ?? Number.POSITIVE_INFINITY;
    const nextRunAt = Math.min(...(await Promise.all(scans.map(nextIn))));
    return {
      at: now,
      schedules: schedules.toSorted((a, b) => (a.nextRunAt ?? 0) - (b.nextRunAt ?? 0)).slice(0, limit),
      nextRunAt: Number.isFinite(nextRunAt) ? nextRunAt : null,
    };
  }

  /** Reads the next due names of a shard. The first entry that is not due yet has the time of the next run. */
  async #readDue(scan: ShardScan, now: number, limit: number): Promise<string[]> {
    const page = await this.#table.query({
      index: LIVE,
      hash: schedulesLane(scan.shard),
      limit: Math.min(PAGE * 10, limit + 1),
      after: scan.after ?? null,
    });
    scan.after = page.next;
    const names: string[] = [];
    for (const item of page.items) {
      const runAt = timeOf(stringOf(item, LIVE.range) ?? "");
      if (runAt <= now) names.push(stringOf(item, "sk") ?? "");
      else {
        scan.nextRunAt = runAt;
        scan.after = null;
        break;
      }
    }
    return names;
  }

  async #nextRun(shard: number, now: number): Promise<number | null> {
    const { items } = await this.#table.query({
      index: LIVE,
      hash: schedulesLane(shard),
      above: endOfMillisecond(now),
      limit: 1,
    });
    const [next] = items;
    return next === undefined ? null : timeOf(stringOf(next, LIVE.range) ?? "");
  }

  /** One transaction per firing. Firings of the same schedule run one after another. */
  async fire(firings: readonly Firing[], now: number): Promise<FireResult[]> {
    const jobs = firings.flatMap(({ slots }) => slots.flatMap(({ job }) => (job === null ? [] : [job])));
    const ensured = await this.#parts.config.ensureEach(jobs, now);
    const results: FireResult[] = [];
    const byName = new Map<string, number[]>();
    for (const [at, { name }] of firings.entries()) byName.set(name, [...(byName.get(name) ?? []), at]);
    await waitForAll(
      [...byName.values()].map(async (indexes) => {
        for (const at of indexes) results[at] = await this.#fireOne(firings[at] as Firing, ensured, now);
      }),
    );
    return results;
  }

  async #fireOne(firing: Firing, { shards, refused }: Ensured<NewJob>, now: number): Promise<FireResult> {
    const drafts = new Map<NewJob, Draft>();
    for (const { job } of firing.slots)
      if (job !== null) drafts.set(job, this.#parts.inserts.draftOf(job, shards, now));
    const fits = [...drafts.values()].filter((draft) => refusalOf(draft, refused) === null);
    const plan: Plan = { drafts, refused, existing: new Set(), keys: new Map() };
    let used: readonly Draft[] = [];
    // True while it is unknown whether the last transaction was done.
    let isUncertain = false;
    try {
      for (const draft of fits) await this.#parts.inserts.writeInput(draft);
      for (let trial = 0; trial < MAX_TRIES; trial++) {
        const stored = await this.#table.get(scheduleKey(firing.name));
        if (stored === null || stringOf(stored, "version") !== firing.version || movesBack(stored, firing))
          return { status: "changed" };
        const planned = await this.#plan(firing, stored, plan, shards, now);
        if (planned.writes.length > MAX_WRITES) {
          throw new HoldfastError(
            "STORE_ERROR",
            `schedule ${firing.name}: firing takes ${planned.writes.length} writes; DynamoDB allows ${MAX_WRITES} in a transaction`,
          );
        }
        isUncertain = true;
        const written = await this.#table.transact(planned.writes);
        isUncertain = false;
        if (written.done || this.#learnFrom(planned, written.failed, plan)) {
          used = planned.inserted;
          for (const draft of used) this.#parts.inserts.recordInserted(draft);
          return { status: "fired", slots: planned.slots };
        }
      }
      throw new HoldfastError(
        "STORE_ERROR",
        `schedule ${firing.name}: gave up after ${MAX_TRIES} conflicts with concurrent changes; try again`,
      );
    } catch (error) {
      if (isInvalidItem(error)) isUncertain = false;
      throw error;
    } finally {
      // If the transaction may have been done, its jobs need their inputs.
      if (!isUncertain) await this.#dropInputs(fits.filter((draft) => !used.includes(draft)));
    }
  }

  /** An unused input does no harm, so an error here does not fail the firing. */
  async #dropInputs(drafts: readonly Draft[]): Promise<void> {
    await Promise.allSettled(drafts.map((draft) => this.#parts.inserts.dropInput(draft)));
  }

  /** The writes of a firing, as far as the existing jobs and keys are known. */
  async #plan(firing: Firing, stored: Item, plan: Plan, shards: number, now: number): Promise<Planned> {
    const writes: TransactItem[] = [];
    const meaning: Meaning[] = [];
    const inserted: Draft[] = [];
    const taken = new Map<string, string>();
    let [made, none] = [numberOf(stored, "made") ?? 0, numberOf(stored, "none") ?? 0];
    const slotItems = new Map<string, Item>();
    const slots: Planned["slots"] = [];
    const change = new Change();
    writes.push({ update: scheduleKey(firing.name), change });
    meaning.push({ of: "schedule" });
    for (const slot of firing.slots) {
      const { job, heldBy, reason } = await this.#planSlot(slot, plan, taken, now, (draft, state) => {
        inserted.push(draft);
        writes.push({ put: newItem(draft), when: idIsFree(draft) });
        meaning.push({ of: "job", id: draft.job.id, requestToken: draft.requestToken });
        const { unique } = draft.job;
        if (state === null || unique === null) return;
        for (const write of state.writes(keyItemOf({ id: draft.job.id, listed: draft.listed }, unique, now))) {
          writes.push(write);
          meaning.push({ of: "key", key: unique.key });
        }
      });
      slots.push({ job, heldBy });
      const nth = made + none;
      // The newest slots overwrite the oldest.
      const sk = job === null ? `none#${none++ % LIMITS.slots}` : `made#${made++ % LIMITS.slots}`;
      const { slot: at, through } = slot;
      const record = JSON.stringify({ slot: at, through, job, reason, at: now } satisfies StoredSlot);
      slotItems.set(sk, itemOf({ pk: slotsKey(firing.name), sk, nth, slot: record }));
    }
    for (const item of slotItems.values()) {
      writes.push({ put: item });
      meaning.push({ of: "slot" });
    }
    const record = recordOf(stored);
    const next = { ...record, version: firing.newVersion, nextRunAt: firing.nextRunAt };
    change.set({
      record: JSON.stringify(next),
      version: firing.newVersion,
      next_run_at: firing.nextRunAt,
      last_slot: firing.lastSlot,
      updated_at: now,
      made,
      none,
      ...dueFields(next, shards),
    });
    change.when(`#version = ${change.value(firing.version)}`);
    return { writes, meaning, inserted, slots };
  }

  async #planSlot(
    { job, reason }: FiredSlot,
    { drafts, refused, existing, keys }: Plan,
    taken: Map<string, string>,
    now: number,
    insert: (draft: Draft, key: (KeyState & { held: false }) | null) => void,
  ): Promise<{ job: string | null; heldBy: string | null; reason: SlotReason | null }> {
    if (job === null) return { job: null, heldBy: null, reason };
    if (existing.has(job.id)) return { job: job.id, heldBy: null, reason };
    const draft = drafts.get(job) as Draft;
    const refusal = refusalOf(draft, refused);
    if (refusal !== null) return slotResult(job.id, refusal, reason);
    const { unique } = job;
    if (unique === null) {
      insert(draft, null);
      return { job: job.id, heldBy: null, reason };
    }
    const item = keys.get(unique.key);
    const state = item === undefined ? freeKey() : await this.#parts.inserts.keyState(item, now);
    const holder = taken.get(unique.key) ?? (state.held ? state.by : undefined);
    if (holder !== undefined || state.held) {
      // If the job itself already exists, the slot has its job, even if the key now belongs to another one.
      const exists = (await this.#parts.inserts.find(job.id, now)) !== null;
      return slotResult(job.id, { of: exists ? job.id : (holder ?? job.id) }, reason);
    }
    taken.set(unique.key, job.id);
    insert(draft, state);
    return { job: job.id, heldBy: null, reason };
  }

  /**
   * Updates the plan with the items that failed conditions. True: our earlier request was done, its response was lost.
   */
  #learnFrom({ meaning }: Planned, failed: readonly (Item | null | undefined)[], plan: Plan): boolean {
    let isDone = false;
    for (const [at, found] of failed.entries()) {
      const write = meaning[at];
      if (found === undefined || write === undefined) continue;
      if (write.of === "job") {
        if (isOwnWrite(found, write.requestToken)) isDone = true;
        plan.existing.add(write.id);
      }
      if (write.of === "key") {
        const isKey = found !== null && stringOf(found, "sk") === "key";
        if (isKey) plan.keys.set(write.key, found);
        else plan.keys.set(write.key, null);
      }
    }
    return isDone;
  }

  #detailItems(name: string): Promise<Item[]> {
    return this.#table.all({ hash: slotsKey(name), consistent: true });
  }

  async #readLargeFields(schedules: readonly Item[]): Promise<Map<string, string>> {
    const keys = schedules.flatMap((item) =>
      stringsOf(item, "texts").map((sk): Key => ({ pk: slotsKey(stringOf(item, "sk") ?? ""), sk })),
    );
    return fieldValues(keys.length === 0 ? [] : await this.#table.getAll(keys));
  }
}

/** Fields that may be large. Large values are in separate items, because every firing rewrites the schedule. */
const LARGE_FIELDS = ["input", "defined", "changes"] as const;
function fieldKey(field: string, token: string): string {
  return `${field}#${token}`;
}

/** A scan through the schedules of one shard, by their next run. */
interface ShardScan {
  shard: number;
  /** Where to continue; null once all due schedules were read. */
  after: Item | null | undefined;
  nextRunAt: number | null;
}

/** What a firing knows about existing jobs and keys. */
interface Plan {
  drafts: Map<NewJob, Draft>;
  /** Jobs that cannot be stored, with the error message. */
  refused: ReadonlyMap<NewJob, string>;
  /** Ids of jobs that already exist. */
  existing: Set<string>;
  /** Keys that were not free, with their items. */
  keys: Map<string, Item | null>;
}
type Meaning =
  | { of: "schedule" | "slot" }
  | { of: "job"; id: string; requestToken: string }
  | { of: "key"; key: string };
interface Planned {
  writes: TransactItem[];
  /** The purpose of each write. */
  meaning: Meaning[];
  inserted: Draft[];
  slots: { job: string | null; heldBy: string | null }[];
}

function scheduleKey(name: string): Key {
  return { pk: SCHEDULES, sk: name };
}

/** The position of an enabled schedule in the live index. Without a next run it comes first. */
function dueFields(
  { name, enabled, nextRunAt }: Pick<ScheduleRecord, "name" | "enabled" | "nextRunAt">,
  shards: number,
): Fields {
  const isIndexed = enabled && (nextRunAt === null || nextRunAt < NEVER);
  return {
    lane: isIndexed ? schedulesLane(shardOf(name, shards)) : null,
    due: isIndexed ? `${sortableTime(nextRunAt ?? 0)}#${name}` : null,
  };
}

function readSlot(item: Item): StoredSlot {
  const slot = JSON.parse(stringOf(item, "slot") ?? "null") as Omit<StoredSlot, "reason"> & { reason: string | null };
  return { ...slot, reason: readReason(slot.reason) };
}

function createdAt(item: Item | null): number | null {
  return item === null ? null : numberOf(item, "created_at");
}

function recordOf(item: Item): ScheduleRecord {
  return JSON.parse(stringOf(item, "record") ?? "null") as ScheduleRecord;
}

function fieldValues(items: readonly Item[]): Map<string, string> {
  return new Map(
    items.flatMap((item) => {
      const value = stringOf(item, "text");
      return value === null ? [] : [[`${stringOf(item, "pk")} ${stringOf(item, "sk")}`, value] as const];
    }),
  );
}

function readSchedule(item: Item, large: ReadonlyMap<string, string>, slots: readonly StoredSlot[]): StoredSchedule {
  const record = recordOf(item);
  const largeFields = stringsOf(item, "texts").map((sk) => [
    sk.slice(0, sk.indexOf("#")),
    // A missing value is invalid JSON. If the schedule has just changed, its version has too.
    large.get(`${slotsKey(record.name)} ${sk}`) ?? "",
  ]);
  return {
    ...record,
    ...(Object.fromEntries(largeFields) as Partial<ScheduleRecord>),
    nextRunAt: numberOf(item, "next_run_at"),
    lastSlot: numberOf(item, "last_slot"),
    createdAt: createdAt(item) ?? 0,
    updatedAt: numberOf(item, "updated_at") ?? 0,
    slots,
  };
}

function passes(item: Item, filter: ScheduleFilter): boolean {
  const { origin, enabled, type, user } = recordOf(item);
  return (
    (filter.origin === undefined || filter.origin === origin) &&
    (filter.enabled === undefined || filter.enabled === enabled) &&
    (filter.type === undefined || filter.type === type) &&
    (filter.user === undefined || filter.user === user)
  );
}

function movesBack(stored: Item, { lastSlot }: Firing): boolean {
  const last = numberOf(stored, "last_slot");
  return last !== null && (lastSlot === null || lastSlot < last);
}
