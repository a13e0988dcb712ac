import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readCron } from "#src/schedule/cron.js";
import { nextSlot, type Timing } from "#src/schedule/slots.js";
import { readZone, type Zone } from "#src/schedule/zone.js";
import { changesOf, DAY_MS, MINUTE_MS, readClock, slotsOf, type WallClock } from "./oracle.js";

const HOUR_MS = 3_600_000;

/** Zones, each with the tested year. */
const ZONES: [zone: string, year: number][] = [
  ["UTC", 2026],
  ["Asia/Kolkata", 2026],
  ["America/New_York", 2026],
  ["America/St_Johns", 2026],
  ["Europe/Berlin", 2026],
  // Changed by 30 minutes.
  ["Australia/Lord_Howe", 2026],
  // Changed by two hours.
  ["Antarctica/Troll", 2026],
  // 45 minutes off the hour.
  ["Pacific/Chatham", 2026],
  // The hour after midnight is skipped, so a day starts at 01:00.
  ["Africa/Cairo", 2026],
  ["Asia/Beirut", 2026],
  ["America/Havana", 2026],
  // Goes back for Ramadan and forward after it.
  ["Africa/Casablanca", 2026],
  // Moved over the date line: 30 December 2011 was skipped.
  ["Pacific/Apia", 2011],
];

const CHANGING_ZONES = ZONES.filter(([zone]) => zone !== "UTC" && zone !== "Asia/Kolkata");

const FEW_TIMES_A_DAY = [
  ..."@yearly @annually @monthly @weekly @daily @midnight".split(" "),
  "0 8 * * *",
  "30 2 * * *",
  "0 0 * * *",
  "59 23 * * *",
  "15,45 6,18 * * *",
  "0 8-18/5 * * MON-FRI",
  "0 */6 * * *",
  "0 8 31 * *",
  "0 8 30 * *",
  "0 8 L * *",
  "0 8 1,15,L * *",
  "0 8 LW * *",
  "0 8 15W * *",
  "0 8 1W,31W * *",
  "0 8 10-20/5 JAN,jun-Aug,12 *",
  "0 8 1 1-12/3 *",
  "0 8 * * MON#1",
  "0 8 * * FRI#L",
  "0 8 * * 5L",
  "0 8 * * TUE#2,THU#4",
  "0 8 * * SAT-SUN",
  "0 8 * * 7",
  "0 8 ? * 1-5/2",
  "0 8 13 * FRI",
  "0 8 13 * +FRI",
  "0 8 8-14 * +SUN",
  "0 8 L * +MON-FRI",
  "0 0 29 2 *",
];

const MANY_TIMES_A_DAY = [
  "@hourly",
  "* * * * *",
  "*/7 * * * *",
  "0,30 * * * *",
  "* 0-3 * * *",
  "*/20 1-23/2 * * *",
  "5 */2 * * *",
  // These two have fixed times, but as many.
  "0-59 0-23 * * *",
  "0,30 0-23 * * *",
];

function cronTiming(pattern: string, zone: string | Zone): Timing {
  return {
    cron: readCron(pattern),
    zone: typeof zone === "string" ? readZone(zone) : zone,
    startAt: null,
    endAt: null,
  };
}

function walk(timing: Timing, from: number, to: number): number[] {
  const slots: number[] = [];
  for (let slot = nextSlot(timing, from - 1); slot !== null && slot < to; slot = nextSlot(timing, slot)) {
    // Fails instead of looping forever.
    if (slot <= (slots.at(-1) ?? from - 1)) throw new Error(`after ${iso(slots.at(-1))} came ${iso(slot)}`);
    slots.push(slot);
  }
  return slots;
}

/** The first difference between nextSlot and the oracle, for each pattern that has one. */
function disagreements(patterns: string[], clock: WallClock, zone = readZone(clock.zone)): string[] {
  return patterns.flatMap((pattern) => {
    const expected = slotsOf(pattern, clock);
    const actual = walk(cronTiming(pattern, zone), clock.from, clock.to);
    const most = Math.max(expected.length, actual.length);
    const first = Array.from({ length: most }).findIndex((_, index) => expected[index] !== actual[index]);
    if (first < 0) return [];
    return [`${pattern} in ${clock.zone}: the oracle has ${iso(expected[first])}, nextSlot ${iso(actual[first])}`];
  });
}

