import type { EnqueueResult } from "../../job/enqueue-types.js";
import { LIMITS } from "../../defaults.js";
import { dateOf, dateOrNull } from "../../duration.js";
import { HoldfastError, InvalidOptionError, ScheduleExistsError, ScheduleNotFoundError } from "../../errors.js";
import { newId } from "../../job/uuid.js";
import type { JobType } from "../../job/job.js";
import { optionKeys, readCount, readName, refuseUnknown, show } from "../../options.js";
import { NEVER, nextSlot, type CatchUp, type Timing } from "../../schedule/slots.js";
import type { ScheduleFilter, ScheduleRecord, SlotReason, StoredSchedule } from "../../store.js";
import type { EngineContext } from "../context.js";
import { settingsOf } from "../enqueue/new-job.js";
import { nextSlotFrom, planRunNow } from "./plan-firing.js";
import { parseStored } from "../client/job-view.js";
import { changedOptions, changesOf, codeOf, differences, packChanges, packCode } from "./schedule-changes.js";
import type { Definition, NamedScheduleOptions } from "./schedule-definition.js";
import {
  definitionOf,
  noSlotLeft,
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

/** A schedule. */
export interface Schedule {
  name: string;
  /** Defined in code (`hf.schedule`) or created at run time (`hf.schedules.create`). */
  origin: "code" | "runtime";
  /** Options changed at run time. A later deployment of the code keeps these changes. */
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
  /** Null: it is disabled, or has no slot left. */
  nextRunAt: Date | null;
  /** The latest slot that became a job or was skipped. */
  lastSlot: Date | null;
  createdAt: Date;
  updatedAt: Date;
  /** Newest first: the last 20 slots that became jobs, and the last 20 that did not. Empty in lists. */
  slots: readonly SlotRecord[];
}

/** The result of a slot, or of a range of missed slots. */
export interface SlotRecord {
  slot: Date;
  /** The last slot of a missed range; null for a single slot. */
  through: Date | null;
  /** The job of the slot; null if it was skipped. */
  job: string | null;
  /** `late`, `manual`, `missed`, `overlap`, `refused: …`; null if the slot fired on time. */
  reason: SlotReason | null;
  /** When the slot fired or was skipped. */
  at: Date;
}

export interface ScheduleListOptions {
  origin?: "code" | "runtime";
  enabled?: boolean;
  type?: string | JobType;
  user?: string;
  /** Schedules per page, 1 to 1000. Default 50. */
  limit?: number;
  /** The `cursor` of the previous page. */
  cursor?: string | null;
}

const LIST_KEYS: ReadonlySet<string> = optionKeys<ScheduleListOptions>({
  origin: true,
  enabled: true,
  type: true,
  user: true,
  limit: true,
  cursor: true,
});

let construct: (requireOpen: () => EngineContext, scheduler: Scheduler, writing: Set<Promise<unknown>>) => Schedules;
let define: (schedules: Schedules, name: string, options: ScheduleOptions<unknown>) => Promise<Schedule>;
let updateBy: (schedules: Schedules, name: string, decide: DecideChanges) => Promise<Schedule>;

/** Returns the changes to make, given the current schedule. */
type DecideChanges = (schedule: Schedule) => ScheduleChanges;

/** Reads and changes schedules: `hf.schedules`. */
export class Schedules {
  readonly #requireOpen: () => EngineContext;
  readonly #scheduler: Scheduler;
  readonly #writing: Set<Promise<unknown>>;

  private constructor(requireOpen: () => EngineContext, scheduler: Scheduler, writing: Set<Promise<unknown>>) {
    this.#requireOpen = requireOpen;
    this.#scheduler = scheduler;
    this.#writing = writing;
  }

  static {
    construct = (requireOpen, scheduler, writing) => new Schedules(requireOpen, scheduler, writing);
    define = (schedules, name, options) => schedules.#define(name, options);
    updateBy = (schedules, name, decide) => schedules.#updateBy(name, decide);
  }

  async #define(name: string, options: ScheduleOptions<unknown>): Promise<Schedule> {
    const engine = this.#requireOpen();
    const validName = readScheduleName(name);
    if (typeof (options as { job?: unknown } | undefined)?.job === "string") {
      throw new InvalidOptionError("job", "is not a job type; pass what job({ … }) returned");
    }
    const definition = await readDefinition(options, engine, engine.clock.now());
    if (!engine.definedSchedules.has(validName)) {
      engine.definedSchedules.add(validName);
      for (const call of engine.scheduleDefinedListeners) call();
    }
    if (engine.types.size > 0 && !engine.types.has(definition.type)) {
      const { type } = definition;
      engine.logger.warn({ schedule: validName, type }, "this schedule's job is not among holdfast({ jobs }) here");
    }
    const schedule = await this.#write(validName, (stored) => {
      if (stored === null) return { definition, code: definition, changes: {} };
      const before = definitionOf(stored);
      // A schedule created at run time keeps its settings: those that differ from the code count as changes.
      const kept = stored.origin === "code" ? changesOf(stored) : before;
      const changes = differences(definition, kept);
      const effective = { ...definition, ...changes };
      const error = problemOf(effective, engine.clock.now());
      if (error !== null) {
        const problem = error.message;
        engine.logger.warn({ schedule: validName, problem }, "with its run-time changes this schedule cannot run");
      }
      return { definition: effective, code: definition, changes };
    });
    // Logged, because an edit of the code seems to have no effect.
    if (schedule.changed.length > 0) {
      const changed = schedule.changed.join(", ");
      engine.logger.warn(
        { schedule: validName, changed },
        "run-time changes override the code; hf.schedules.reset(name) undoes them",
      );
    }
    return schedule;
  }

  /** Creates a schedule at run time. Throws `ScheduleExistsError` if the name is taken. */
  create<Input>(name: string, options: ScheduleOptions<Input> | NamedScheduleOptions): Promise<Schedule>;
  async create(name: string, options: ScheduleOptions<unknown> | NamedScheduleOptions): Promise<Schedule> {
    const engine = this.#requireOpen();
    const validName = readScheduleName(name);
    const definition = await readDefinition(options, engine, engine.clock.now());
    const ended = noSlotLeft(definition, engine.clock.now());
    if (ended !== null) throw ended;
    return this.#write(validName, (stored) => {
      if (stored !== null) throw new ScheduleExistsError(validName);
      return { definition, code: null, changes: {} };
    });
  }

  /** The schedule with its last slots, or null. */
  async get(name: string): Promise<Schedule | null> {
    const stored = await this.#requireOpen().store.getSchedule(readScheduleName(name));
    return stored === null ? null : readSchedule(stored);
  }

  /** Schedules that match, sorted by name, one page at a time. */
  async list(options: ScheduleListOptions = {}): Promise<{ schedules: Schedule[]; cursor: string | null }> {
    const { filter, limit, cursor } = readListOptions(options);
    const page = await this.#requireOpen().store.listSchedules(filter, { limit, cursor });
    return { schedules: page.schedules.map(readSchedule), cursor: page.cursor };
  }

  /** Changes the given settings. A later deployment of the code does not revert them. */
  update(name: string, changes: ScheduleChanges): Promise<Schedule> {
    return this.#updateBy(name, () => changes);
  }

  async #updateBy(name: string, decide: DecideChanges): Promise<Schedule> {
    const engine = this.#requireOpen();
    const validName = readScheduleName(name);
    return this.#write(validName, async (stored) => {
      if (stored === null) throw new ScheduleNotFoundError(validName);
      const before = definitionOf(stored);
      const set = await readChanges(decide(readSchedule(stored)), before, engine, engine.clock.now());
      const definition = { ...before, ...set };
      const code = codeOf(stored);
      const changed = code === null ? {} : differences(code, { ...changesOf(stored), ...set });
      return { definition, code, changes: changed };
    });
  }

  /** Enables a schedule from now on. Slots that passed while it was disabled are not caught up. */
  enable(name: string): Promise<Schedule> {
    return this.update(name, { enabled: true });
  }
  /** Disables a schedule. Its jobs and its slot history stay. */
  disable(name: string): Promise<Schedule> {
    return this.update(name, { enabled: false });
  }

  /** Reverts run-time changes to the definition in code. */
  async reset(name: string): Promise<Schedule> {
    this.#requireOpen();
    const validName = readScheduleName(name);
    return this.#write(validName, (stored) => {
      if (stored === null) throw new ScheduleNotFoundError(validName);
      const code = codeOf(stored);
      if (code === null) throw new InvalidOptionError("name", `${show(validName)} is not defined in code`);
      return { definition: code, code, changes: {} };
    });
  }

  /** Deletes a schedule and its slot history; its jobs stay. False if it does not exist. */
  async remove(name: string): Promise<boolean> {
    const { store, definedSchedules } = this.#requireOpen();
    const validName = readScheduleName(name);
    definedSchedules.delete(validName);
    return store.removeSchedule(validName);
  }

  /** The next slots of a schedule, or of a timing without a schedule. */
  preview(name: string, count?: number): Promise<Date[]>;
  preview(timing: ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">, count?: number): Promise<Date[]>;
  async preview(
    target: string | (ScheduleTiming & Pick<ScheduleSettings, "startAt" | "endAt">),
    count = 5,
  ): Promise<Date[]> {
    const { store, clock } = this.#requireOpen();
    const limit = readCount(count, "count", 1, LIMITS.preview);
    if (typeof target !== "string") return slotsFrom(readTiming(target, clock.now()), clock.now(), limit);
    const validName = readScheduleName(target);
    const stored = await store.getSchedule(validName);
    if (stored === null) throw new ScheduleNotFoundError(validName);
    return slotsFrom(timingOf(stored), Math.max(clock.now(), stored.lastSlot ?? 0), limit);
  }

  /**
   * Enqueues a job now, in addition to the slots, even if the schedule is disabled. With `overlap: "skip"` and an unfinished
   * job, it returns that job.
   */
  async runNow(name: string): Promise<EnqueueResult> {
    const engine = this.#requireOpen();
    const validName = readScheduleName(name);
    for (;;) {
      const stored = await engine.store.getSchedule(validName);
      if (stored === null) throw new ScheduleNotFoundError(validName);
      const firing = planRunNow(stored, engine.clock.now(), settingsOf(engine.types.get(stored.type)));
      const result = await this.#scheduler.fireNow(stored, firing);
      if (result.status !== "fired") continue;
      const { job = null, heldBy = null } = result.slots[0] ?? {};
      const id = job ?? heldBy;
      if (id === null) throw new HoldfastError("NOT_STORED", "the store refused the job");
      return { id, duplicate: job === null, replaced: false };
    }
  }

  /**
   * Enqueues the jobs of all due slots now. Workers do this automatically; call it where none runs: from cron, in a Lambda, in
   * tests. Returns how many jobs were enqueued.
   */
  async fireDue(): Promise<number> {
    this.#requireOpen();
    return this.#scheduler.fireDue();
  }

  async #write(name: string, decide: (stored: StoredSchedule | null) => Write | Promise<Write>): Promise<Schedule> {
    const writing = this.#decideAndPut(name, decide);
    this.#writing.add(writing);
    return writing.finally(() => this.#writing.delete(writing));
  }

  /** Reads, decides and writes; repeats if another process wrote meanwhile. */
  async #decideAndPut(
    name: string,
    decide: (stored: StoredSchedule | null) => Write | Promise<Write>,
  ): Promise<Schedule> {
    const { store } = this.#requireOpen();
    for (;;) {
      const stored = await store.getSchedule(name);
      const { definition, code, changes } = await decide(stored);
      // By the store's clock, as all slots are: the clock of this process may be wrong.
      const { at: now } = await store.dueSchedules(0);
      const retimed = stored !== null && isRetimed(stored, definition);
      if (retimed && (await this.#fireDueSlots(stored, definition, now))) continue;
      const record: ScheduleRecord = {
        ...definition,
        name,
        origin: code === null ? "runtime" : "code",
        defined: code === null ? null : packCode(code, definition.input),
        changes: code === null ? null : packChanges(changes),
        version: newId(now),
        nextRunAt: nextRun(definition, stored, retimed, now),
      };
      if (stored !== null && isSame(record, stored)) return readSchedule(stored);
      if ((await store.putSchedule(record, stored?.version ?? null)) === "changed") continue;
      this.#scheduler.wake(record.nextRunAt);
      const { lastSlot = null, createdAt = now, slots = [] } = stored ?? {};
      return readSchedule({ ...record, lastSlot, createdAt, updatedAt: now, slots });
    }
  }

  /**
   * Before the timing changes, slots that are already due fire by the old timing; otherwise they would be lost silently. True if
   * there were any: the stored schedule has then changed.
   */
  async #fireDueSlots(stored: StoredSchedule, definition: Definition, now: number): Promise<boolean> {
    if (!definition.enabled || stored.nextRunAt === null || stored.nextRunAt > now) return false;
    try {
      await this.#scheduler.fireSchedule(stored, now);
      return true;
    } catch (error) {
      // A schedule that cannot be read has no slots. The write that follows repairs it.
      if (error instanceof InvalidOptionError) return false;
      throw error;
    }
  }
}

