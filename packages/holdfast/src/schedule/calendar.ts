import type { Zone } from "./zone.js";

/** What a wall clock counts by. A week begins on Monday. */
export const CALENDAR_UNITS = ["hour", "day", "week", "month", "year"] as const;
export type CalendarUnit = (typeof CALENDAR_UNITS)[number];

/** A stretch of a zone's calendar: one hour, one day, … */
export interface CalendarPeriod {
  /** The same for every instant in it, and for no other: `day 2026-03-29 Europe/Berlin`. */
  name: string;
  /** How long the wall clock says that it still lasts; a change of the clocks in it makes that an hour more or less. */
  leftMs: number;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The period an instant lies in. The hour that is shown twice in autumn is two. */
export function calendarPeriod(unit: CalendarUnit, zone: Zone, at: number): CalendarPeriod {
  const { offsetMs } = zone.span(at);
  const wall = at + offsetMs;
  const [start, end] = boundsOf(unit, wall);
  const shown = new Date(start).toISOString().slice(0, unit === "hour" ? 13 : 10);
  const twice = unit === "hour" ? ` ${offsetMs / 60_000}` : "";
  return { name: `${unit} ${shown}${twice} ${zone.name}`, leftMs: end - wall };
}

/** On a wall clock, where every day has 24 hours. */
function boundsOf(unit: CalendarUnit, wall: number): [start: number, end: number] {
  const date = new Date(wall);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  const hour = Math.floor(wall / HOUR_MS) * HOUR_MS;
  const day = Math.floor(wall / DAY_MS) * DAY_MS;
  const monday = day - ((date.getUTCDay() + 6) % 7) * DAY_MS;
  switch (unit) {
    case "hour":
      return [hour, hour + HOUR_MS];
    case "day":
      return [day, day + DAY_MS];
    case "week":
      return [monday, monday + 7 * DAY_MS];
    case "month":
      return [Date.UTC(year, month), Date.UTC(year, month + 1)];
    case "year":
      return [Date.UTC(year, 0), Date.UTC(year + 1, 0)];
  }
}