function iso(at: number | null | undefined): string {
  return at == null ? "nothing" : new Date(at).toISOString();
}

const years = new Map<string, WallClock>();
function yearOf(zone: string, year: number): WallClock {
  const clock = years.get(zone) ?? readClock(zone, Date.UTC(year, 0, 1), Date.UTC(year + 1, 0, 1), MINUTE_MS);
  years.set(zone, clock);
  return clock;
}

/** A clock for a period around each change. */
function aroundChanges(year: WallClock, awayMs: number, stepMs: number): WallClock[] {
  return changesOf(year).map(({ at }) => readClock(year.zone, at - awayMs, at + awayMs, stepMs));
}

/** The minutes at, just before and just after the borders of the skipped or repeated hour. */
function minutesAtChange(clock: WallClock): Date[] {
  return changesOf(clock).flatMap(({ due, came }) => {
    const [first, end] = [Math.min(due, came), Math.max(due, came)];
    const inside = first + Math.floor((end - first) / 2 / MINUTE_MS) * MINUTE_MS;
    return [first, inside, end].flatMap((at) => [at - MINUTE_MS, at, at + MINUTE_MS]).map((at) => new Date(at));
  });
}

function patternsAtChange(clock: WallClock): string[] {
  const times = minutesAtChange(clock).map((date) => ({
    minute: date.getUTCMinutes(),
    hour: date.getUTCHours(),
    day: date.getUTCDate(),
    month: date.getUTCMonth() + 1,
    weekday: date.getUTCDay(),
  }));
  if (times.length === 0) return [];
  const minutes = [...new Set(times.map(({ minute }) => minute))].join();
  const hours = [...new Set(times.map(({ hour }) => hour))].join();
  return [
    `${minutes} ${hours} * * *`,
    `${minutes} * * * *`,
    `* ${hours} * * *`,
    `0-59/4 ${hours} * * *`,
    ...times.flatMap(({ minute, hour, day, month, weekday }) => [
      `${minute} ${hour} * * *`,
      `${minute} ${hour} ${day} ${month} *`,
      `${minute} ${hour} * * ${weekday}`,
      `${minute} * ${day} ${month} *`,
      `* ${hour} ${day} ${month} *`,
      `*/7 ${hour} * * ${weekday}`,
      `${minute} */3 * * *`,
    ]),
  ];
}

function patternsWithSecondsAtChange(clock: WallClock): string[] {
  return [
    "*/20 * * * * *",
    "7 */5 * * * *",
    "59 59 * * * *",
    "0,59 0-59/29 0-23 * * *",
    ...minutesAtChange(clock).flatMap((date) => {
      const [minute, hour] = [date.getUTCMinutes(), date.getUTCHours()];
      return [
        `0 ${minute} ${hour} * * *`,
        `59 ${minute} ${hour} * * *`,
        `0,1,30 ${minute} ${hour} * * *`,
        `* ${minute} ${hour} * * *`,
        `*/15 ${minute} * * * *`,
      ];
    }),
  ];
}

