import { LIMITS } from "../defaults.js";
import { HoldfastError, InvalidOption, ScheduleExists, ScheduleNotFound } from "../errors.js";
import { newId } from "../id.js";
import type { JobType } from "../job.js";
import { fromJson } from "../json.js";
import { readCount, readName, refuseUnknown, show } from "../options.js";
import { NEVER, nextSlot, type CatchUp, type Timing } from "../schedule/slots.js";
import type { ScheduleFilter, ScheduleRecord, StoredSchedule } from "../store.js";
import type { Core } from "./core.js";
import type { EnqueueAnswer } from "./enqueuer.js";
import { nextRunOf, planRunNow } from "./firing.js";
import { readable } from "./records.js";
import type { Definition, NamedScheduleOptions } from "./schedule-definition.js";
import {
  definitionOf,
  overBefore,
  problemOf,
  readChanges,
  readDefinition,
  readTiming,
  RETIMING,
  timingOf,
  type ScheduleChanges,
  type ScheduleOptions,
  type ScheduleSettings,
  type ScheduleTiming,
} from "./schedule-definition.js";
import type { Scheduler } from "./scheduler.js";

/** A schedule as it is read back. */
export interface Schedule {
  name: string;
  /** Whether code defines it (`hf.schedule`) or somebody made it at run time (`hf.schedules.create`). */
  origin: "code" | "runtime";
  /** What was changed at run time over the definition in code; code that is deployed later leaves it alone. */
  changed: readonly string[];
  type: string;
  input: unknown;
  cron: string | null;
  timezone: string | null;
  everyMs: number | null;
  startAt: Date | null;
  endAt: Date | null;
  jitterMs: number;
  catchUp: CatchUp;
  overlap: "allow" | "skip";
  enabled: boolean;
  queue: string;
  priority: number;
  maxAttempts: number;
  user: string | null;
  tags: readonly string[];
  /** Null: it is disabled, or no slot comes any more. */
  nextRunAt: Date | null;
  /** The latest slot that became a job or was skipped. */
  lastSlot: Date | null;
  createdAt: Date;
  updatedAt: Date;
  /** Newest first: the last 20 slots that became jobs, and the last 20 that did not. Empty in lists. */
  slots: readonly SlotRecord[];
}

/** What became of a slot, or of a stretch of slots. */
export interface SlotRecord {
  slot: Date;
  /** The last slot of a stretch that was missed; null for a single slot. */
  through: Date | null;
  /** The job made for it; null if it was skipped. */
  job: string | null;
  /** Why it is late or was skipped, or that it was run by hand; null if all went as planned. */
  reason: string | null;
  /** When it was dealt with. */
  at: Date;
}

export interface ScheduleListOptions {
  origin?: "code" | "runtime";
  enabled?: boolean;
  type?: string | JobType;
  user?: string;
  /** Schedules a page, 1 to 1000. Default 50. */
  limit?: number;
  /** Where the page before ended: its `cursor`. */
  cursor?: string | null;
}

const LIST_FIELDS: ReadonlySet<string> = new Set(["origin", "enabled", "type", "user", "limit", "cursor"]);
/** Fields by the names of their options, where these differ; what no option sets goes unnamed. */
const CHANGE_NAMES: Readonly<Partial<Record<keyof Definition, string | null>>> = {
  type: "job",
  everyMs: "every",
  jitterMs: "jitter",
  expiresAfterMs: null,
};
const TIMING: readonly (keyof Definition)[] = ["cron", "timezone", "everyMs"];

/** Looks at schedules and changes them: `hf.schedules`. */
export class Schedules {
  readonly #open: () => Core;
  readonly #scheduler: Scheduler;

  /** @internal */
  constructor(open: () => Core, scheduler: Scheduler) {
    this.#open = open;
    this.#scheduler = scheduler;
  }

