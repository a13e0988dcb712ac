import { cronFields, namesTimes, readValues } from "./cron-fields.js";
import { changeBetween, clockOf, longDate, offsetAt, zoneLabel } from "./zones.js";

/** What a change of clocks does to one of the next runs. */
export interface ClockNote {
  /** The run that it is about. */
  run: number;
  text: string;
}

// No zone has ever set its clocks back by more than this, except for moves across the date line.
const MAX_REPEAT_MS = 3 * 3_600_000;

/**
 * Finds the runs that a change of clocks concerns. The rules are the server's: a pattern with fixed times runs once for each time;
 * a pattern that repeats follows the wall clock.
 */
export function clockNotes(cron: string, zone: string, runs: readonly number[]): ClockNote[] {
  const times = timesIn(cron);
  if (times === null) return [];
  const notes = namesTimes(cron) ? fixedNotes : repeatedNotes;
  return notes(times, zone, runs);
}

type IsTime = (wall: number) => boolean;

/** Whether the pattern has this time of day. */
function timesIn(cron: string): IsTime | null {
  const fields = cronFields(cron);
  if (fields === null) return null;
  const [seconds, minutes, hours] = fields.slice(0, 3).map((field, at) => readValues(field, 0, at === 2 ? 23 : 59));
  if (!seconds || !minutes || !hours) return null;
  return (wall) => {
    const time = new Date(wall);
    return (
      hours.values.includes(time.getUTCHours()) &&
      minutes.values.includes(time.getUTCMinutes()) &&
      seconds.values.includes(time.getUTCSeconds())
    );
  };
}

function fixedNotes(isTime: IsTime, zone: string, runs: readonly number[]): ClockNote[] {
  return runs.flatMap((run) => {
    const [before, after] = [offsetAt(zone, run - 1_000), offsetAt(zone, run)];
    // Times that do not exist run at the instant of the change.
    if (after > before) {
      const missing = timesBetween(isTime, run + before, run + after);
      if (missing.length === 0) return [];
      const slots = missing.length === 1 ? "this slot runs" : "these slots run";
      const text = `${changes(zone, run, before, after)}. ${missing.join(" and ")} ${missing.length === 1 ? "does" : "do"} not exist, so ${slots} at ${clockOf(run + after)}, once.`;
      return [{ run, text }];
    }
    const later = offsetAt(zone, run + MAX_REPEAT_MS);
    if (later >= after) return [];
    const change = changeBetween(zone, run, run + MAX_REPEAT_MS);
    if (run + after < change + later) return [];
    const text = `${changes(zone, change, after, later)}. ${clockOf(run + after)} occurs twice, and this slot runs the first time, once.`;
    return [{ run, text }];
  });
}

function repeatedNotes(isTime: IsTime, zone: string, runs: readonly number[]): ClockNote[] {
  const notes: ClockNote[] = [];
  for (let at = 1; at < runs.length; at++) {
    const [earlier, run] = [runs[at - 1] as number, runs[at] as number];
    const [before, after] = [offsetAt(zone, earlier), offsetAt(zone, run)];
    if (before === after) continue;
    const change = changeBetween(zone, earlier, run);
    const start = changes(zone, change, before, after);
    const [from, to] = [clockOf(change + before), clockOf(change + after)];
    if (after > before) {
      if (timesBetween(isTime, change + before, change + after).length > 0)
        notes.push({
          run,
          text: `${start}. No wall clock shows a time between ${from} and ${to}, so no slot is there.`,
        });
    } else if (timesBetween(isTime, change + after, change + before).length > 0) {
      notes.push({ run, text: `${start}. Times from ${to} to ${from} occur twice, and slots run both times.` });
    }
  }
  return notes;
}

const MAX_LISTED = 3;

/** Up to three times of the pattern in a range of wall-clock times. */
function timesBetween(isTime: IsTime, from: number, to: number): string[] {
  const found: string[] = [];
  for (let wall = from; wall < to && found.length < MAX_LISTED; wall += 1_000) {
    if (isTime(wall)) found.push(clockOf(wall));
  }
  return found;
}

function changes(zone: string, at: number, before: number, after: number): string {
  const back = after < before ? "back " : "";
  return `On ${longDate(zone, at)} clocks in ${zoneLabel(zone)} go ${back}from ${clockOf(at + before)} to ${clockOf(at + after)}`;
}
