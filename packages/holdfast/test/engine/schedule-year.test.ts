import { holdfast, job } from "holdfast";
import { fakeClock } from "holdfast/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { DAY, HOUR, MINUTE, slotsMade } from "./schedule-scene.js";

const nothing = job({ type: "nothing", run() {} });
const FROM = Date.UTC(2026, 0, 1);
const TO = Date.UTC(2027, 0, 1);

interface Shown {
  at: number;
  day: string;
  time: string;
  weekday: string;
}
const years = new Map<string, Shown[]>();

/** The wall clock in the zone, minute by minute through the year. */
function wallClock(zone: string): Shown[] {
  const known = years.get(zone);
  if (known !== undefined) return known;
  const shown: Shown[] = [];
  const format = new Intl.DateTimeFormat("sv-SE", {
    timeZone: zone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
  });
  const weekdays = new Intl.DateTimeFormat("en-US", { timeZone: zone, weekday: "short" });
  for (let hour = FROM; hour < TO; hour += HOUR) {
    const [day = "", time = ""] = format.format(hour).split(" ");
    const weekday = weekdays.format(hour);
    // Both zones differ from UTC by whole hours, and change at whole hours.
    for (let minute = 0; minute < 60; minute++) {
      const wall = `${time.slice(0, 3)}${String(minute).padStart(2, "0")}`;
      shown.push({ at: hour + minute * MINUTE, day, weekday, time: wall });
    }
  }
  years.set(zone, shown);
  return shown;
}

/** Daily at 02:30: at the clock change if that time is skipped, and once if it occurs twice. */
function dailyAtHalfPastTwo(zone: string): number[] {
  const slots = new Map<string, number>();
  let before = "";
  for (const { at, day, time } of wallClock(zone)) {
    const jumpedOver = before === "01:59" && time === "03:00";
    if ((time === "02:30" || jumpedOver) && !slots.has(day)) slots.set(day, at);
    before = time;
  }
  return [...slots.values()];
}

/** Every twenty minutes. */
function everyTwentyMinutes(zone: string): number[] {
  return wallClock(zone)
    .filter(({ time }) => /:(00|20|40)$/.test(time))
    .map(({ at }) => at);
}

/** At 01:00 on the last day of each month and every Sunday; once if it occurs twice. */
function lastDaysAndSundays(zone: string): number[] {
  const shown = new Map<string, { at: number; weekday: string }>();
  for (const { at, day, time, weekday } of wallClock(zone)) {
    if (time === "01:00" && !shown.has(day)) shown.set(day, { at, weekday });
  }
  const isLast = (day: string): boolean => new Date(Date.parse(`${day}T00:00:00Z`) + DAY).getUTCDate() === 1;
  return [...shown].filter(([day, { weekday }]) => weekday === "Sun" || isLast(day)).map(([, { at }]) => at);
}

const PATTERNS = [
  ["30 2 * * *", dailyAtHalfPastTwo],
  ["*/20 * * * *", everyTwentyMinutes],
  ["0 1 L * SUN", lastDaysAndSundays],
] as const;

describe.each(["America/New_York", "Europe/Berlin"])("C-11 C-12 a year in %s through the scheduler", (zone) => {
  it.each(PATTERNS)(
    "%s: a job for each slot that the clock on the wall has, and for no other",
    async (cron, oracle) => {
      const clock = fakeClock(FROM - 1);
      const hf = await holdfast({ store: "sqlite::memory:", jobs: [nothing], clock, logger: false });
      onTestFinished(() => hf.close());
      await hf.schedule("year", { job: nothing, cron, timezone: zone, catchUp: { all: 100 } });
      while (clock.now() < TO - 1) {
        clock.setWall(clock.now() + 6 * HOUR);
        await hf.schedules.fireDue();
      }
      const expected = oracle(zone).map((slot) => new Date(slot));
      expect(expected.length).toBeGreaterThan(50);
      expect(await slotsMade(hf, "year")).toEqual(expected);
    },
  );
});

it("C-12 a worker's scheduler follows the wall clock through clock changes", async () => {
  for (const [from, zone] of [
    [Date.UTC(2026, 2, 8, 4), "America/New_York"],
    [Date.UTC(2026, 9, 24, 22), "Europe/Berlin"],
  ] as const) {
    const clock = fakeClock(from - 1);
    const hf = await holdfast({
      store: "sqlite::memory:",
      jobs: [nothing],
      clock,
      logger: false,
      scheduler: { tick: "10m" },
      random: () => 0.5,
    });
    for (const [cron] of PATTERNS) await hf.schedule(cron, { job: nothing, cron, timezone: zone });
    hf.work({ poll: "10m" });
    await clock.advance("6h");
    for (const [cron, oracle] of PATTERNS) {
      const expected = oracle(zone).filter((slot) => slot >= from && slot < from + 6 * HOUR);
      expect(await slotsMade(hf, cron)).toEqual(expected.map((slot) => new Date(slot)));
    }
    await hf.close();
  }
});