  /** @internal `hf.schedule`: what code defines, put in place without touching what was changed at run time. */
  async define(name: string, options: ScheduleOptions<unknown>): Promise<Schedule> {
    const core = this.#open();
    const known = readScheduleName(name);
    if (typeof (options as { job?: unknown } | undefined)?.job === "string") {
      throw new InvalidOption("job", "is not a job type; pass what job({ … }) returned");
    }
    const definition = await readDefinition(options, core.types, core.clock.now());
    if (!core.defined.has(known)) {
      core.defined.add(known);
      for (const tell of core.defining) tell();
    }
    const defined = JSON.stringify(definition);
    return this.#write(known, (stored) => {
      if (stored === null) return { definition, origin: "code", defined, changes: {} };
      const before = definitionOf(stored);
      // One that was made at run time is its maker's: code that comes to define it takes over what they agree on.
      const kept = stored.origin === "code" ? changesOf(stored) : before;
      const changes = differences(definition, kept);
      const together = { ...definition, ...changes };
      const useless = problemOf(together, core.clock.now());
      if (useless !== null) {
        const problem = useless.message;
        core.logger.warn({ schedule: known, problem }, "with what was changed at run time this schedule cannot run");
      }
      return { definition: together, origin: "code", defined, changes };
    });
  }

  /** Makes a schedule at run time. Throws `ScheduleExists` if there is one of this name. */
  create<Input>(name: string, options: ScheduleOptions<Input> | NamedScheduleOptions): Promise<Schedule>;
  async create(name: string, options: ScheduleOptions<unknown> | NamedScheduleOptions): Promise<Schedule> {
    const core = this.#open();
    const known = readScheduleName(name);
    const definition = await readDefinition(options, core.types, core.clock.now());
    const over = overBefore(definition, core.clock.now());
    if (over !== null) throw over;
    return this.#write(known, (stored) => {
      if (stored !== null) throw new ScheduleExists(known);
      return { definition, origin: "runtime", defined: null, changes: null };
    });
  }

  /** The schedule with what became of its last slots, or null. */
  async get(name: string): Promise<Schedule | null> {
    const stored = await this.#open().store.getSchedule(readScheduleName(name));
    return stored === null ? null : readSchedule(stored);
  }

  /** Schedules that match, by name, a page at a time. */
  async list(options: ScheduleListOptions = {}): Promise<{ schedules: Schedule[]; cursor: string | null }> {
    const { filter, limit, cursor } = readListOptions(options);
    const page = await this.#open().store.listSchedules(filter, { limit, cursor });
    return { schedules: page.schedules.map(readSchedule), cursor: page.cursor };
  }

  /** Changes what is given and leaves the rest. Deployed code will not change it back. */
  async update(name: string, changes: ScheduleChanges): Promise<Schedule> {
    const core = this.#open();
    const known = readScheduleName(name);
    return this.#write(known, async (stored) => {
      if (stored === null) throw new ScheduleNotFound(known);
      const before = definitionOf(stored);
      const set = await readChanges(changes, before, core.types, core.clock.now());
      const definition = { ...before, ...set };
      if (stored.origin === "runtime") return { definition, origin: "runtime", defined: null, changes: null };
      const inCode = fromJson(stored.defined ?? "{}") as Definition;
      const changed = differences(inCode, { ...changesOf(stored), ...set });
      return { definition, origin: "code", defined: stored.defined, changes: changed };
    });
  }

  /** Lets it run again, from now on: slots that passed meanwhile are not made up for. */
  enable(name: string): Promise<Schedule> {
    return this.update(name, { enabled: true });
  }
  /** Lets it rest. Its jobs and its slots stay as they are. */
  disable(name: string): Promise<Schedule> {
    return this.update(name, { enabled: false });
  }

  /** Takes back what was changed at run time over the definition in code. */
  async reset(name: string): Promise<Schedule> {
    this.#open();
    const known = readScheduleName(name);
    return this.#write(known, (stored) => {
      if (stored === null) throw new ScheduleNotFound(known);
      if (stored.defined === null) throw new InvalidOption("name", `${show(known)} is not defined in code`);
      const definition = fromJson(stored.defined) as Definition;
      return { definition, origin: "code", defined: stored.defined, changes: {} };
    });
  }

  /** Deletes a schedule with what is known of its slots; its jobs stay. False: there was none. */
  async remove(name: string): Promise<boolean> {
    const { store, defined } = this.#open();
    const known = readScheduleName(name);
    defined.delete(known);
    return store.removeSchedule(known);
  }

  /** The next slots, of a schedule or of a timing that is only thought of. */
  preview(name: string, count?: number): Promise<Date[]>;
  preview(timing: ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">, count?: number): Promise<Date[]>;
  async preview(
    target: string | (ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">),
    count = 5,
  ): Promise<Date[]> {
    const { store, clock } = this.#open();
    const most = readCount(count, "count", 1, LIMITS.preview);
    if (typeof target !== "string") return slotsFrom(readTiming(target, clock.now()), clock.now(), most);
    const known = readScheduleName(target);
    const stored = await store.getSchedule(known);
    if (stored === null) throw new ScheduleNotFound(known);
    return slotsFrom(timingOf(stored), Math.max(clock.now(), stored.lastSlot ?? 0), most);
  }

  /**
   * Makes a job now, besides the slots, whether the schedule is enabled or not. With `overlap: "skip"` and a run that
   * is live, the answer is that run.
   */
  async runNow(name: string): Promise<EnqueueAnswer> {
    const core = this.#open();
    const known = readScheduleName(name);
    for (;;) {
      const stored = await core.store.getSchedule(known);
      if (stored === null) throw new ScheduleNotFound(known);
      const firing = planRunNow(stored, core.clock.now());
      const [answer] = await core.store.fire([firing]);
      if (answer?.status !== "fired") continue;
      this.#scheduler.announce(stored, firing, answer);
      const { job = null, heldBy = null } = answer.slots[0] ?? {};
      const id = job ?? heldBy;
      if (id === null) throw new HoldfastError("NOT_STORED", "the store refused the job");
      return { id, duplicate: job === null, replaced: false };
    }
  }

  /**
   * Turns every slot that has come into a job, now. A worker does it by itself; call this where none runs: from cron,
   * in a Lambda, in tests. Answers how many jobs were made.
   */
  async fireDue(): Promise<number> {
    this.#open();
    return this.#scheduler.fireDue();
  }

  /** Reads, decides, writes; again if somebody else wrote in between. */
  async #write(name: string, decide: (stored: StoredSchedule | null) => Write | Promise<Write>): Promise<Schedule> {
    const { store, clock } = this.#open();
    for (;;) {
      const stored = await store.getSchedule(name);
      const { definition, origin, defined, changes } = await decide(stored);
      const now = clock.now();
      const record: ScheduleRecord = {
        ...definition,
        name,
        origin,
        defined,
        version: newId(now),
        changes: changes === null ? null : JSON.stringify(changes),
        nextRunAt: nextRun(definition, stored, now),
      };
      if (stored !== null && isSame(record, stored)) return readSchedule(stored);
      if ((await store.putSchedule(record, stored?.version ?? null)) === "changed") continue;
      this.#scheduler.wake(record.nextRunAt);
      const { lastSlot = null, createdAt = now, slots = [] } = stored ?? {};
      return readSchedule({ ...record, lastSlot, createdAt, updatedAt: now, slots });
    }
  }
}

