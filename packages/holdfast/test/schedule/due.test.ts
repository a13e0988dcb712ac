import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readCron } from "#src/schedule/cron.js";
import { lastSlot, nextSlot, planDue, type CatchUp, type Timing } from "#src/schedule/slots.js";
import { readZone } from "#src/schedule/zone.js";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const YEAR_2026 = Date.UTC(2026, 0, 1);

type Bounds = Partial<Pick<Timing, "startAt" | "endAt">>;
const every = (everyMs: number, bounds: Bounds = {}): Timing => ({ everyMs, startAt: null, endAt: null, ...bounds });
const cron = (pattern: string, zone: string, bounds: Bounds = {}): Timing => ({
  cron: readCron(pattern),
  zone: readZone(zone),
  startAt: null,
  endAt: null,
  ...bounds,
});

const instant = fc.integer({ min: Date.UTC(1975, 0, 1), max: Date.UTC(2100, 0, 1) });
const interval = fc.oneof(fc.integer({ min: 1_000, max: 10_000 }), fc.integer({ min: 1_000, max: 40 * DAY_MS }));

/** All slots from this one up to that time. */
function slotsFrom(timing: Timing, first: number, until: number): number[] {
  const slots = [first];
  for (let slot = nextSlot(timing, first); slot !== null && slot <= until; slot = nextSlot(timing, slot)) {
    // Fails instead of looping forever.
    if (slot <= slots.at(-1)!) throw new Error(`after ${slots.at(-1)} came ${slot}`);
    slots.push(slot);
  }
  return slots;
}

describe("slots at an interval", () => {
  it("are multiples of the interval since 1970", () => {
    fc.assert(
      fc.property(interval, instant, (everyMs, after) => {
        const slot = nextSlot(every(everyMs), after)!;
        expect(slot % everyMs).toBe(0);
        expect(slot).toBeGreaterThan(after);
        expect(slot - everyMs).toBeLessThanOrEqual(after);
      }),
    );
  });

  it("are multiples of the interval after startAt, the first", () => {
    fc.assert(
      fc.property(interval, instant, instant, (everyMs, startAt, after) => {
        const slot = nextSlot(every(everyMs, { startAt }), after)!;
        expect((slot - startAt) % everyMs).toBe(0);
        expect(slot).toBeGreaterThan(after);
        if (after < startAt) expect(slot).toBe(startAt);
        else expect(slot - everyMs).toBeLessThanOrEqual(after);
      }),
    );
  });

  it("do not depend on the time of the query", () => {
    fc.assert(
      fc.property(interval, instant, fc.nat(), (everyMs, after, later) => {
        const slot = nextSlot(every(everyMs), after)!;
        expect(nextSlot(every(everyMs), after + (later % (slot - after)))).toBe(slot);
        expect(nextSlot(every(everyMs), slot)).toBe(slot + everyMs);
      }),
    );
  });

  it("ignore clock changes", () => {
    const springForward = Date.UTC(2026, 2, 29, 1);
    expect(slotsFrom(every(HOUR_MS), springForward - 2 * HOUR_MS, springForward + 2 * HOUR_MS)).toEqual(
      [-2, -1, 0, 1, 2].map((hours) => springForward + hours * HOUR_MS),
    );
  });
});