describe("C-11 when the clocks change", () => {
  /** The time of day in UTC of the slots within twelve hours. */
  const slotsAfter = (start: string, pattern: string, zone: string): string[] =>
    walk(cronTiming(pattern, zone), Date.parse(start), Date.parse(start) + 12 * HOUR_MS).map((at) =>
      iso(at).slice(11, 16),
    );

  it.each<[pattern: string, inUtc: string[], why: string]>([
    ["59 1 * * *", ["00:59"], "the last minute before the change"],
    ["0 2 * * *", ["01:00"], "skipped, so at the change"],
    ["30 2 * * *", ["01:00"], "skipped, so at the change"],
    ["0 3 * * *", ["01:00"], "the first minute after it"],
    ["0,30 2-3 * * *", ["01:00", "01:30"], "three fall on the change and are one"],
    ["0 8 * * *", ["06:00"], "summer time"],
    ["30 1-4 * * *", ["00:30", "01:00", "01:30", "02:30"], "one of four is skipped, and not dropped"],
    ["30 0-4/2 * * *", ["01:00", "02:30"], "half past midnight was yesterday in UTC"],
    ["*/30 2 * * *", [], "a repetition, and the hour never came"],
    ["*/30 1-3 * * *", ["00:00", "00:30", "01:00", "01:30"], "a repetition goes on with the wall clock"],
  ])("Berlin, 29 March 2026, 02:00 becomes 03:00: %s runs at %j UTC (%s)", (pattern, inUtc) => {
    expect(slotsAfter("2026-03-29T00:00Z", pattern, "Europe/Berlin")).toEqual(inUtc);
  });

  it.each<[pattern: string, inUtc: string[], why: string]>([
    ["0 2 * * *", ["00:00"], "the first of two"],
    ["30 2 * * *", ["00:30"], "the first of two"],
    ["0 3 * * *", ["02:00"], "there is only one"],
    ["30 2,3 * * *", ["00:30", "02:30"], "each once"],
    ["*/30 2 * * *", ["00:00", "00:30", "01:00", "01:30"], "a repetition runs in both hours"],
    ["0 */4,2 * * *", ["00:00", "01:00", "03:00", "07:00", "11:00"], "a repetition meets 02:00 twice"],
  ])("Berlin, 25 October 2026, 03:00 becomes 02:00: %s runs at %j UTC (%s)", (pattern, inUtc) => {
    expect(slotsAfter("2026-10-25T00:00Z", pattern, "Europe/Berlin")).toEqual(inUtc);
  });

  it("Cairo, 24 April 2026: runs at 01:00, there is no midnight", () => {
    expect(slotsAfter("2026-04-23T12:00Z", "0 0 * * *", "Africa/Cairo")).toEqual(["22:00"]);
  });

  it("Samoa, 30 December 2011: a skipped day runs once", () => {
    expect(slotsAfter("2011-12-30T00:00Z", "0 8,20 30 12 *", "Pacific/Apia")).toEqual(["10:00"]);
  });
});

describe("C-11 cron in time zones: nextSlot agrees with brute force", () => {
  it.each(ZONES)("in %s in %d, for patterns with few slots per day", (zone, year) => {
    expect(disagreements(FEW_TIMES_A_DAY, yearOf(zone, year))).toEqual([]);
  });

  it.each(CHANGING_ZONES)("in %s in %d, for frequent patterns around clock changes", (zone, year) => {
    for (const clock of aroundChanges(yearOf(zone, year), 1.5 * DAY_MS, MINUTE_MS)) {
      expect(disagreements(MANY_TIMES_A_DAY, clock)).toEqual([]);
    }
  });

  it.each(CHANGING_ZONES)("in %s in %d, at the minutes of each clock change", (zone, year) => {
    for (const clock of aroundChanges(yearOf(zone, year), 3 * DAY_MS, MINUTE_MS)) {
      expect(disagreements(patternsAtChange(clock), clock)).toEqual([]);
    }
  });

  // Clock changes before a distant match may be skipped, but not the one at the match.
  it.each(CHANGING_ZONES)("in %s in %d, at clock changes months ahead", (zone, year) => {
    const clock = yearOf(zone, year);
    const patterns = minutesAtChange(clock).flatMap((date) => {
      const [minute, hour] = [date.getUTCMinutes(), date.getUTCHours()];
      const day = `${date.getUTCDate()} ${date.getUTCMonth() + 1} *`;
      return [`${minute} ${hour} ${day}`, `${minute} * ${day}`, `* ${hour} ${day}`];
    });
    expect(disagreements(patterns, clock)).toEqual([]);
  });

  it.each(CHANGING_ZONES)("in %s in %d, to the second around clock changes", (zone, year) => {
    for (const clock of aroundChanges(yearOf(zone, year), 4 * HOUR_MS, 1_000)) {
      expect(disagreements(patternsWithSecondsAtChange(clock), clock)).toEqual([]);
    }
  });

  // Makes sure that the zones above have clock changes.
  it.each(CHANGING_ZONES)("%s has clock changes in %d", (zone, year) => {
    expect(changesOf(yearOf(zone, year))).toHaveLength(zone === "Pacific/Apia" ? 3 : 2);
  });

  it.each(ZONES)("in %s, on 29 February from 2026 to 2032", (zone) => {
    const clocks = Array.from({ length: 7 }, (_, index) =>
      readClock(zone, Date.UTC(2026 + index, 1, 24), Date.UTC(2026 + index, 2, 4), MINUTE_MS),
    );
    for (const pattern of [
      "0 0 29 2 *",
      "59 23 29 FEB *",
      "30 2 29 2 +SUN",
      "0 12 L 2 *",
      "0 12 LW 2 *",
      "0 12 29W 2 *",
    ]) {
      expect(walk(cronTiming(pattern, zone), Date.UTC(2026, 0, 1), Date.UTC(2033, 0, 1)).map(iso)).toEqual(
        clocks.flatMap((clock) => slotsOf(pattern, clock)).map(iso),
      );
    }
  });
});