interface Write {
  definition: Definition;
  origin: ScheduleRecord["origin"];
  defined: string | null;
  changes: Partial<Definition> | null;
}

/** From now if it begins, begins again or runs at other times; else as it was, so that nothing missed is forgotten. */
function nextRun(definition: Definition, stored: StoredSchedule | null, now: number): number | null {
  if (!definition.enabled) return null;
  const before = stored === null ? null : definitionOf(stored);
  const goesOn = before?.enabled === true && RETIMING.every((field) => before[field] === definition[field]);
  if (goesOn) return stored?.nextRunAt ?? null;
  return nextRunOf(timingOf(definition), now, stored?.lastSlot ?? null);
}

function isSame(record: ScheduleRecord, stored: StoredSchedule): boolean {
  const text = (of: ScheduleRecord): string =>
    JSON.stringify([definitionOf(of), of.origin, of.defined, of.changes, of.nextRunAt]);
  return text(record) === text(stored);
}

function changesOf(stored: ScheduleRecord): Partial<Definition> {
  return readable(stored.changes) ?? {};
}

/** What of `changes` is not so in `definition` already. */
function differences(definition: Definition, changes: Partial<Definition>): Partial<Definition> {
  const differs = (field: keyof Definition): boolean => field in changes && !isEqual(changes, definition, field);
  // A pattern, its zone and an interval go together: code that moves from one to the other must not meet a half of it.
  const timing = differs("cron") || differs("everyMs");
  const kept = (Object.keys(changes) as (keyof Definition)[]).filter((field) => {
    if (field === "cron" || field === "everyMs") return timing;
    if (field === "timezone") return timing || (definition.cron !== null && differs(field));
    // An input was checked for its job, and may not fit another.
    if (field === "input") return differs(field) || differs("type");
    return differs(field);
  });
  return Object.fromEntries(kept.map((field) => [field, changes[field]]));
}

