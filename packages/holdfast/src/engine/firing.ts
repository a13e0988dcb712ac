import { createHash } from "node:crypto";
import { DEFAULTS, LIMITS } from "../defaults.js";
import { newId, slotId } from "../id.js";
import { NEVER, nextSlot, planDue, type Timing } from "../schedule/slots.js";
import type { FiredSlot, Firing, NewJob, ScheduleRecord, StoredSchedule } from "../store.js";
import { scheduleKey } from "./new-job.js";
import { timingOf } from "./schedule-definition.js";

// A schedule that cannot be read is not asked again for so long.
const UNREADABLE_MS = 3_600_000;
const MOST_SLOTS = 100;

/** What a look at a due schedule comes to: which slots become jobs, which do not and why, and when it runs next. */
export function planFiring(schedule: StoredSchedule, at: number): Firing {
  const { name, version, lastSlot } = schedule;
  const base = { name, version, newVersion: newId(at), lastSlot, slots: [] };
  let timing: Timing;
  try {
    timing = timingOf(schedule);
  } catch (error) {
    const reason = `cannot be read: ${(error as Error).message}`;
    return { ...base, nextRunAt: at + UNREADABLE_MS, slots: [{ slot: at, through: null, job: null, reason }] };
  }
  // Slots up to the last one are dealt with, whatever became of the clock since.
  const first = schedule.nextRunAt;
  if (first === null || first > at || (lastSlot !== null && first <= lastSlot)) {
    return { ...base, nextRunAt: nextRunOf(timing, at, lastSlot) };
  }

  const { catchUp } = schedule;
  const plan = planDue(timing, { first, now: at, catchUp, lateMs: DEFAULTS.schedule.lateMs });
  const slots: FiredSlot[] = [];
  if (plan.missed !== null) {
    const { first: slot, last } = plan.missed;
    slots.push({ slot, through: last === slot ? null : last, job: null, reason: "missed while nothing ran" });
  }
  // What does not fit into one transaction stays due.
  const room = Math.min(MOST_SLOTS, Math.max(1, Math.floor(LIMITS.batchBytes / schedule.input.length)));
  for (const slot of plan.slots.slice(0, room)) {
    const late = at - slot > DEFAULTS.schedule.lateMs ? `late by ${inWords(at - slot)}` : null;
    slots.push({ slot, through: null, job: slotJob(schedule, slot, at), reason: late });
  }
  const last = slots.at(-1);
  const dealtWith = last === undefined ? lastSlot : (last.through ?? last.slot);
  return { ...base, slots, lastSlot: dealtWith, nextRunAt: plan.slots[room] ?? plan.next ?? NEVER };
}

/** The next run of a schedule that begins, or begins again, now. */
export function nextRunOf(timing: Timing, now: number, lastSlot: number | null): number {
  return nextSlot(timing, Math.max(now, lastSlot ?? now)) ?? NEVER;
}

/** A run out of turn: the slots go on as if nothing had happened. */
export function planRunNow(schedule: StoredSchedule, at: number): Firing {
  const job: NewJob = { ...slotJob(schedule, at, at), id: newId(at), runAt: null };
  return {
    name: schedule.name,
    version: schedule.version,
    newVersion: newId(at),
    nextRunAt: schedule.nextRunAt,
    lastSlot: schedule.lastSlot,
    slots: [{ slot: at, through: null, job, reason: "run by hand" }],
  };
}

function slotJob(schedule: ScheduleRecord, slot: number, at: number): NewJob {
  const { name, type, queue, priority, user, input, maxAttempts, tags, jitterMs, overlap, expiresAfterMs } = schedule;
  const runAt = slot + jitterOf(name, slot, jitterMs);
  const unique = { key: scheduleKey(name), scope: "live", periodMs: 0, onConflict: "keep" } as const;
  return {
    id: slotId(name, slot),
    type,
    queue,
    priority,
    user,
    input,
    maxAttempts,
    tags,
    // A late run takes its place in line like any other that comes now.
    runAt: runAt > at ? runAt : null,
    delayMs: 0,
    expiresAt: expiresAfterMs === null ? null : Math.max(runAt, at) + expiresAfterMs,
    unique: overlap === "skip" ? unique : null,
    schedule: { name, slot },
  };
}

/** The same for the same slot, whoever fires it. */
function jitterOf(name: string, slot: number, jitterMs: number): number {
  if (jitterMs === 0) return 0;
  const chance = createHash("sha256").update(`${name}\n${slot}`).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(chance * (jitterMs + 1));
}

function inWords(ms: number): string {
  const minutes = Math.round(ms / 60_000);
  if (minutes < 60) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h ${minutes % 60}m` : `${Math.round(hours / 24)}d`;
}