/** For the client. */
export function newSchedules(
  requireOpen: () => EngineContext,
  scheduler: Scheduler,
  writing: Set<Promise<unknown>>,
): Schedules {
  return construct(requireOpen, scheduler, writing);
}

/** `hf.schedule`: creates or updates the schedule as code defines it, and keeps changes made at run time. */
export function defineSchedule(
  schedules: Schedules,
  name: string,
  options: ScheduleOptions<unknown>,
): Promise<Schedule> {
  return define(schedules, name, options);
}

/** Updates a schedule with changes that depend on its current settings. For the admin API. */
export function updateScheduleBy(schedules: Schedules, name: string, decide: DecideChanges): Promise<Schedule> {
  return updateBy(schedules, name, decide);
}

interface Write {
  definition: Definition;
  /** The definition in code; null for a schedule created at run time. */
  code: Definition | null;
  changes: Partial<Definition>;
}

function isRetimed(stored: StoredSchedule, definition: Definition): boolean {
  const before = definitionOf(stored);
  return before.enabled && RETIMING.some((field) => before[field] !== definition[field]);
}

/** From now on if the schedule is new, was enabled again or has a new timing; otherwise unchanged, so that no slot is lost. */
function nextRun(definition: Definition, stored: StoredSchedule | null, retimed: boolean, now: number): number | null {
  if (!definition.enabled) return null;
  if (stored?.enabled === true && !retimed) return stored.nextRunAt;
  return nextSlotFrom(timingOf(definition), now, stored?.lastSlot ?? null);
}

