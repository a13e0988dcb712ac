import { LIMITS } from "../defaults.js";
import { NEVER, slotResult } from "../schedule/slots.js";
import type {
  FireResult,
  FiredSlot,
  Firing,
  InsertResult,
  StoredSlot,
  NewJob,
  PutResult,
  ScheduleFilter,
  ScheduleRecord,
  StoredSchedule,
} from "../store.js";

/** The part of the contract about schedules: one map, and the insert of jobs. */
export class ScheduleModel {
  readonly all: Map<string, StoredSchedule> = new Map();
  readonly #insert: (job: NewJob, now: number) => InsertResult;

  constructor(insert: (job: NewJob, now: number) => InsertResult) {
    this.#insert = insert;
  }

  put(schedule: ScheduleRecord, version: string | null, now: number): PutResult {
    const stored = this.all.get(schedule.name);
    if ((stored?.version ?? null) !== version) return "changed";
    const { lastSlot = null, createdAt = now, slots = [] } = stored ?? {};
    this.all.set(schedule.name, { ...schedule, lastSlot, createdAt, updatedAt: now, slots });
    return "put";
  }

  /** By name, without slots. */
  list(filter: ScheduleFilter): StoredSchedule[] {
    return [...this.all.values()]
      .filter(({ origin }) => filter.origin === undefined || filter.origin === origin)
      .filter(({ enabled }) => filter.enabled === undefined || filter.enabled === enabled)
      .filter(({ type }) => filter.type === undefined || filter.type === type)
      .filter(({ user }) => filter.user === undefined || filter.user === user)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map((schedule) => ({ ...schedule, slots: [] }));
  }

  remove(name: string): boolean {
    return this.all.delete(name);
  }

  /** All due schedules, without slots. Those due at the same time may have any order. */
  due(now: number): StoredSchedule[] {
    return this.list({ enabled: true })
      .filter(({ nextRunAt }) => nextRunAt === null || nextRunAt <= now)
      .sort((a, b) => dueTime(a) - dueTime(b));
  }

  nextRunAt(now: number): number | null {
    const next = this.list({ enabled: true })
      .map(dueTime)
      .filter((time) => time > now);
    const earliest = Math.min(NEVER, ...next);
    return earliest === NEVER ? null : earliest;
  }

  fire(firing: Firing, now: number): FireResult {
    const { version, newVersion, nextRunAt, lastSlot } = firing;
    const stored = this.all.get(firing.name);
    if (stored === undefined || stored.version !== version || movesBack(stored.lastSlot, lastSlot)) {
      return { status: "changed" };
    }
    const kept: StoredSlot[] = [];
    const slots = firing.slots.map((slot) => {
      const { job, heldBy, reason } = this.#fireSlot(slot, now);
      kept.unshift({ slot: slot.slot, through: slot.through, job, reason, at: now });
      return { job, heldBy };
    });
    const next = { version: newVersion, nextRunAt, lastSlot, updatedAt: now };
    this.all.set(firing.name, { ...stored, ...next, slots: newest([...kept, ...stored.slots]) });
    return { status: "fired", slots };
  }

  #fireSlot({ job, reason }: FiredSlot, now: number): Pick<StoredSlot, "job" | "reason"> & { heldBy: string | null } {
    if (job === null) return { job: null, heldBy: null, reason };
    return slotResult(job.id, this.#insert(job, now), reason);
  }
}

/** When it should have run. Schedules without a computed next run come first. */
export function dueTime({ nextRunAt }: Pick<ScheduleRecord, "nextRunAt">): number {
  return nextRunAt ?? Number.NEGATIVE_INFINITY;
}

function movesBack(from: number | null, to: number | null): boolean {
  return from !== null && (to === null || to < from);
}

/** The last slots that became jobs and the last that did not. */
function newest(slots: readonly StoredSlot[]): StoredSlot[] {
  const seen = { jobs: 0, none: 0 };
  return slots.filter(({ job }) => ++seen[job === null ? "none" : "jobs"] <= LIMITS.slots);
}
