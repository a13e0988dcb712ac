import { Cron } from "croner";
import { afterEach, describe, expect, it, vi } from "vitest";
import { readCron } from "#src/schedule/cron.js";
import { nextSlot, type Timing } from "#src/schedule/slots.js";
import { readZone } from "#src/schedule/zone.js";

afterEach(() => void vi.restoreAllMocks());

/** Counts the slow calls: to croner and to Intl. */
function counting() {
  const match = vi.spyOn(Cron.prototype, "match");
  const next = vi.spyOn(Cron.prototype, "nextRun");
  const format = vi.spyOn(Intl.DateTimeFormat.prototype as { format: unknown }, "format", "get");
  return () => ({ croner: match.mock.calls.length + 100 * next.mock.calls.length, intl: format.mock.calls.length });
}

function slots(timing: Timing, after: number, most: number): number[] {
  const found: number[] = [];
  for (let slot = nextSlot(timing, after); slot !== null && found.length < most; slot = nextSlot(timing, slot)) {
    found.push(slot);
  }
  return found;
}

const FROM = Date.UTC(2026, 0, 1);
// One call per day of each kind of month: 13 kinds, starting on any of 7 weekdays.
const ALL_DAYS = 13 * 7 * 31;

describe("a rare date", () => {
  it.each([
    ["0 0 29 2 *", "Europe/Berlin", "2436-02-28T23:00:00.000Z"],
    ["0 0 29 2 +MON", "America/New_York", "2996-02-29T05:00:00.000Z"],
    ["30 2 29 2 +SUN#5", "Africa/Casablanca", null],
    ["30 2 1 1 *", "Australia/Lord_Howe", "2125-12-31T15:30:00.000Z"],
    ["0 12 31 5,7 +SUN#5", "America/Santiago", null],
  ])("is found with a bounded number of calls: %s in %s", (pattern, zone, last) => {
    const counted = counting();
    const found = slots({ cron: readCron(pattern), zone: readZone(zone), startAt: null, endAt: null }, FROM, 100);
    expect(found.length).toBeGreaterThan(20);
    if (last !== null) expect(new Date(found.at(-1) ?? 0).toISOString()).toBe(last);
    const { croner, intl } = counted();
    expect(croner).toBeLessThanOrEqual(ALL_DAYS);
    // About 32 days around each.
    expect(intl).toBeLessThanOrEqual(found.length * 3 * 40);
  });

  it.each(["0 0 30 2 *", "0 0 31 2,4,6 +SUN#1", "0 0 31 2,4,6,9,11 *"])(
    "that never occurs is detected as quickly: %s",
    (pattern) => {
      const counted = counting();
      expect(readCron(pattern).next(FROM)).toBe(null);
      expect(counted().croner).toBeLessThanOrEqual(ALL_DAYS);
    },
  );

  it("a frequent date needs only one month", () => {
    const counted = counting();
    // No other test uses this pattern: the days of a pattern are cached for the whole process.
    const cron = readCron("*/7 5 * 1-12 *");
    for (let at: number | null = FROM; at !== null && at < FROM + 20 * 86_400_000;) at = cron.next(at);
    expect(counted().croner).toBe(31);
  });
});