function isSame(record: ScheduleRecord, stored: StoredSchedule): boolean {
  const text = (of: ScheduleRecord): string =>
    JSON.stringify([definitionOf(of), of.origin, of.defined, of.changes, of.nextRunAt]);
  return text(record) === text(stored);
}

function slotsFrom(timing: Timing, after: number, limit: number): Date[] {
  const slots: Date[] = [];
  for (let slot = nextSlot(timing, after); slot !== null && slots.length < limit; slot = nextSlot(timing, slot)) {
    slots.push(new Date(slot));
  }
  return slots;
}

export function readScheduleName(name: unknown): string {
  return readName(name, "name", LIMITS.scheduleLength);
}

function readListOptions(options: ScheduleListOptions): {
  filter: ScheduleFilter;
  limit: number;
  cursor: string | null;
} {
  refuseUnknown(options, LIST_KEYS, "list");
  const { origin, enabled, type, user, limit = 50, cursor = null } = options;
  const filter: ScheduleFilter = {};
  if (origin !== undefined) {
    if (origin !== "code" && origin !== "runtime") {
      throw new InvalidOptionError("origin", `${show(origin)} is none of "code", "runtime"`);
    }
    filter.origin = origin;
  }
  if (enabled !== undefined) {
    if (typeof enabled !== "boolean")
      throw new InvalidOptionError("enabled", `${show(enabled)} is neither true nor false`);
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

/** A stored schedule as callers see it. */
export function readSchedule(stored: StoredSchedule): Schedule {
  const { name, origin, type, cron, timezone, everyMs, jitterMs, catchUp, overlap, enabled } = stored;
  const { queue, priority, maxAttempts, user, tags, nextRunAt } = stored;
  return {
    name,
    origin,
    changed: changedOptions(stored),
    type,
    input: parseStored(stored.input),
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
    createdAt: dateOf(stored.createdAt),
    updatedAt: dateOf(stored.updatedAt),
    slots: stored.slots.map((record) => ({
      ...record,
      slot: dateOf(record.slot),
      through: dateOrNull(record.through),
      at: dateOf(record.at),
    })),
  };
}