function expectFirstAfter(pattern: string, clock: WallClock, after: number): void {
  const first = slotsOf(pattern, clock).find((slot) => slot > after);
  const slot = nextSlot(cronTiming(pattern, clock.zone), after);
  // The oracle has no data beyond its clock.
  const known = slot === null || slot >= clock.to ? undefined : slot;
  const what = `${pattern} in ${clock.zone} after ${iso(after)}`;
  expect(`${what}: ${iso(known)}`).toBe(`${what}: ${iso(first)}`);
}

describe("the slot after any time", () => {
  it.each(ZONES)("in %s in %d, is the first later slot", (zone, year) => {
    const clock = yearOf(zone, year);
    const anyInstant = fc.integer({ min: clock.from, max: clock.to - 1 });
    fc.assert(
      fc.property(fc.constantFrom(...FEW_TIMES_A_DAY), anyInstant, (pattern, after) =>
        expectFirstAfter(pattern, clock, after),
      ),
      { numRuns: 200 },
    );
  });

  it.each(CHANGING_ZONES)("in %s in %d, also in skipped and repeated hours", (zone, year) => {
    const awayMs = fc.integer({ min: -4 * HOUR_MS, max: 4 * HOUR_MS });
    const away = fc.oneof(
      awayMs,
      awayMs.map((ms) => Math.round(ms / MINUTE_MS) * MINUTE_MS),
    );
    for (const clock of aroundChanges(yearOf(zone, year), 3 * DAY_MS, MINUTE_MS)) {
      const patterns = fc.constantFrom(...MANY_TIMES_A_DAY, ...patternsAtChange(clock));
      const change = (clock.from + clock.to) / 2;
      fc.assert(
        fc.property(patterns, away, (pattern, ms) => expectFirstAfter(pattern, clock, change + ms)),
        { numRuns: 400 },
      );
    }
  });

  it.each(CHANGING_ZONES)("in %s in %d, does not depend on span boundaries", (zone, year) => {
    for (const clock of aroundChanges(yearOf(zone, year), 5 * HOUR_MS, MINUTE_MS)) {
      const patterns = patternsAtChange(clock).slice(0, 4);
      for (let end = clock.from + HOUR_MS; end < clock.to; end += HOUR_MS / 2) {
        expect(disagreements(patterns, clock, cutAt(readZone(zone), end))).toEqual([]);
      }
    }
  });
});

/** The same zone with one span split in two. */
function cutAt(zone: Zone, end: number): Zone {
  return {
    name: zone.name,
    span(at) {
      const { offsetMs, until } = zone.span(at);
      return { offsetMs, until: at < end ? Math.min(until, end) : until };
    },
  };
}
