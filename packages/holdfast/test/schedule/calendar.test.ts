import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CALENDAR_UNITS, calendarPeriod, type CalendarUnit } from "#src/schedule/calendar.js";
import { readZone } from "#src/schedule/zone.js";

const HOUR = 3_600_000;
const nameAt = (unit: CalendarUnit, zone: string, time: string): string =>
  calendarPeriod(unit, readZone(zone), Date.parse(time)).name;

describe("a calendar period", () => {
  it.each<[CalendarUnit, string, string, string]>([
    ["hour", "UTC", "2026-03-29T11:59:59.999Z", "hour 2026-03-29T11 0 UTC"],
    ["hour", "Asia/Kolkata", "2026-03-29T11:45:00Z", "hour 2026-03-29T17 330 Asia/Kolkata"],
    ["day", "UTC", "2026-03-28T23:30:00Z", "day 2026-03-28 UTC"],
    ["day", "Europe/Berlin", "2026-03-28T23:30:00Z", "day 2026-03-29 Europe/Berlin"],
    ["day", "America/New_York", "2026-03-29T03:59:59Z", "day 2026-03-28 America/New_York"],
    ["week", "UTC", "2026-03-29T23:59:59Z", "week 2026-03-23 UTC"],
    ["week", "UTC", "2026-03-30T00:00:00Z", "week 2026-03-30 UTC"],
    ["week", "UTC", "2027-01-01T00:00:00Z", "week 2026-12-28 UTC"],
    ["month", "Europe/Berlin", "2026-02-28T23:00:00Z", "month 2026-03-01 Europe/Berlin"],
    ["year", "Pacific/Auckland", "2026-12-31T11:00:00Z", "year 2027-01-01 Pacific/Auckland"],
  ])("is the %s of %s at %s", (unit, zone, time, name) => {
    expect(nameAt(unit, zone, time)).toBe(name);
  });

  it.each([
    ["23 hours", "2026-03-28T23:00:00Z", 23],
    ["25 hours", "2026-10-24T22:00:00Z", 25],
  ])("of a day with %s has the right length", (_what, start, hours) => {
    const instants = Array.from({ length: hours }, (_, n) => new Date(Date.parse(start) + n * HOUR).toISOString());
    const names = (unit: CalendarUnit): Set<string> => new Set(instants.map((at) => nameAt(unit, "Europe/Berlin", at)));
    expect(names("day").size).toBe(1);
    expect(names("hour").size).toBe(hours);
    const end = new Date(Date.parse(start) + hours * HOUR);
    expect(names("day")).not.toContain(nameAt("day", "Europe/Berlin", end.toISOString()));
    const before = new Date(Date.parse(start) - 1);
    expect(names("day")).not.toContain(nameAt("day", "Europe/Berlin", before.toISOString()));
  });

  it("of a day without midnight starts an hour later", () => {
    // In Beirut, clocks went from 00:00 to 01:00.
    expect(nameAt("day", "Asia/Beirut", "2025-03-29T21:59:59Z")).toBe("day 2025-03-29 Asia/Beirut");
    expect(nameAt("day", "Asia/Beirut", "2025-03-29T22:00:00Z")).toBe("day 2025-03-30 Asia/Beirut");
  });

  it("returns to the previous day if clocks do", () => {
    // In St. John's, clocks went from 00:01 back to 23:01 of the previous day.
    const days = ["02:30:00", "02:30:30", "02:31:00", "03:30:00"].map((time) =>
      nameAt("day", "America/St_Johns", `2010-11-07T${time}Z`).slice(4, 14),
    );
    expect(days).toEqual(["2010-11-07", "2010-11-07", "2010-11-06", "2010-11-07"]);
  });

  it("agrees with Intl in every zone", () => {
    const zone = fc.constantFrom(
      "Europe/Berlin",
      "America/New_York",
      "Asia/Kolkata",
      "Australia/Lord_Howe",
      "Pacific/Apia",
    );
    const at = fc.integer({ min: Date.UTC(2012, 0), max: Date.UTC(2035, 0) });
    fc.assert(
      fc.property(fc.constantFrom(...CALENDAR_UNITS), zone, at, (unit, timeZone, instant) => {
        const { name, leftMs } = calendarPeriod(unit, readZone(timeZone), instant);
        const shown = new Intl.DateTimeFormat("sv", { timeZone, dateStyle: "short" }).format(instant);
        if (unit === "day") expect(name).toBe(`day ${shown} ${timeZone}`);
        if (unit === "month") expect(name).toBe(`month ${shown.slice(0, 7)}-01 ${timeZone}`);
        const nameAfter = (ms: number): string => calendarPeriod(unit, readZone(timeZone), instant + ms).name;
        expect(nameAfter(leftMs + 2 * HOUR)).not.toBe(name);
        if (leftMs > 2 * HOUR) expect(nameAfter(leftMs - 2 * HOUR)).toBe(name);
      }),
    );
  });
});
