import type { CronPattern } from "./cron.js";
import type { Zone } from "./zone.js";

/** The next run of a schedule that has ended: no slot comes any more. */
export const NEVER: number = Number.MAX_SAFE_INTEGER;
/** Why a slot was skipped: a run of its schedule was not over. */
export const OVERLAP = "overlap";

/**
 * What a slot came to, by what the store answered to the insert of its job: the job, or who held its key. A job that the
 * schema refuses now it will refuse tomorrow: the slot is kept without one, and the schedule goes on.
 */
export function slotAnswer<Reason>(
  job: string,
  inserted: { status: "inserted" } | { of: string } | { error: string },
  reason: Reason,
): { job: string | null; heldBy: string | null; reason: Reason | typeof OVERLAP | `refused: ${string}` } {
  if ("error" in inserted) return { job: null, heldBy: null, reason: `refused: ${inserted.error}` };
  const of = "of" in inserted ? inserted.of : job;
  return of === job ? { job, heldBy: null, reason } : { job: null, heldBy: of, reason: OVERLAP };
}

/** When a schedule runs: by the calendar or at an interval, perhaps from and until an instant. */
export type Timing = (CronTiming | IntervalTiming) & {
  /** No slot before this instant. */
  startAt: number | null;
  /** No slot at or after this instant. */
  endAt: number | null;
};
export interface CronTiming {
  cron: CronPattern;
  zone: Zone;
}
/** Slots lie whole intervals away from `startAt`, or else from 1970: no restart, no delay and no process shifts them. */
export interface IntervalTiming {
  everyMs: number;
}

/** The first slot after this instant, or null if none comes any more. */
export function nextSlot(timing: Timing, after: number): number | null {
  const { startAt, endAt } = timing;
  const from = startAt === null ? after : Math.max(after, startAt - 1);
  const slot = "cron" in timing ? nextMatch(timing, from) : nextStep(timing.everyMs, startAt ?? 0, from);
  return slot === null || (endAt !== null && slot >= endAt) ? null : slot;
}

function nextStep(everyMs: number, anchor: number, after: number): number {
  return anchor + (Math.floor((after - anchor) / everyMs) + 1) * everyMs;
}

// No zone has ever set its clocks back by more than this, days skipped at the date line aside.
const LONGEST_REPEAT_MS = 3 * 3_600_000;
const DAY_MS = 86_400_000;

/**
 * Walks from one change of the clocks to the next. Between two changes the wall clock runs like any other, and the
 * pattern alone decides. At a change the rule does:
 *
 * - clocks go forward: a named time that was skipped runs at the instant of the change; a repetition has no match there;
 * - clocks go back: named times that come again have had their run; a repetition goes on with the wall clock.
 */
function nextMatch({ cron, zone }: CronTiming, after: number): number | null {
  let at = after;
  let wall = after + zone.span(after).offsetMs;
  if (cron.namesTimes) {
    let earlier = zone.span(after - LONGEST_REPEAT_MS);
    // The table of a zone may end anywhere; only a change of the offset is a change of the clocks.
    for (let next = earlier; next.until <= after && next.offsetMs === earlier.offsetMs;) {
      earlier = next;
      next = zone.span(next.until);
    }
    // In a repeated hour: what the wall clock has shown before has had its run.
    if (earlier.until <= after) wall = Math.max(wall, earlier.until + earlier.offsetMs - 1);
  }
  for (;;) {
    const { offsetMs, until } = zone.span(at);
    const match = cron.next(wall);
    if (match === null) return null;
    if (match - offsetMs < until) return match - offsetMs;
    // Changes far from either end of the wait (for 29 February, say) decide nothing, and finding them takes time.
    if (until - at > LONGEST_REPEAT_MS && match - offsetMs - until > 3 * DAY_MS) {
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

/** The last slot at or before `until`, given one that is so. */
export function lastSlot(timing: Timing, known: number, until: number): number {
  let low = known;
  // Looking back in growing steps first: the slot sought is usually one of the last.
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

/** What to do about slots that were missed while nothing ran: none, the latest only, or the newest so many. */
export type CatchUp = "skip" | "latest" | { all: number };

/** What a look at a due schedule comes to. */
export interface DuePlan {
  /** Slots that become jobs, oldest first. */
  slots: number[];
  /** The stretch of slots that do not. */
  missed: { first: number; last: number } | null;
  /** The slot after all these; null if none comes any more. */
  next: number | null;
}

/** Decides over the slots from `first` (the earliest one open) up to now. A slot is on time for `lateMs`. */
export function planDue(
  timing: Timing,
  { first, now, catchUp, lateMs }: { first: number; now: number; catchUp: CatchUp; lateMs: number },
): DuePlan {
  const latest = lastSlot(timing, first, now);
  const most = catchUp === "latest" ? 1 : catchUp === "skip" ? (now - latest <= lateMs ? 1 : 0) : catchUp.all;
  const slots = newestSlots(timing, first, latest, most);
  const oldest = slots[0];
  const missed =
    oldest === first ? null : { first, last: oldest === undefined ? latest : lastSlot(timing, first, oldest - 1) };
  return { slots, missed, next: nextSlot(timing, latest) };
}

/** The newest so many slots from `first` to `latest`, oldest first. Looks back in growing steps until it has them. */
function newestSlots(timing: Timing, first: number, latest: number, most: number): number[] {
  if (most === 0) return [];
  if (most === 1) return [latest];
  for (let step = most * 1_000; ; step *= 4) {
    const from = Math.max(first, latest - step);
    const slots: number[] = [];
    for (let slot = nextSlot(timing, from - 1); slot !== null && slot <= latest; slot = nextSlot(timing, slot)) {
      slots.push(slot);
      // A step is four times the one before, and so are the slots in it: more than these are never kept.
      if (slots.length >= 8 * most) slots.splice(0, 4 * most);
    }
    if (slots.length >= most || from === first) return slots.slice(-most);
  }
}
