import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { newId, readId } from "#src/job/uuid.js";
import { InvalidOptionError } from "holdfast";

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
// Ids never decrease, so each test uses later times than the previous one.
let epoch = Date.UTC(2030, 0, 1);
const later = (): number => (epoch += 1_000_000);

describe("new ids", () => {
  it("are unique, ordered UUIDv7s, even 100,000 per millisecond", () => {
    const now = later();
    const ids = Array.from({ length: 100_000 }, () => newId(now));
    expect(ids.find((id) => !UUID_V7.test(id))).toBeUndefined();
    expect(new Set(ids).size).toBe(ids.length);
    // Not toEqual: printing the difference of two arrays this long takes minutes.
    expect(ids.findIndex((id, index) => index > 0 && id <= ids[index - 1]!)).toBe(-1);
  });

  it("contain their creation time", () => {
    const now = later();
    expect(Number.parseInt(newId(now).replaceAll("-", "").slice(0, 12), 16)).toBe(now);
  });

  it("stay ordered when the clock jumps", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -5_000, max: 5_000 }), { minLength: 2, maxLength: 50 }), (jumps) => {
        let now = later();
        const ids = jumps.map((jump) => newId((now += jump)));
        expect(ids.toSorted()).toEqual(ids);
        expect(new Set(ids).size).toBe(ids.length);
        for (const id of ids) expect(id).toMatch(UUID_V7);
      }),
    );
  });
});

describe("given ids", () => {
  it("accepts any UUID, in lower case", () => {
    fc.assert(fc.property(fc.uuid(), (id) => readId(id.toUpperCase()) === id));
  });

  it.each<unknown>([
    "",
    "5",
    "018f4d2e7b3a7c118a550123456789ab",
    "018f4d2e-7b3a-7c11-8a55-0123456789ag",
    " 018f4d2e-7b3a-7c11-8a55-0123456789ab",
    5,
    null,
    undefined,
    {},
    5n,
    "x".repeat(100_000),
  ])("refuses %s and shows an example", (given) => {
    const read = (): string => readId(given, "id");
    expect(read).toThrow(InvalidOptionError);
    expect(read).toThrow(/^id: .{1,80} is not a UUID such as "018f4d2e-7b3a-7c11-8a55-0123456789ab"$/);
  });
});
