import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Histogram } from "#src/history/histogram.js";

/** What a percentile may be off by, besides rounding to a hundredth. */
const FIFTH = 0.2;

function histogramOf(durations: readonly number[]): Histogram {
  const histogram = new Histogram();
  for (const duration of durations) histogram.add(duration);
  return histogram;
}

const DURATION = fc.double({ min: 1, max: 2 ** 30, noNaN: true });
const DURATIONS = fc.array(DURATION, { minLength: 1, maxLength: 200 });
const FRACTION = fc.constantFrom(0.5, 0.95, 0.99, 1);

describe("a histogram", () => {
  it("has no percentile without durations", () => {
    expect(new Histogram().percentile(0.5)).toBeNull();
    expect(new Histogram().total).toBe(0);
  });

  it("returns percentiles within a fifth", () => {
    fc.assert(
      fc.property(DURATIONS, FRACTION, (durations, fraction) => {
        const exact = durations.toSorted((a, b) => a - b)[Math.ceil(fraction * durations.length) - 1] ?? 0;
        const found = histogramOf(durations).percentile(fraction) ?? 0;
        expect(Math.abs(found - exact)).toBeLessThanOrEqual(FIFTH * exact + 0.01);
      }),
    );
  });

  it("returns percentiles of equal durations within a fifth", () => {
    for (const duration of [1, 1.5, 2, 7, 10, 11, 16, 45, 128, 181, 1_000, 65_536, 86_400_000]) {
      const histogram = histogramOf(Array(100).fill(duration));
      for (const fraction of [0.01, 0.5, 0.95, 0.99]) {
        const off = Math.abs((histogram.percentile(fraction) ?? 0) - duration) / duration;
        expect({ duration, fraction, off, isClose: off <= FIFTH }).toMatchObject({ isClose: true });
      }
    }
  });

  it("percentiles never decrease with the fraction", () => {
    fc.assert(
      fc.property(DURATIONS, (durations) => {
        const histogram = histogramOf(durations);
        const found = [0, 0.25, 0.5, 0.75, 0.95, 0.99, 1].map((fraction) => histogram.percentile(fraction) ?? -1);
        expect(found).toEqual(found.toSorted((a, b) => a - b));
      }),
    );
  });

  it("counts durations below 1 ms, beyond 12 days and none", () => {
    const histogram = histogramOf([0, 0.3, -5, Number.NaN, Number.POSITIVE_INFINITY, 1e300]);
    expect(histogram.total).toBe(6);
    expect(histogram.percentile(0.5)).toBeLessThan(1);
    expect(histogram.percentile(1)).toBeGreaterThanOrEqual(2 ** 30);
  });

  it("merging is the same as adding all durations", () => {
    fc.assert(
      fc.property(DURATIONS, DURATIONS, (some, others) => {
        const merged = histogramOf(some);
        merged.merge(histogramOf(others));
        expect(merged.toJSON()).toEqual(histogramOf([...some, ...others]).toJSON());
        expect(merged.total).toBe(some.length + others.length);
      }),
    );
  });

  it("is the same after JSON", () => {
    fc.assert(
      fc.property(DURATIONS, (durations) => {
        const histogram = histogramOf(durations);
        const read = Histogram.fromJSON(JSON.parse(JSON.stringify(histogram)));
        expect(read.toJSON()).toEqual(histogram.toJSON());
      }),
    );
  });

  it("leaves out damaged buckets", () => {
    const damaged = [
      [1, 2],
      [-1, 5],
      [62, 5],
      [1.5, 5],
      ["2", 5],
      [3, -1],
      [3, 0.5],
      [3, "x"],
      [4],
      null,
      7,
      [5, 1, 9],
    ];
    expect(Histogram.fromJSON(damaged).toJSON()).toEqual([
      [1, 2],
      [5, 1],
    ]);
    for (const value of [null, undefined, "x", {}, 5]) expect(Histogram.fromJSON(value).total).toBe(0);
    expect(Histogram.fromJSON(Array(1_000_000).fill([1, 1])).total).toBeLessThan(100);
  });
});
