import { LIMITS } from "../../defaults.js";
import { dateOf, dateOrNull } from "../../duration.js";
import { HoldfastError, InvalidOptionError, ScheduleExistsError, ScheduleNotFoundError } from "../../errors.js";
import { newId } from "../../job/id.js";
import type { JobType } from "../../job/job.js";
import { optionKeys, readCount, readName, refuseUnknown, show } from "../../options.js";
import { NEVER, nextSlot, type CatchUp, type Timing } from "../../schedule/slots.js";
import type { ScheduleFilter, ScheduleRecord, SlotReason, StoredSchedule } from "../../store.js";
import type { EngineContext } from "../context.js";
import type { EnqueueResult } from "../enqueue/enqueue-result.js";
import { nextRunOf, planRunNow } from "./plan-firing.js";
import { readable } from "../client/job-view.js";
import { changedOptions, changesOf, codeOf, differences, packChanges, packCode } from "./schedule-changes.js";
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
  /** What was odd: `late`, `by hand`, `missed`, `overlap`, `refused: …`; null if all went as planned. */
  reason: SlotReason | null;
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

const LIST_KEYS: ReadonlySet<string> = optionKeys<ScheduleListOptions>({
  origin: true,
  enabled: true,
  type: true,
  user: true,
  limit: true,
  cursor: true,
});

let construct: (open: () => EngineContext, scheduler: Scheduler, writing: Set<Promise<unknown>>) => Schedules;
let define: (schedules: Schedules, name: string, options: ScheduleOptions<unknown>) => Promise<Schedule>;
let updateBy: (schedules: Schedules, name: string, decide: DecideChanges) => Promise<Schedule>;

/** Decides on changes from the schedule as it is when they are made. */
type DecideChanges = (schedule: Schedule) => ScheduleChanges;

/** Reads and changes schedules: `hf.schedules`. */
export class Schedules {
  readonly #open: () => EngineContext;
  readonly #scheduler: Scheduler;
  readonly #writing: Set<Promise<unknown>>;

  private constructor(open: () => EngineContext, scheduler: Scheduler, writing: Set<Promise<unknown>>) {
    this.#open = open;
    this.#scheduler = scheduler;
    this.#writing = writing;
  }

  static {
    construct = (open, scheduler, writing) => new Schedules(open, scheduler, writing);
    define = (schedules, name, options) => schedules.#define(name, options);
    updateBy = (schedules, name, decide) => schedules.#updateBy(name, decide);
  }

