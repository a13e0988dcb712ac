import fc from "fast-check";
import { InvalidOptionError } from "holdfast";
import { describe, expect, it } from "vitest";
import { readZone } from "#src/schedule/zone.js";
import { changesOf, readClock, wallAt } from "./oracle.js";

const ALL_ZONES = ["UTC", "GMT", "EST5EDT", "Etc/GMT+5", ...Intl.supportedValuesOf("timeZone")];
const from = Date.UTC(1970, 0, 1);
const to = Date.UTC(2100, 0, 1);

describe("reading a zone", () => {
  it.each<unknown>([
    "Europe/Berlln",
    "Mars/Olympus",
    "CET+1",
    "UTC+2",
    "local",
    "",
    " ",
    " Europe/Berlin",
    "Europe/Berlin ",
    "Europe/Berlin\u0000",
    // The first letter is Cyrillic.
    "\u0415urope/Berlin",
    "+02:00",
    "-0500",
    "+2",
    "02:00",
    "__proto__",
    "constructor",
    "x".repeat(100_000),
    null,
    undefined,
    2,
    120n,
    {},
    ["Europe/Berlin"],
    Symbol("UTC"),
    () => "UTC",
  ])("C-11 refuses %s and shows an example", (given) => {
    const read = (): unknown => readZone(given);
    expect(read).toThrow(InvalidOptionError);
    expect(read).toThrow(expect.objectContaining({ code: "INVALID_OPTION", field: "timezone" }));
    expect(read).toThrow(/^timezone: .{1,80} is not an IANA time zone; for example "Europe\/Berlin" or "UTC"$/);
  });

  it("accepts the example and all zones of this Node", () => {
    for (const name of [...ALL_ZONES, "Europe/Berlin"]) expect(readZone(name).name).toBe(name);
  });
});

describe("the span of a time", () => {
  const instant = fc.integer({ min: from, max: to - 1 });

  it("agrees with Intl and contains the time", () => {
    fc.assert(
      fc.property(fc.constantFrom(...ALL_ZONES), instant, (name, at) => {
        const { offsetMs, until } = readZone(name).span(at);
        const second = Math.floor(at / 1_000) * 1_000;
        expect(second + offsetMs).toBe(wallAt(name, second));
        expect(until).toBeGreaterThan(at);
      }),
      { numRuns: 500 },
    );
  });

  it("has a constant offset", () => {
    fc.assert(
      fc.property(fc.constantFrom(...ALL_ZONES), instant, fc.nat(), (name, at, choice) => {
        const { offsetMs, until } = readZone(name).span(at);
        const end = Math.min(until, to);
        for (const inside of [at + (choice % (end - at)), end - 1]) {
          const second = Math.floor(inside / 1_000) * 1_000;
          expect(wallAt(name, second) - second).toBe(offsetMs);
        }
      }),
      { numRuns: 500 },
    );
  });

  it.each(["Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Beirut", "America/Sao_Paulo"])(
    "ends exactly at clock changes in %s, 2015 to 2030",
    (name) => {
      const [start, end] = [Date.UTC(2015, 0, 1), Date.UTC(2031, 0, 1)];
      const zone = readZone(name);
      const found: number[] = [];
      for (let at = start; at < end;) {
        const { offsetMs, until } = zone.span(at);
        // The cache has blocks; the end of a block need not be a clock change.
        if (zone.span(until).offsetMs !== offsetMs && until < end) found.push(until);
        at = until;
      }
      const changes = changesOf(readClock(name, start, end, 15 * 60_000));
      expect(changes.length).toBeGreaterThan(5);
      expect(found).toEqual(changes.map(({ at }) => at));
      for (const { at, due, came } of changes) {
        expect([wallAt(name, at - 1_000), wallAt(name, at)]).toEqual([due - 1_000, came]);
      }
    },
  );

  it("does not depend on the order of queries", () => {
    const name = "America/New_York";
    const change = Date.UTC(2026, 2, 8, 7);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: change - 3_600_000, max: change - 1 })), (instants) => {
        for (const at of instants) expect(readZone(name).span(at)).toEqual({ offsetMs: -18_000_000, until: change });
      }),
    );
    expect(readZone(name).span(change).offsetMs).toBe(-14_400_000);
  });

  it("in UTC never ends", () => {
    expect(readZone("UTC").span(0)).toEqual({ offsetMs: 0, until: Number.POSITIVE_INFINITY });
  });
});
