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
import { itemBytes, itemOf, MOST_BYTES, numberOf, textOf, texts, textsOf, type Item } from "./connection/attributes.js";
import { isForgotten } from "./jobs/job-details.js";
import type { ConfigKeeper, Ensured } from "./connection/config.js";
import { Change } from "./connection/expressions.js";
import { isItemsFault } from "./connection/errors.js";
import { freeKey, newToken, settled, refusalOf, isNew, isOurs, type Inserts, type KeyState } from "./jobs/insert.js";
import { keyItemOf, newItem, type Draft, type Fields } from "./jobs/items.js";
import { endOf, LIVE, SCHEDULES, schedulesLane, shardOf, slotsKey, timeIn, timeText, type Key } from "./jobs/keys.js";
import type { Table, TransactItem } from "./connection/table.js";

interface Parts {
  config: ConfigKeeper;
  inserts: Inserts;
}

const PAGE = 100;
const MOST_TRIES = 20;
const MOST_WRITES = 100;

/** Schedules: one item each, in the order of their names; those that are enabled stand in the live index by their next run. */
export class Schedules {
  readonly #table: Table;
  readonly #parts: Parts;

  constructor(table: Table, parts: Parts) {
    this.#table = table;
    this.#parts = parts;
  }

  async put(schedule: ScheduleRecord, version: string | null, now: number): Promise<PutResult> {
    const { name } = schedule;
    const token = newToken();
    const large = TEXTS.filter((field) => jsonBytes(schedule[field] ?? "") > LIMITS.inlineInputBytes);
    const shards = await this.#parts.config.ensure([], now);
    const change = new Change().set({
      record: JSON.stringify({ ...schedule, ...Object.fromEntries(large.map((field) => [field, null])) }),
      texts: large.length === 0 ? null : texts(large.map((field) => textKey(field, token))),
      version: schedule.version,
      next_run_at: schedule.nextRunAt,
      updated_at: now,
      ...dueFields(schedule, shards),
    });
    change.setTo("created_at", `if_not_exists(#created_at, ${change.value(now)})`);
    if (version === null) change.when("attribute_not_exists(#pk)");
    else change.when(`#version = ${change.value(version)}`);
    const items = large.map((field) =>
      itemOf({ pk: slotsKey(name), sk: textKey(field, token), text: schedule[field] ?? "", at: now }),
    );
    if (items.some((item) => itemBytes(item) > MOST_BYTES)) {
      throw new HoldfastError(
        "NOT_STORED",
        `the schedule ${name} is too large: an item of DynamoDB holds ${MOST_BYTES} bytes`,
      );
    }
    // Before the schedule: whoever sees that finds them.
    await settled(items.map((item) => this.#table.put(item)));
    const written = await this.#table.update(scheduleKey(name), change);
    // Our own, although its answer got lost.
    const isOurs = !written.done && written.repeated && textOf(written.found ?? {}, "version") === schedule.version;
    if (isOurs) return "put";
    const stale = written.done ? textsOf(written.old ?? {}, "texts") : items.map((item) => textOf(item, "sk") ?? "");
    await settled(stale.map((sk) => this.#table.delete({ pk: slotsKey(name), sk })));
    return written.done ? "put" : "changed";
  }

  async get(name: string): Promise<StoredSchedule | null> {
    const item = await this.#table.get(scheduleKey(name));
    if (item === null) return null;
    const beside = await this.#beside(name);
    const slots = beside
      .filter((each) => numberOf(each, "nth") !== null)
      .toSorted((a, b) => (numberOf(b, "nth") ?? 0) - (numberOf(a, "nth") ?? 0))
      .map((each) => JSON.parse(textOf(each, "slot") ?? "null") as StoredSlot);
    return readSchedule(item, textsIn(beside), slots);
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
    const large = await this.#texts(shown);
    return {
      schedules: shown.map((item) => readSchedule(item, large, [])),
      cursor: found.length > limit ? (textOf(shown.at(-1) ?? {}, "sk") ?? null) : null,
    };
  }

  async remove(name: string): Promise<boolean> {
    const key = scheduleKey(name);
    let stored = await this.#table.get(key);
    const first = stored;
    // Created at another time, it is another of the same name, and ours is gone.
    while (stored !== null && createdAt(stored) === createdAt(first)) {
      const change = new Change();
      const when = change.when(`#version = ${change.value(textOf(stored, "version") ?? "")}`);
      const written = await this.#table.delete(key, when);
      if (written.done) await this.#deleteBeside(name, stored);
      stored = written.done ? null : written.found;
    }
    return first !== null;
  }

  /** Its slots, and of texts only its own: another may be that of a schedule which is put this moment. */
  async #deleteBeside(name: string, stored: Item): Promise<void> {
    const own = textsOf(stored, "texts");
    const at = numberOf(stored, "updated_at") ?? 0;
    const keys = (await this.#beside(name))
      .filter((item) => item["text"] === undefined || own.includes(textOf(item, "sk") ?? "") || isForgotten(item, at))
      .map((item) => ({ pk: slotsKey(name), sk: textOf(item, "sk") ?? "" }));
    await settled(keys.map((key) => this.#table.delete(key)));
  }

  async due(limit: number, now: number): Promise<DueSchedules> {
    const shards = await this.#parts.config.shards(now);
    const walks = Array.from({ length: shards }, (_, shard): Walk => ({ shard, after: undefined, nextRunAt: null }));
    const schedules: StoredSchedule[] = [];
    // The index may lag: the schedule itself says whether it is due, and others may have fired it this moment.
    for (let open = walks; open.length > 0 && (schedules.length < limit || open === walks);) {
      const names = (await Promise.all(open.map((walk) => this.#walkOn(walk, now, limit)))).flat();
      open = open.filter(({ after }) => after !== null);
      const items = await this.#table.getAll(names.map((name) => scheduleKey(name)));
      const large = await this.#texts(items);
      for (const item of items) {
        const schedule = readSchedule(item, large, []);
        const isDue = schedule.nextRunAt === null || schedule.nextRunAt <= now;
        if (schedule.enabled && isDue) schedules.push(schedule);
      }
    }
    const nextIn = async ({ shard, after, nextRunAt: next }: Walk): Promise<number> =>
      (after === null ? next : await this.#nextRun(shard, now)) ?? Number.POSITIVE_INFINITY;
    const nextRunAt = Math.min(...(await Promise.all(walks.map(nextIn))));
    return {
      at: now,
      schedules: schedules.toSorted((a, b) => (a.nextRunAt ?? 0) - (b.nextRunAt ?? 0)).slice(0, limit),
      nextRunAt: Number.isFinite(nextRunAt) ? nextRunAt : null,
    };
  }

  /** The next names that are due in a shard. What comes after them tells when there is more to do, in the same look. */
  async #walkOn(walk: Walk, now: number, limit: number): Promise<string[]> {
    const page = await this.#table.query({
      index: LIVE,
      hash: schedulesLane(walk.shard),
      limit: Math.min(PAGE * 10, limit + 1),
      after: walk.after ?? null,
    });
    walk.after = page.next;
    const names: string[] = [];
    for (const item of page.items) {
      const runAt = timeIn(textOf(item, LIVE.range) ?? "");
      if (runAt <= now) names.push(textOf(item, "sk") ?? "");
      else {
        walk.nextRunAt = runAt;
        walk.after = null;
        break;
      }
    }
    return names;
  }

  async #nextRun(shard: number, now: number): Promise<number | null> {
    const { items } = await this.#table.query({ index: LIVE, hash: schedulesLane(shard), above: endOf(now), limit: 1 });
    const [next] = items;
    return next === undefined ? null : timeIn(textOf(next, LIVE.range) ?? "");
  }

  /** Each schedule in a transaction of its own; of the same schedule one after the other. */
  async fire(firings: readonly Firing[], now: number): Promise<FireResult[]> {
    const jobs = firings.flatMap(({ slots }) => slots.flatMap(({ job }) => (job === null ? [] : [job])));
    const ensured = await this.#parts.config.ensureEach(jobs, now);
    const answers: FireResult[] = [];
    const byName = new Map<string, number[]>();
    for (const [at, { name }] of firings.entries()) byName.set(name, [...(byName.get(name) ?? []), at]);
    await settled(
      [...byName.values()].map(async (places) => {
        for (const at of places) answers[at] = await this.#fireOne(firings[at] as Firing, ensured, now);
      }),
    );
    return answers;
  }

  async #fireOne(firing: Firing, { shards, refused }: Ensured<NewJob>, now: number): Promise<FireResult> {
    const drafts = new Map<NewJob, Draft>();
    for (const { job } of firing.slots)
      if (job !== null) drafts.set(job, this.#parts.inserts.draftOf(job, shards, now));
    const fits = [...drafts.values()].filter((draft) => refusalOf(draft, refused) === null);
    const plan: Plan = { drafts, refused, existing: new Set(), keys: new Map() };
    let used: readonly Draft[] = [];
    // Whether the last transaction was carried out is not known.
    let isOpen = false;
    try {
      for (const draft of fits) await this.#parts.inserts.writeInput(draft);
      for (let trial = 0; trial < MOST_TRIES; trial++) {
        const stored = await this.#table.get(scheduleKey(firing.name));
        if (stored === null || textOf(stored, "version") !== firing.version || movesBack(stored, firing))
          return { status: "changed" };
        const planned = await this.#plan(firing, stored, plan, shards, now);
        if (planned.writes.length > MOST_WRITES) {
          throw new HoldfastError(
            "STORE_ERROR",
            `a firing of ${firing.name} takes ${planned.writes.length} writes; at most ${MOST_WRITES}`,
          );
        }
        isOpen = true;
        const written = await this.#table.transact(planned.writes);
        isOpen = false;
        if (written.done || this.#learn(planned, written.failed, plan)) {
          used = planned.inserted;
          return { status: "fired", slots: planned.slots };
        }
      }
      throw new HoldfastError("STORE_ERROR", `the schedule ${firing.name} changes all the time`);
    } catch (error) {
      if (isItemsFault(error)) isOpen = false;
      throw error;
    } finally {
      // A job that may have been made needs its input, whatever we know of it.
      if (!isOpen) await this.#dropInputs(fits.filter((draft) => !used.includes(draft)));
    }
  }

  /** An input that no job refers to is in nobody's way: that it cannot be deleted is no reason to fail. */
  async #dropInputs(drafts: readonly Draft[]): Promise<void> {
    await Promise.allSettled(drafts.map((draft) => this.#parts.inserts.dropInput(draft)));
  }

  /** What a firing writes, by what is known so far of the jobs and keys it meets. */
  async #plan(firing: Firing, stored: Item, plan: Plan, shards: number, now: number): Promise<Planned> {
    const writes: TransactItem[] = [];
    const meaning: Meaning[] = [];
    const inserted: Draft[] = [];
    const taken = new Map<string, string>();
    let [made, none] = [numberOf(stored, "made") ?? 0, numberOf(stored, "none") ?? 0];
    const kept = new Map<string, Item>();
    const slots: Planned["slots"] = [];
    const change = new Change();
    writes.push({ update: scheduleKey(firing.name), change });
    meaning.push({ of: "schedule" });
    for (const slot of firing.slots) {
      const { job, heldBy, reason } = await this.#planSlot(slot, plan, taken, now, (draft, state) => {
        inserted.push(draft);
        writes.push({ put: newItem(draft), when: isNew(draft) });
        meaning.push({ of: "job", id: draft.job.id, token: draft.token });
        const { unique } = draft.job;
        if (state === null || unique === null) return;
        for (const write of state.writes(keyItemOf({ id: draft.job.id, listed: draft.listed }, unique, now))) {
          writes.push(write);
          meaning.push({ of: "key", key: unique.key });
        }
      });
      slots.push({ job, heldBy });
      const nth = made + none;
      // As many places as are kept: the newest take those of the oldest.
      const sk = job === null ? `none#${none++ % LIMITS.slots}` : `made#${made++ % LIMITS.slots}`;
      const { slot: at, through } = slot;
      const text = JSON.stringify({ slot: at, through, job, reason, at: now } satisfies StoredSlot);
      kept.set(sk, itemOf({ pk: slotsKey(firing.name), sk, nth, slot: text }));
    }
    for (const item of kept.values()) {
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
      // A job that is there already is that job, whoever has its key now.
      const isThere = (await this.#parts.inserts.find(job.id, now)) !== null;
      return slotResult(job.id, { of: isThere ? job.id : (holder ?? job.id) }, reason);
    }
    taken.set(unique.key, job.id);
    insert(draft, state);
    return { job: job.id, heldBy: null, reason };
  }

  /** Takes in what the writes have met. True: they were done before, and only their answer got lost. */
  #learn({ meaning }: Planned, failed: readonly (Item | null | undefined)[], plan: Plan): boolean {
    let ours = false;
    for (const [at, met] of failed.entries()) {
      const what = meaning[at];
      if (met === undefined || what === undefined) continue;
      if (what.of === "job") {
        if (isOurs(met, what.token)) ours = true;
        plan.existing.add(what.id);
      }
      if (what.of === "key") {
        const isKey = met !== null && textOf(met, "sk") === "key";
        if (isKey) plan.keys.set(what.key, met);
        else plan.keys.set(what.key, null);
      }
    }
    return ours;
  }

  #beside(name: string): Promise<Item[]> {
    return this.#table.all({ hash: slotsKey(name), consistent: true });
  }

  async #texts(schedules: readonly Item[]): Promise<Map<string, string>> {
    const keys = schedules.flatMap((item) =>
      textsOf(item, "texts").map((sk): Key => ({ pk: slotsKey(textOf(item, "sk") ?? ""), sk })),
    );
    return textsIn(keys.length === 0 ? [] : await this.#table.getAll(keys));
  }
}

/** Texts of a schedule that may be long, and then stand beside it: every run would pay for them. */
const TEXTS = ["input", "defined", "changes"] as const;
function textKey(field: string, token: string): string {
  return `${field}#${token}`;
}

/** A look through the schedules of one shard, by their next run. */
interface Walk {
  shard: number;
  /** Where to read on; null: all that is due was seen. */
  after: Item | null | undefined;
  nextRunAt: number | null;
}

/** What is known of what a firing meets. */
interface Plan {
  drafts: Map<NewJob, Draft>;
  /** Jobs that cannot be stored, with the reason. */
  refused: ReadonlyMap<NewJob, string>;
  /** Jobs that are there already. */
  existing: Set<string>;
  /** Keys that turned out not to be free, as they were found. */
  keys: Map<string, Item | null>;
}
type Meaning = { of: "schedule" | "slot" } | { of: "job"; id: string; token: string } | { of: "key"; key: string };
interface Planned {
  writes: TransactItem[];
  /** What each write is for. */
  meaning: Meaning[];
  inserted: Draft[];
  slots: { job: string | null; heldBy: string | null }[];
}

function scheduleKey(name: string): Key {
  return { pk: SCHEDULES, sk: name };
}

/** One that is enabled stands by its next run; first of all, if that is not known. */
function dueFields(
  { name, enabled, nextRunAt }: Pick<ScheduleRecord, "name" | "enabled" | "nextRunAt">,
  shards: number,
): Fields {
  const comes = enabled && (nextRunAt === null || nextRunAt < NEVER);
  return {
    lane: comes ? schedulesLane(shardOf(name, shards)) : null,
    due: comes ? `${timeText(nextRunAt ?? 0)}#${name}` : null,
  };
}

function createdAt(item: Item | null): number | null {
  return item === null ? null : numberOf(item, "created_at");
}

function recordOf(item: Item): ScheduleRecord {
  return JSON.parse(textOf(item, "record") ?? "null") as ScheduleRecord;
}

function textsIn(items: readonly Item[]): Map<string, string> {
  return new Map(
    items.flatMap((item) => {
      const text = textOf(item, "text");
      return text === null ? [] : [[`${textOf(item, "pk")} ${textOf(item, "sk")}`, text] as const];
    }),
  );
}

function readSchedule(item: Item, large: ReadonlyMap<string, string>, slots: readonly StoredSlot[]): StoredSchedule {
  const record = recordOf(item);
  const beside = textsOf(item, "texts").map((sk) => [
    sk.slice(0, sk.indexOf("#")),
    // One that is missing is no JSON; or the schedule has changed meanwhile, and so has its version.
    large.get(`${slotsKey(record.name)} ${sk}`) ?? "",
  ]);
  return {
    ...record,
    ...(Object.fromEntries(beside) as Partial<ScheduleRecord>),
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