describe("from startAt to endAt", () => {
  const eight = Date.UTC(2026, 0, 5, 8);
  const kinds: [string, (bounds: Bounds) => Timing][] = [
    ["by the calendar", (bounds) => cron("0 8 * * *", "UTC", bounds)],
    ["at an interval", (bounds) => every(8 * HOUR_MS, bounds)],
  ];

  it.each(kinds)("%s: startAt is inclusive", (_kind, timing) => {
    expect(nextSlot(timing({ startAt: eight }), 0)).toBe(eight);
    expect(nextSlot(timing({ startAt: eight }), eight - 1)).toBe(eight);
    expect(nextSlot(timing({ startAt: eight }), eight)).toBeGreaterThan(eight);
  });

  it.each(kinds)("%s: endAt is exclusive", (_kind, timing) => {
    expect(nextSlot(timing({ endAt: eight }), eight - 1)).toBeNull();
    expect(nextSlot(timing({ endAt: eight + 1 }), eight - 1)).toBe(eight);
    expect(nextSlot(timing({ endAt: eight + 1 }), eight)).toBeNull();
    expect(nextSlot(timing({ startAt: eight, endAt: eight }), 0)).toBeNull();
  });

  it("a start between two cron slots waits for the next", () => {
    expect(nextSlot(cron("0 8 * * *", "UTC", { startAt: eight + 1 }), 0)).toBe(eight + DAY_MS);
  });

  it("a start in the repeated hour repeats no fixed time", () => {
    const firstHalfPastOne = Date.UTC(2026, 10, 1, 5, 30);
    const timing = cron("30 1 * * *", "America/New_York", { startAt: firstHalfPastOne + 1 });
    expect(nextSlot(timing, 0)).toBe(Date.UTC(2026, 10, 2, 6, 30));
  });

  it("bounds remove cron slots, but do not shift them", () => {
    const patterns = fc.constantFrom("*/15 * * * *", "30 1,2 * * *", "0 */3 * * *");
    const around = fc.integer({ min: Date.UTC(2026, 9, 31), max: Date.UTC(2026, 10, 3) });
    fc.assert(
      fc.property(patterns, around, around, around, (pattern, startAt, endAt, after) => {
        const whole = cron(pattern, "America/New_York");
        const within = slotsFrom(whole, Date.UTC(2026, 9, 30), Date.UTC(2026, 10, 5)).filter(
          (slot) => slot > after && slot >= startAt && slot < endAt,
        );
        expect(nextSlot({ ...whole, startAt, endAt }, after)).toBe(within[0] ?? null);
      }),
    );
  });
});

