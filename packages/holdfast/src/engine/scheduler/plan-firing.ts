import { createHash } from "node:crypto";
import { DEFAULTS, LIMITS } from "../../defaults.js";
import { InvalidOptionError } from "../../errors.js";
import { newId, slotId } from "../../job/id.js";
import { NEVER, nextSlot, planDue, type CatchUp, type Timing } from "../../schedule/slots.js";
import type { FiredSlot, Firing, NewJob, StoredSchedule } from "../../store.js";
import { scheduleKey } from "../enqueue/unique.js";
import { timingOf } from "./schedule-definition.js";

/**
 * What a look at a due schedule comes to: which slots become jobs, which do not and why, and when it runs next. Throws
 * for a schedule that this process cannot read.
 */
export function planFiring(schedule: StoredSchedule, at: number): Firing {
  const { name, version, lastSlot, nextRunAt } = schedule;
  const timing = timingOf(schedule);
  const base = { name, version, newVersion: newId(at), lastSlot, slots: [] };
  // Slots up to the last one are dealt with, whatever became of the clock since.
  if (nextRunAt === null || (lastSlot !== null && nextRunAt <= lastSlot)) {
    return { ...base, nextRunAt: nextRunOf(timing, at, lastSlot) };
  }
  // What was stored need not be a slot any more: the rules of a zone change, and with them its slots.
  const first = nextSlot(timing, nextRunAt - 1) ?? NEVER;
  if (first > at) return { ...base, nextRunAt: first };

  const { lateMs } = DEFAULTS.schedule;
  const plan = planDue(timing, { first, now: at, catchUp: readCatchUp(schedule), lateMs });
  const slots: FiredSlot[] = [];
  if (plan.missed !== null) {
    const { first: slot, last } = plan.missed;
    slots.push({ slot, through: last === slot ? null : last, job: null, reason: "missed" });
  }
  // What does not fit into one transaction stays due.
  const room = Math.min(LIMITS.firedSlots, Math.max(1, Math.floor(LIMITS.batchBytes / schedule.input.length)));
  for (const slot of plan.slots.slice(0, room)) {
    const reason = at - slot > lateMs ? "late" : null;
    slots.push({ slot, through: null, job: slotJob(schedule, slot, at), reason });
  }
  const last = slots.at(-1);
  const dealtWith = last === undefined ? lastSlot : (last.through ?? last.slot);
  return { ...base, slots, lastSlot: dealtWith, nextRunAt: plan.slots[room] ?? plan.next ?? NEVER };
}

function readCatchUp({ catchUp, overlap }: StoredSchedule): CatchUp {
  if (catchUp === "skip" || catchUp === "latest") return catchUp;
  if (!Number.isInteger(catchUp.all) || catchUp.all < 1) throw new InvalidOptionError("catchUp", "is not understood");
  // Of slots that cannot overlap one becomes a job, and that should be the newest.
  return overlap === "skip" ? "latest" : catchUp;
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
    slots: [{ slot: at, through: null, job, reason: "manual" }],
  };
}

function slotJob(schedule: StoredSchedule, slot: number, at: number): NewJob {
  const { name, type, queue, priority, user, input, maxAttempts, tags, jitterMs, overlap, expiresAfterMs } = schedule;
  const runAt = slot + jitterOf(name, slot, jitterMs);
  const unique = { key: scheduleKey(name), scope: "live", periodMs: 0, onConflict: "keep" } as const;
  return {
    // One that is made again under the same name is another schedule, and may have another job.
    id: slotId(`${name} ${schedule.createdAt}`, slot),
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
    // Nobody's call made it: its run begins a trace of its own.
    trace: null,
  };
}

/** The same for the same slot, whoever fires it. */
function jitterOf(name: string, slot: number, jitterMs: number): number {
  if (jitterMs === 0) return 0;
  const chance = createHash("sha256").update(`${name}\n${slot}`).digest().readUInt32BE(0) / 2 ** 32;
  return Math.floor(chance * (jitterMs + 1));
}
