import type { Zone } from "./zone.js";

/** The units of the calendar. A week begins on Monday. */
export const CALENDAR_UNITS = ["hour", "day", "week", "month", "year"] as const;
export type CalendarUnit = (typeof CALENDAR_UNITS)[number];

/** A period of a zone's calendar: one hour, one day, … */
export interface CalendarPeriod {
  /** Unique per period: `day 2026-03-29 Europe/Berlin`. */
  name: string;
  /** The time left by the wall clock. If the clocks change within the period, the real time is an hour more or less. */
  leftMs: number;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** The period that contains a time. The repeated hour in autumn counts as two periods. */
export function calendarPeriod(unit: CalendarUnit, zone: Zone, at: number): CalendarPeriod {
  const { offsetMs } = zone.span(at);
  const wall = at + offsetMs;
  const [start, end] = boundsOf(unit, wall);
  const shown = new Date(start).toISOString().slice(0, unit === "hour" ? 13 : 10);
  const twice = unit === "hour" ? ` ${offsetMs / 60_000}` : "";
  return { name: `${unit} ${shown}${twice} ${zone.name}`, leftMs: end - wall };
}

/** In wall-clock time, where every day has 24 hours. */
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