/** Schedules of all kinds with slots in 2026: dense, sparse, in bursts, some ending in March. */
const timings = fc
  .tuple(
    fc.oneof(
      fc
        .tuple(
          fc.constantFrom(
            "*/15 * * * *",
            "30 1-3 * * *",
            "0 8 * * MON-FRI",
            "0 8 L * *",
            "* 2 * * SUN",
            "*/10 * 1,29 * *",
            "*/30 * 3 29 3 *",
          ),
          fc.constantFrom("UTC", "Europe/Berlin", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe"),
        )
        .map(([pattern, zone]) => cron(pattern, zone)),
      fc.integer({ min: 10 * MINUTE_MS, max: 3 * DAY_MS }).map((everyMs) => every(everyMs)),
    ),
    fc.option(fc.integer({ min: YEAR_2026, max: Date.UTC(2026, 2, 31) })),
    fc.option(fc.constantFrom(Date.UTC(2026, 2, 29, 1), Date.UTC(2026, 3, 1))),
  )
  .map(([timing, startAt, endAt]) => ({ ...timing, startAt, endAt }));

/** A schedule, one of its open slots, and a time up to six weeks later, often exactly a slot. */
const dueSchedule = fc
  .tuple(
    timings,
    fc.integer({ min: YEAR_2026 - DAY_MS, max: Date.UTC(2026, 2, 31) }),
    fc.oneof(fc.nat(2 * HOUR_MS), fc.nat(42 * DAY_MS)),
    fc.boolean(),
  )
  .map(([timing, after, laterMs, atSlot]) => {
    const first = nextSlot(timing, after);
    if (first === null) return null;
    const now = first + laterMs;
    return { timing, first, now: atSlot ? slotsFrom(timing, first, now).at(-1)! : now };
  })
  .filter((due) => due !== null);

describe("the last slot up to a time", () => {
  it("agrees with a walk from slot to slot", () => {
    fc.assert(
      fc.property(dueSchedule, fc.nat(), ({ timing, first, now }, choice) => {
        const slots = slotsFrom(timing, first, now);
        expect(lastSlot(timing, first, now)).toBe(slots.at(-1));
        expect(lastSlot(timing, slots[choice % slots.length]!, now)).toBe(slots.at(-1));
      }),
      { numRuns: 400 },
    );
  });
});

describe("due slots", () => {
  it("a slot at this second is due", () => {
    expect(lastSlot(every(1_000), 1_000, 2_000)).toBe(2_000);
    expect(planDue(every(1_000), { first: 1_000, now: 2_000, catchUp: { all: 5 }, lateMs: 0 })).toEqual({
      slots: [1_000, 2_000],
      missed: null,
      next: 3_000,
    });
  });

  const catchUp = fc.oneof(
    fc.constantFrom<CatchUp>("skip", "latest"),
    fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 100 })).map((all) => ({ all })),
  );

  it("catchUp fires the newest slots, earlier ones are missed", () => {
    fc.assert(
      fc.property(dueSchedule, catchUp, fc.integer({ min: -1, max: 1 }), ({ timing, first, now }, chosen, aside) => {
        const open = slotsFrom(timing, first, now);
        const latest = open.at(-1)!;
        // A slot is on time up to and including lateMs.
        const lateMs = Math.max(0, now - latest + aside);
        const most = chosen === "latest" ? 1 : chosen === "skip" ? Number(now - latest <= lateMs) : chosen.all;
        const missed = open.slice(0, Math.max(0, open.length - most));
        expect(planDue(timing, { first, now, catchUp: chosen, lateMs })).toEqual({
          slots: open.slice(missed.length),
          missed: missed.length === 0 ? null : { first, last: missed.at(-1) },
          next: nextSlot(timing, now),
        });
      }),
      { numRuns: 400 },
    );
  });

  const hourly = every(HOUR_MS);
  const [one, two, three, four] = [1, 2, 3, 4].map((hour) => hour * HOUR_MS) as [number, number, number, number];
  const slept = { first: one, now: three + 5_000, lateMs: 60_000 };

  it("after three missed slots, each policy fires its number", () => {
    expect(planDue(hourly, { ...slept, catchUp: "latest" })).toEqual({
      slots: [three],
      missed: { first: one, last: two },
      next: four,
    });
    expect(planDue(hourly, { ...slept, catchUp: { all: 2 } })).toEqual({
      slots: [two, three],
      missed: { first: one, last: one },
      next: four,
    });
    expect(planDue(hourly, { ...slept, catchUp: { all: 10 } })).toEqual({
      slots: [one, two, three],
      missed: null,
      next: four,
    });
  });

  it("skip fires only a slot that is on time", () => {
    expect(planDue(hourly, { ...slept, catchUp: "skip" }).slots).toEqual([three]);
    expect(planDue(hourly, { ...slept, now: three + 60_000, catchUp: "skip" }).slots).toEqual([three]);
    expect(planDue(hourly, { ...slept, now: three + 60_001, catchUp: "skip" })).toEqual({
      slots: [],
      missed: { first: one, last: three },
      next: four,
    });
  });

  it("an ended schedule still fires its last slots", () => {
    expect(planDue({ ...hourly, endAt: three }, { ...slept, now: four, catchUp: "latest" })).toEqual({
      slots: [two],
      missed: { first: one, last: one },
      next: null,
    });
  });

  it.each(["* * * * * *", "*/5 * * * *", "0 0 29 2 *", "* * * 1 1 *"])(
    "%s is planned quickly after ten years of downtime",
    (pattern) => {
      const real = readCron(pattern);
      let asked = 0;
      const counting: Timing = {
        cron: { ...real, next: (wallMs) => (asked++, real.next(wallMs)) },
        zone: readZone("Europe/Berlin"),
        startAt: null,
        endAt: null,
      };
      const first = nextSlot(counting, Date.UTC(2016, 5, 1))!;
      planDue(counting, { first, now: Date.UTC(2026, 5, 1), catchUp: "latest", lateMs: 0 });
      expect(asked).toBeLessThan(300);
    },
  );
});
