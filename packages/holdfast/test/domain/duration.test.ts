import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { durationMs, instantMs } from "#src/duration.js";
import { InvalidOptionError } from "holdfast";

function refusal(read: () => unknown): InvalidOptionError {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidOptionError);
    return error as InvalidOptionError;
  }
  throw new Error("it was accepted");
}

describe("durations", () => {
  it.each<[number | string, number]>([
    [0, 0],
    [1_500, 1_500],
    [1.6, 2],
    ["250ms", 250],
    ["30s", 30_000],
    ["10m", 600_000],
    ["2h", 7_200_000],
    ["7d", 604_800_000],
    ["1w", 604_800_000],
    ["1h 30m", 5_400_000],
    ["1h30m", 5_400_000],
    ["1.5s", 1_500],
    ["  5 s ", 5_000],
  ])("%j is %d ms", (given, ms) => {
    expect(durationMs(given, "delay")).toBe(ms);
  });

  const notDurations: unknown[] = [
    "10 minutes",
    "",
    " ",
    "1x",
    "-5s",
    "s",
    "1,5s",
    "5",
    "1e3s",
    "Infinitys",
    Number.POSITIVE_INFINITY,
    Number.NaN,
    -1,
    "4000w",
    null,
    undefined,
    {},
    10n,
    Symbol("s"),
    () => 5,
    new Date(0),
    true,
  ];
  it.each(notDurations)("refuses %s with the field and an example", (given) => {
    const error = refusal(() => durationMs(given as string, "delay"));
    expect(error.code).toBe("INVALID_OPTION");
    expect(error.field).toBe("delay");
    expect(error.message).toMatch(/^delay: .*(use milliseconds or a string like|use 0 or more|finite|ten years)/);
  });

  it.each([
    `${"1".repeat(50_000)}s`,
    `${"1 ".repeat(50_000)}x`,
    `${"1s".repeat(50_000)}!`,
    " ".repeat(100_000),
    `${"1s ".repeat(33)}!`,
  ])("refuses a string for regex denial of service quickly", (text) => {
    const started = performance.now();
    const error = refusal(() => durationMs(text, "delay"));
    expect(performance.now() - started).toBeLessThan(1_000);
    expect(error.message.length).toBeLessThan(300);
  });

  it("adds numbers with units", () => {
    const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;
    const part = fc.tuple(fc.nat(100), fc.constantFrom(...(Object.keys(units) as (keyof typeof units)[])));
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), fc.constantFrom("", " "), (parts, space) => {
        const text = parts.map(([amount, unit]) => `${amount}${unit}`).join(space);
        const sum = parts.reduce((total, [amount, unit]) => total + amount * units[unit], 0);
        expect(durationMs(text, "x")).toBe(sum);
      }),
    );
  });

  it("every string is a valid duration or refused", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.double(), fc.stringMatching(/^[0-9. smhdw]*$/)), (given) => {
        let ms: number;
        try {
          ms = durationMs(given, "x");
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidOptionError);
          return;
        }
        expect(Number.isSafeInteger(ms) && ms >= 0 && ms <= 315_360_000_000).toBe(true);
      }),
    );
  });
});

describe("instants", () => {
  const noon = Date.UTC(2026, 0, 1, 12);
  it.each<[Date | number | string]>([
    [new Date(noon)],
    [noon],
    ["2026-01-01T12:00:00Z"],
    ["2026-01-01T12:00:00.000Z"],
    ["2026-01-01T13:00+01:00"],
  ])("reads %s", (given) => {
    expect(instantMs(given, "runAt")).toBe(noon);
  });

  it.each<unknown>([
    new Date("x"),
    Number.NaN,
    Number.POSITIVE_INFINITY,
    9e15,
    "tomorrow",
    "in 5",
    "1",
    "",
    "2026-01-01T24:00:00Z",
    "2026-01-01T12:00:60Z",
    "2026-01-01T12:00:00+25:00",
    "01/02/2026",
    null,
    {},
    5n,
    true,
  ])("refuses %s and lists the valid forms", (given) => {
    const error = refusal(() => instantMs(given as string, "runAt"));
    expect(error.message).toBe(
      "runAt is not a valid time; use a Date, milliseconds since 1970 or an ISO 8601 string with a time zone (2026-05-01T08:00:00Z)",
    );
  });

  it.each(["2027-01-01", "2027-01-01T00:00:00", "2027-01-01T00:00:00.000", "2027-01-01 00:00", "2026-13-01"])(
    "refuses %s: no time zone",
    (given) => {
      expect(refusal(() => instantMs(given, "runAt")).message).toBe(
        `runAt: "${given}" has no time zone; write it like 2026-05-01T08:00:00Z or …T08:00:00+02:00`,
      );
    },
  );

  it.each([
    "2027-02-30T00:00:00Z",
    "2027-02-29T23:00:00-05:00",
    "2027-04-31T00:00Z",
    "2027-01-00T00:00Z",
    "2026-13-01T00:00:00Z",
  ])("refuses %s: the day does not exist", (given) => {
    expect(refusal(() => instantMs(given, "runAt")).message).toBe(
      `runAt: "${given}" is a day that does not exist; use a valid date`,
    );
  });

  it("accepts 29 February only in leap years", () => {
    expect(instantMs("2028-02-29T00:00:00Z", "runAt")).toBe(Date.UTC(2028, 1, 29));
    expect(instantMs("+002028-02-29T00:00:00Z", "runAt")).toBe(Date.UTC(2028, 1, 29));
    expect(() => instantMs("2100-02-29T00:00:00Z", "runAt")).toThrow(InvalidOptionError);
  });

  it("reads the ISO string of every valid Date", () => {
    fc.assert(
      fc.property(fc.date({ noInvalidDate: true }), (date) => {
        expect(instantMs(date.toISOString(), "x")).toBe(date.getTime());
        expect(instantMs(date, "x")).toBe(date.getTime());
      }),
    );
  });
});
