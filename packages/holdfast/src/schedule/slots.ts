import type { CronPattern } from "./cron.js";
import type { Zone } from "./zone.js";

/** The next run of a schedule that has no further slots. */
export const NEVER: number = Number.MAX_SAFE_INTEGER;
/** Why a slot was skipped: an earlier job of the schedule had not finished. */
export const OVERLAP = "overlap";

/**
 * The result of a slot, from the insert result of its job: the job, or the job that holds its unique key. If the job cannot be
 * stored, a retry would fail too, so the slot is stored without a job and the schedule continues.
 */
export function slotResult<Reason>(
  job: string,
  inserted: { status: "inserted" } | { of: string } | { error: string },
  reason: Reason,
): { job: string | null; heldBy: string | null; reason: Reason | typeof OVERLAP | `refused: ${string}` } {
  if ("error" in inserted) return { job: null, heldBy: null, reason: `refused: ${inserted.error}` };
  const of = "of" in inserted ? inserted.of : job;
  return of === job ? { job, heldBy: null, reason } : { job: null, heldBy: of, reason: OVERLAP };
}

/** When a schedule runs: by a cron pattern or at an interval, optionally between two times. */
export type Timing = (CronTiming | IntervalTiming) & {
  /** No slot is before this time. */
  startAt: number | null;
  /** No slot is at or after this time. */
  endAt: number | null;
};
export interface CronTiming {
  cron: CronPattern;
  zone: Zone;
}
/** Slots are multiples of the interval after `startAt`, or after 1970. So restarts and delays do not shift them. */
export interface IntervalTiming {
  everyMs: number;
}

/** The first slot after this time, or null if there is none. */
export function nextSlot(timing: Timing, after: number): number | null {
  const { startAt, endAt } = timing;
  const from = startAt === null ? after : Math.max(after, startAt - 1);
  const slot = "cron" in timing ? nextMatch(timing, from) : nextStep(timing.everyMs, startAt ?? 0, from);
  return slot === null || (endAt !== null && slot >= endAt) ? null : slot;
}

function nextStep(everyMs: number, anchor: number, after: number): number {
  return anchor + (Math.floor((after - anchor) / everyMs) + 1) * everyMs;
}

// No zone has ever set its clocks back by more than this, except for moves across the date line.
const MAX_REPEAT_MS = 3 * 3_600_000;
const DAY_MS = 86_400_000;

/**
 * Finds the next match, one clock change at a time. Between two changes, the pattern is matched against the wall clock. At a change:
 *
 * - Clocks go forward: a fixed time that was skipped runs at the moment of the change. A repeating pattern has no match there.
 * - Clocks go back: fixed times in the repeated hour do not run again. A repeating pattern follows the wall clock.
 */
function nextMatch({ cron, zone }: CronTiming, after: number): number | null {
  let at = after;
  let wall = after + zone.span(after).offsetMs;
  if (cron.namesTimes) {
    let earlier = zone.span(after - MAX_REPEAT_MS);
    // Spans may also end without a clock change; only a different offset is one.
    for (let next = earlier; next.until <= after && next.offsetMs === earlier.offsetMs;) {
      earlier = next;
      next = zone.span(next.until);
    }
    // In a repeated hour: wall-clock times shown before the change have already run.
    if (earlier.until <= after) wall = Math.max(wall, earlier.until + earlier.offsetMs - 1);
  }
  for (;;) {
    const { offsetMs, until } = zone.span(at);
    const match = cron.next(wall);
    if (match === null) return null;
    if (match - offsetMs < until) return match - offsetMs;
    // If the match is far away (29 February, for example), skip the clock changes in between: they have no effect and finding
    // them takes time.
    if (until - at > MAX_REPEAT_MS && match - offsetMs - until > 3 * DAY_MS) {
      at = match - offsetMs - 2 * DAY_MS;
      continue;
    }
    const wallBefore = until + offsetMs;
    const wallAfter = until + zone.span(until).offsetMs;
    if (cron.namesTimes && match < wallAfter) return until;
    wall = cron.namesTimes ? Math.max(wall, wallBefore - 1, wallAfter - 1) : wallAfter - 1;
    at = until;
  }
}

/** The last slot at or before `until`. `known` must be such a slot. */
export function lastSlot(timing: Timing, known: number, until: number): number {
  let low = known;
  // First searches backwards in growing steps, because the slot is usually close to `until`.
  for (let step = 1_000; until - step > low; step *= 4) {
    const slot = nextSlot(timing, until - step);
    if (slot !== null && slot <= until) {
      low = slot;
      break;
    }
  }
  let high = until;
  for (;;) {
    const following = nextSlot(timing, low);
    if (following === null || following > until) return low;
    low = following;
    const middle = nextSlot(timing, Math.floor((low + high) / 2));
    if (middle !== null && middle <= until) low = middle;
    else high = Math.floor((low + high) / 2);
  }
}

/** Which missed slots become jobs after downtime: none, only the latest, or up to `all` of the newest. */
export type CatchUp = "skip" | "latest" | { all: number };

/** What to do with the due slots of a schedule. */
export interface DuePlan {
  /** Slots that become jobs, oldest first. */
  slots: number[];
  /** The range of slots that do not. */
  missed: { first: number; last: number } | null;
  /** The first slot after them; null if there is none. */
  next: number | null;
}

/** Decides about the slots from `first` (the earliest unprocessed one) until now. A slot is on time for `lateMs`. */
export function planDue(
  timing: Timing,
  { first, now, catchUp, lateMs }: { first: number; now: number; catchUp: CatchUp; lateMs: number },
): DuePlan {
  const latest = lastSlot(timing, first, now);
  const max = catchUp === "latest" ? 1 : catchUp === "skip" ? (now - latest <= lateMs ? 1 : 0) : catchUp.all;
  const slots = newestSlots(timing, first, latest, max);
  const oldest = slots[0];
  const missed =
    oldest === first ? null : { first, last: oldest === undefined ? latest : lastSlot(timing, first, oldest - 1) };
  return { slots, missed, next: nextSlot(timing, latest) };
}

/** The newest `max` slots from `first` to `latest`, oldest first. Searches backwards in growing steps. */
function newestSlots(timing: Timing, first: number, latest: number, max: number): number[] {
  if (max === 0) return [];
  if (max === 1) return [latest];
  for (let step = max * 1_000; ; step *= 4) {
    const from = Math.max(first, latest - step);
    const slots: number[] = [];
    for (let slot = nextSlot(timing, from - 1); slot !== null && slot <= latest; slot = nextSlot(timing, slot)) {
      slots.push(slot);
      // Bounds the memory: a step may contain many more slots than needed.
      if (slots.length >= 8 * max) slots.splice(0, 4 * max);
    }
    if (slots.length >= max || from === first) return slots.slice(-max);
  }
}
