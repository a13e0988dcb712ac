import { DAY_S, readPattern, type Pattern } from "./oracle-pattern.js";

/**
 * Finds the slots of cron patterns in time zones by brute force: for every step of real time, it reads the zone's wall clock
 * and checks whether the pattern matches.
 */

/** The wall-clock times of a zone in a period, for every step. Wall times are counted in steps, too. */
export interface WallClock {
  zone: string;
  from: number;
  to: number;
  stepMs: number;
  /** A midnight before all of them, as if it were UTC. Wall times are counted from here. */
  midnight: number;
  /** The wall time at each step of real time. */
  shown: Int32Array;
  /** For each wall time, the first real time when it is shown or skipped. */
  reached: Float64Array;
  /** Cached results by pattern. */
  slots: Map<string, readonly number[]>;
}

const HOUR_MS = 3_600_000;
export const MINUTE_MS = 60_000;
export const DAY_MS: number = DAY_S * 1_000;
const readers = new Map<string, Intl.DateTimeFormat>();

/** The wall-clock time in a zone, as if it were UTC. */
export function wallAt(zone: string, at: number): number {
  let reader = readers.get(zone);
  if (reader === undefined) {
    // The Swedish format is like ISO: "2026-03-29 03:00:00".
    reader = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
    readers.set(zone, reader);
  }
  return Date.parse(`${reader.format(at).replace(" ", "T")}Z`);
}

export function readClock(zone: string, from: number, to: number, stepMs: number): WallClock {
  const shown = new Int32Array((to - from) / stepMs);
  const stepsInHour = HOUR_MS / stepMs;
  let wall = wallAt(zone, from);
  // One more day, for clocks that are set back across midnight.
  const midnight = (Math.floor(wall / DAY_MS) - 1) * DAY_MS;
  for (let first = 0; first < shown.length; first += stepsInHour) {
    const at = from + first * stepMs;
    const wallAfterHour = wallAt(zone, at + HOUR_MS);
    // No clock changes twice within an hour: if it advanced by an hour, it did not change.
    const undisturbed = wallAfterHour - wall === HOUR_MS;
    for (let step = 0; step < stepsInHour && first + step < shown.length; step++) {
      const wallAtStep = undisturbed ? wall + step * stepMs : wallAt(zone, at + step * stepMs);
      shown[first + step] = (wallAtStep - midnight) / stepMs;
    }
    wall = wallAfterHour;
  }
  return { zone, from, to, stepMs, midnight, shown, reached: whenReached(shown, from, stepMs), slots: new Map() };
}

function whenReached(shown: Int32Array, from: number, stepMs: number): Float64Array {
  let latest = 0;
  for (const time of shown) latest = Math.max(latest, time);
  const reached = new Float64Array(latest + 1).fill(Number.NaN);
  for (let step = 0; step < shown.length; step++) {
    const time = shown[step]!;
    if (Number.isNaN(reached[time])) reached[time] = from + step * stepMs;
  }
  // A skipped time counts as reached when a later time is reached.
  for (let time = latest - 1; time >= shown[0]!; time--) {
    if (Number.isNaN(reached[time])) reached[time] = reached[time + 1]!;
  }
  return reached;
}

export interface Change {
  at: number;
  /** The expected wall-clock time, as if it were UTC. */
  due: number;
  /** The actual one. */
  came: number;
}

/** When the clocks were changed. */
export function changesOf({ from, stepMs, shown, midnight }: WallClock): Change[] {
  const changes: Change[] = [];
  for (let step = 1; step < shown.length; step++) {
    const [due, came] = [shown[step - 1]! + 1, shown[step]!];
    if (due === came) continue;
    changes.push({ at: from + step * stepMs, due: midnight + due * stepMs, came: midnight + came * stepMs });
  }
  return changes;
}

/**
 * Every slot in the clock's period. A repeating pattern has one whenever the clock shows a matching time, so twice in a
 * repeated hour and never in a skipped one. A fixed time has one when it is first reached.
 */
export function slotsOf(text: string, clock: WallClock): readonly number[] {
  const known = clock.slots.get(text);
  if (known !== undefined) return known;
  const slots = findSlots(text, clock);
  clock.slots.set(text, slots);
  return slots;
}

function findSlots(text: string, clock: WallClock): number[] {
  const { from, stepMs, shown, reached } = clock;
  const pattern = readPattern(text);
  const fits = fittingTimes(pattern, clock);
  const slots: number[] = [];
  if (pattern.namesTimes) {
    for (let time = shown[0]!; time < reached.length; time++) {
      // Times skipped together are reached together and make one slot.
      if (fits[time] === 1 && slots.at(-1) !== reached[time]) slots.push(reached[time]!);
    }
  } else {
    for (let step = 0; step < shown.length; step++) {
      if (fits[shown[step]!] === 1) slots.push(from + step * stepMs);
    }
  }
  return slots;
}

/** For each wall time of the clock, 1 if it matches the pattern. */
function fittingTimes({ times, fitsDay }: Pattern, { stepMs, midnight, reached }: WallClock): Uint8Array {
  const steps = times.map((second) => (second * 1_000) / stepMs);
  if (!steps.every(Number.isInteger)) throw new Error("a pattern with seconds needs a clock that is read every second");
  const fits = new Uint8Array(reached.length);
  const stepsInDay = DAY_MS / stepMs;
  for (let start = 0; start < fits.length; start += stepsInDay) {
    if (!fitsDay((midnight + start * stepMs) / DAY_MS)) continue;
    for (const step of steps) fits[start + step] = 1;
  }
  return fits;
}

/** The next matches after a wall-clock time, up to `until`, on a clock without changes. */
export function matchesAfter(text: string, wallMs: number, until: number, count: number): number[] {
  const { times, fitsDay } = readPattern(text);
  const matches: number[] = [];
  for (let day = Math.floor(wallMs / DAY_MS); day * DAY_MS <= until; day++) {
    if (!fitsDay(day)) continue;
    for (const second of times) {
      const match = day * DAY_MS + second * 1_000;
      if (match > until || matches.length === count) return matches;
      if (match > wallMs) matches.push(match);
    }
  }
  return matches;
}