function isEqual(a: Partial<Definition>, b: Partial<Definition>, field: keyof Definition): boolean {
  return JSON.stringify(a[field]) === JSON.stringify(b[field]);
}

function slotsFrom(timing: Timing, after: number, most: number): Date[] {
  const slots: Date[] = [];
  for (let slot = nextSlot(timing, after); slot !== null && slots.length < most; slot = nextSlot(timing, slot)) {
    slots.push(new Date(slot));
  }
  return slots;
}

function readScheduleName(name: unknown): string {
  return readName(name, "name", LIMITS.scheduleLength);
}

function readListOptions(options: ScheduleListOptions): {
  filter: ScheduleFilter;
  limit: number;
  cursor: string | null;
} {
  refuseUnknown(options, LIST_FIELDS, "list");
  const { origin, enabled, type, user, limit = 50, cursor = null } = options;
  const filter: ScheduleFilter = {};
  if (origin !== undefined) {
    if (origin !== "code" && origin !== "runtime") {
      throw new InvalidOption("origin", `${show(origin)} is none of "code", "runtime"`);
    }
    filter.origin = origin;
  }
  if (enabled !== undefined) {
    if (typeof enabled !== "boolean") throw new InvalidOption("enabled", `${show(enabled)} is neither true nor false`);
    filter.enabled = enabled;
  }
  if (type !== undefined) {
    filter.type = readName(typeof type === "object" ? type?.type : type, "type", LIMITS.typeLength);
  }
  if (user !== undefined) filter.user = readName(user, "user", LIMITS.userLength);
  return {
    filter,
    limit: readCount(limit, "limit", 1, LIMITS.listPage),
    cursor: cursor === null ? null : readName(cursor, "cursor", LIMITS.scheduleLength),
  };
}

const dateOrNull = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

/** A stored schedule as people read it. */
function readSchedule(stored: StoredSchedule): Schedule {
  const { name, origin, type, cron, timezone, everyMs, jitterMs, catchUp, overlap, enabled } = stored;
  const { queue, priority, maxAttempts, user, tags, nextRunAt } = stored;
  const inCode: Partial<Definition> = readable(stored.defined) ?? {};
  const changed = (Object.keys(changesOf(stored)) as (keyof Definition)[])
    // Of a pattern that gave way to an interval, or the other way round, only what is there now is told.
    .filter((field) => !isEqual(stored, inCode, field) && (stored[field] !== null || !TIMING.includes(field)))
    .map((field) => (CHANGE_NAMES[field] === undefined ? field : CHANGE_NAMES[field]))
    .filter((name) => name !== null);
  return {
    name,
    origin,
    changed,
    type,
    input: readable(stored.input),
    cron,
    timezone,
    everyMs,
    startAt: dateOrNull(stored.startAt),
    endAt: dateOrNull(stored.endAt),
    jitterMs,
    catchUp,
    overlap,
    enabled,
    queue,
    priority,
    maxAttempts,
    user,
    tags,
    nextRunAt: enabled && nextRunAt !== NEVER ? dateOrNull(nextRunAt) : null,
    lastSlot: dateOrNull(stored.lastSlot),
    createdAt: new Date(stored.createdAt),
    updatedAt: new Date(stored.updatedAt),
    slots: stored.slots.map((kept) => ({
      ...kept,
      slot: new Date(kept.slot),
      through: dateOrNull(kept.through),
      at: new Date(kept.at),
    })),
  };
}
