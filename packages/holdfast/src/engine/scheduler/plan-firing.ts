import { createHash } from "node:crypto";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import { InvalidOptionError } from "../../errors.js";
import { newId, slotId } from "../../job/uuid.js";
import { NEVER, nextSlot, planDue, type CatchUp, type Timing } from "../../schedule/slots.js";
import type { FiredSlot, Firing, JobSettings, NewJob, StoredSchedule } from "../../store.js";
import { scheduleUnique } from "../enqueue/unique.js";
import { timingOf } from "./schedule-definition.js";

/**
 * Plans a due schedule: which slots become jobs, which do not and why, and when it runs next. Throws for a schedule that this
 * process cannot read. `settings`: those of its jobs.
 */
export function planFiring(schedule: StoredSchedule, at: number, settings: JobSettings | null): Firing {
  const { name, version, lastSlot, nextRunAt } = schedule;
  const timing = timingOf(schedule);
  const base = { name, version, newVersion: newId(at), lastSlot, slots: [] };
  // Slots up to the last one are done, even if the clock was set back since.
  if (nextRunAt === null || (lastSlot !== null && nextRunAt <= lastSlot)) {
    return { ...base, nextRunAt: nextSlotFrom(timing, at, lastSlot) };
  }
  // The stored time may no longer be a slot: the rules of a time zone can change.
  const first = nextSlot(timing, nextRunAt - 1) ?? NEVER;
  if (first > at) return { ...base, nextRunAt: first };

  const { lateMs } = DEFAULTS.schedule;
  const plan = planDue(timing, { first, now: at, catchUp: readCatchUp(schedule), lateMs });
  const slots: FiredSlot[] = [];
  if (plan.missed !== null) {
    const { first: slot, last } = plan.missed;
    slots.push({ slot, through: last === slot ? null : last, job: null, reason: "missed" });
  }
  // Slots that do not fit into one transaction stay due.
  const maxJobs = Math.min(LIMITS.firedSlots, Math.max(1, Math.floor(LIMITS.batchBytes / schedule.input.length)));
  for (const slot of plan.slots.slice(0, maxJobs)) {
    const reason = at - slot > lateMs ? "late" : null;
    slots.push({ slot, through: null, job: slotJob(schedule, slot, at, settings), reason });
  }
  const last = slots.at(-1);
  const doneThrough = last === undefined ? lastSlot : (last.through ?? last.slot);
  return { ...base, slots, lastSlot: doneThrough, nextRunAt: plan.slots[maxJobs] ?? plan.next ?? NEVER };
}

function readCatchUp({ catchUp, overlap }: StoredSchedule): CatchUp {
  if (catchUp === "skip" || catchUp === "latest") return catchUp;
  if (!Number.isInteger(catchUp.all) || catchUp.all < 1)
    throw new InvalidOptionError("catchUp", "has an unknown value in the store");
  // If jobs of the schedule must not overlap, only one of the missed slots can become a job: the newest.
  return overlap === "skip" ? "latest" : catchUp;
}

/** The next slot of a schedule that is created or enabled now. */
export function nextSlotFrom(timing: Timing, now: number, lastSlot: number | null): number {
  return nextSlot(timing, Math.max(now, lastSlot ?? now)) ?? NEVER;
}

/** A manual run, in addition to the slots; the next slot does not change. */
export function planRunNow(schedule: StoredSchedule, at: number, settings: JobSettings | null): Firing {
  const job: NewJob = { ...slotJob(schedule, at, at, settings), id: newId(at), runAt: null };
  return {
    name: schedule.name,
    version: schedule.version,
    newVersion: newId(at),
    nextRunAt: schedule.nextRunAt,
    lastSlot: schedule.lastSlot,
    slots: [{ slot: at, through: null, job, reason: "manual" }],
  };
}

function slotJob(schedule: StoredSchedule, slot: number, at: number, settings: JobSettings | null): NewJob {
  const { name, type, queue, priority, user, input, maxAttempts, tags, jitterMs, overlap, expiresAfterMs } = schedule;
  const runAt = slot + jitterOf(name, slot, jitterMs);
  return {
    // With the creation time: a schedule that is deleted and created again gets new jobs for the same slots.
    id: slotId(`${name} ${schedule.createdAt}`, slot),
    type,
    queue,
    priority,
    user,
    input,
    maxAttempts,
    tags,
    // The job of a late slot is due now, after jobs that were enqueued before.
    runAt: runAt > at ? runAt : null,
    delayMs: 0,
    expiresAt: expiresAfterMs === null ? null : Math.max(runAt, at) + expiresAfterMs,
    unique: overlap === "skip" ? scheduleUnique(name) : null,
    schedule: { name, slot },
    parent: null,
    settings,
    // No call enqueued it, so its first attempt starts a new trace.
    trace: null,
  };
}

/** Derived from the slot: every process computes the same jitter for it. */
function jitterOf(name: string, slot: number, jitterMs: number): number {
  if (jitterMs === 0) return 0;
  const fraction = createHash("sha256").update(`${name}\n${slot}`).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(fraction * (jitterMs + 1));
}