  async #define(name: string, options: ScheduleOptions<unknown>): Promise<Schedule> {
    const engine = this.#open();
    const known = readScheduleName(name);
    if (typeof (options as { job?: unknown } | undefined)?.job === "string") {
      throw new InvalidOptionError("job", "is not a job type; pass what job({ … }) returned");
    }
    const definition = await readDefinition(options, engine, engine.clock.now());
    if (!engine.definedSchedules.has(known)) {
      engine.definedSchedules.add(known);
      for (const call of engine.onScheduleDefined) call();
    }
    if (engine.types.size > 0 && !engine.types.has(definition.type)) {
      const { type } = definition;
      engine.logger.warn({ schedule: known, type }, "this schedule's job is not among holdfast({ jobs }) here");
    }
    const schedule = await this.#write(known, (stored) => {
      if (stored === null) return { definition, code: definition, changes: {} };
      const before = definitionOf(stored);
      // One that was made at run time is its maker's: code that comes to define it takes over what they agree on.
      const kept = stored.origin === "code" ? changesOf(stored) : before;
      const changes = differences(definition, kept);
      const together = { ...definition, ...changes };
      const useless = problemOf(together, engine.clock.now());
      if (useless !== null) {
        const problem = useless.message;
        engine.logger.warn({ schedule: known, problem }, "with what was changed at run time this schedule cannot run");
      }
      return { definition: together, code: definition, changes };
    });
    // Who edits the code and deploys it would wonder why nothing happens.
    if (schedule.changed.length > 0) {
      const changed = schedule.changed.join(", ");
      engine.logger.warn(
        { schedule: known, changed },
        "changed at run time and kept; hf.schedules.reset(name) undoes it",
      );
    }
    return schedule;
  }

  /** Makes a schedule at run time. Throws `ScheduleExistsError` if there is one of this name. */
  create<Input>(name: string, options: ScheduleOptions<Input> | NamedScheduleOptions): Promise<Schedule>;
  async create(name: string, options: ScheduleOptions<unknown> | NamedScheduleOptions): Promise<Schedule> {
    const engine = this.#open();
    const known = readScheduleName(name);
    const definition = await readDefinition(options, engine, engine.clock.now());
    const over = overBefore(definition, engine.clock.now());
    if (over !== null) throw over;
    return this.#write(known, (stored) => {
      if (stored !== null) throw new ScheduleExistsError(known);
      return { definition, code: null, changes: {} };
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
  update(name: string, changes: ScheduleChanges): Promise<Schedule> {
    return this.#updateBy(name, () => changes);
  }

  async #updateBy(name: string, decide: DecideChanges): Promise<Schedule> {
    const engine = this.#open();
    const known = readScheduleName(name);
    return this.#write(known, async (stored) => {
      if (stored === null) throw new ScheduleNotFoundError(known);
      const before = definitionOf(stored);
      const set = await readChanges(decide(readSchedule(stored)), before, engine, engine.clock.now());
      const definition = { ...before, ...set };
      const code = codeOf(stored);
      const changed = code === null ? {} : differences(code, { ...changesOf(stored), ...set });
      return { definition, code, changes: changed };
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
      if (stored === null) throw new ScheduleNotFoundError(known);
      const code = codeOf(stored);
      if (code === null) throw new InvalidOptionError("name", `${show(known)} is not defined in code`);
      return { definition: code, code, changes: {} };
    });
  }

  /** Deletes a schedule with what is known of its slots; its jobs stay. False: there was none. */
  async remove(name: string): Promise<boolean> {
    const { store, definedSchedules } = this.#open();
    const known = readScheduleName(name);
    definedSchedules.delete(known);
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
    if (stored === null) throw new ScheduleNotFoundError(known);
    return slotsFrom(timingOf(stored), Math.max(clock.now(), stored.lastSlot ?? 0), most);
  }

  /**
   * Makes a job now, besides the slots, whether the schedule is enabled or not. With `overlap: "skip"` and a run that
   * is live, the answer is that run.
   */
  async runNow(name: string): Promise<EnqueueResult> {
    const engine = this.#open();
    const known = readScheduleName(name);
    for (;;) {
      const stored = await engine.store.getSchedule(known);
      if (stored === null) throw new ScheduleNotFoundError(known);
      const firing = planRunNow(stored, engine.clock.now());
      const answer = await this.#scheduler.fireAlone(stored, firing);
      if (answer.status !== "fired") continue;
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

  async #write(name: string, decide: (stored: StoredSchedule | null) => Write | Promise<Write>): Promise<Schedule> {
    const writing = this.#decideAndPut(name, decide);
    this.#writing.add(writing);
    return writing.finally(() => this.#writing.delete(writing));
  }

  /** Reads, decides, writes; again if somebody else wrote in between. */
  async #decideAndPut(
    name: string,
    decide: (stored: StoredSchedule | null) => Write | Promise<Write>,
  ): Promise<Schedule> {
    const { store } = this.#open();
    for (;;) {
      const stored = await store.getSchedule(name);
      const { definition, code, changes } = await decide(stored);
      // By the store's clock, as slots are: this process may be a web server whose own is off.
      const { at: now } = await store.dueSchedules(0);
      const retimed = stored !== null && isRetimed(stored, definition);
      if (retimed && (await this.#fireOpen(stored, definition, now))) continue;
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
   * Slots that came before a schedule runs at other times are dealt with as it was, or they would be lost without a
   * word. True if there were any; the schedule is another then.
   */
  async #fireOpen(stored: StoredSchedule, definition: Definition, now: number): Promise<boolean> {
    if (!definition.enabled || stored.nextRunAt === null || stored.nextRunAt > now) return false;
    try {
      await this.#scheduler.fireOne(stored, now);
      return true;
    } catch (error) {
      // What cannot be read has no slots; it is mended by what is written now.
      if (error instanceof InvalidOptionError) return false;
      throw error;
    }
  }
}

/** For the client. */
export function newSchedules(
  open: () => EngineContext,
  scheduler: Scheduler,
  writing: Set<Promise<unknown>>,
): Schedules {
  return construct(open, scheduler, writing);
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
  /** What code says; null for one that was made at run time. */
  code: Definition | null;
  changes: Partial<Definition>;
}

function isRetimed(stored: StoredSchedule, definition: Definition): boolean {
  const before = definitionOf(stored);
  return before.enabled && RETIMING.some((field) => before[field] !== definition[field]);
}

/** From now if it begins, begins again or runs at other times; else as it was, so that nothing missed is forgotten. */
function nextRun(definition: Definition, stored: StoredSchedule | null, retimed: boolean, now: number): number | null {
  if (!definition.enabled) return null;
  if (stored?.enabled === true && !retimed) return stored.nextRunAt;
  return nextRunOf(timingOf(definition), now, stored?.lastSlot ?? null);
}

function isSame(record: ScheduleRecord, stored: StoredSchedule): boolean {
  const text = (of: ScheduleRecord): string =>
    JSON.stringify([definitionOf(of), of.origin, of.defined, of.changes, of.nextRunAt]);
  return text(record) === text(stored);
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

/** A stored schedule as people read it. */
function readSchedule(stored: StoredSchedule): Schedule {
  const { name, origin, type, cron, timezone, everyMs, jitterMs, catchUp, overlap, enabled } = stored;
  const { queue, priority, maxAttempts, user, tags, nextRunAt } = stored;
  return {
    name,
    origin,
    changed: changedOptions(stored),
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
    createdAt: dateOf(stored.createdAt),
    updatedAt: dateOf(stored.updatedAt),
    slots: stored.slots.map((kept) => ({
      ...kept,
      slot: dateOf(kept.slot),
      through: dateOrNull(kept.through),
      at: dateOf(kept.at),
    })),
  };
}
