import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readBackoff, readMaxAttempts } from "#src/job/retry.js";
import { InvalidOptionError, type BackoffOptions } from "holdfast";

const half = (): number => 0.5;
const delays = (options: BackoffOptions | undefined, attempts: number, random = half): number[] => {
  const backoff = readBackoff(options);
  return Array.from({ length: attempts }, (_, index) => backoff(index + 1, null, random) as number);
};

describe("the curves of the five seeds", () => {
  it("the default is 30 s × 2ⁿ, at most 15 min", () => {
    expect(delays(undefined, 7)).toEqual([30_000, 60_000, 120_000, 240_000, 480_000, 900_000, 900_000]);
  });

  it("5 s × 2^(n−1) plus up to 1 s, at most 5 min", () => {
    const options = { base: "5s", max: "5m", jitter: "1s" };
    expect(delays(options, 8, () => 0)).toEqual([5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
    expect(delays(options, 3, () => 0.25)).toEqual([5_250, 10_250, 20_250]);
    expect(delays(options, 8, () => 0.999).at(-1)).toBe(300_000);
  });

  it("60 s × 2^(attempts−1)", () => {
    expect(delays({ base: "60s", max: "1d", jitter: 0 }, 4)).toEqual([60_000, 120_000, 240_000, 480_000]);
  });

  it("30, 60, 120 s", () => {
    expect(delays({ jitter: 0 }, 3)).toEqual([30_000, 60_000, 120_000]);
  });

  it("a given base or max overrides a conflicting default", () => {
    expect(delays({ base: "1h", jitter: 0 }, 2)).toEqual([3_600_000, 3_600_000]);
    expect(delays({ max: "10s", jitter: 0 }, 2)).toEqual([10_000, 10_000]);
  });

  it("a function returns the delay by attempt and error", () => {
    const backoff = readBackoff((attempt, error) => (error === "slow down" ? "1m" : attempt * 10));
    expect(backoff(3, "other", half)).toBe(30);
    expect(backoff(3, "slow down", half)).toBe(60_000);
  });
});

describe("properties", () => {
  const parts = fc.record({
    base: fc.oneof(fc.nat(10_000_000), fc.constant(0)),
    factor: fc.double({ min: 1, max: 1_000, noNaN: true }),
    max: fc.nat(100_000_000),
    jitter: fc.oneof(
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.nat(60_000).map((ms) => `${ms}ms`),
    ),
  });
  const curve = parts.map((options) => ({ ...options, max: options.base + options.max }));
  const attempt = fc.integer({ min: 1, max: 1_000 });
  const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

  it("a delay is a whole number from 0 to max", () => {
    fc.assert(
      fc.property(curve, attempt, chance, (options, n, random) => {
        const delay = readBackoff(options)(n, null, () => random) as number;
        expect(Number.isSafeInteger(delay) && delay >= 0 && delay <= options.max).toBe(true);
      }),
    );
  });

  it("delays without jitter never decrease", () => {
    fc.assert(
      fc.property(curve, attempt, (options, n) => {
        const backoff = readBackoff({ ...options, jitter: 0 });
        expect(backoff(n + 1, null, half)).toBeGreaterThanOrEqual(backoff(n, null, half) as number);
      }),
    );
  });

  it("fractional jitter stays within its fraction", () => {
    fc.assert(
      fc.property(curve, attempt, chance, fc.double({ min: 0, max: 1, noNaN: true }), (options, n, random, jitter) => {
        const exact = readBackoff({ ...options, jitter: 0 })(n, null, half) as number;
        const delay = readBackoff({ ...options, jitter })(n, null, () => random) as number;
        expect(Math.abs(delay - exact)).toBeLessThanOrEqual(exact * jitter + 1);
      }),
    );
  });
});

describe("refuses invalid options with their name", () => {
  it.each<[object, string]>([
    [{ base: "soon" }, "retry.backoff.base"],
    [{ base: -1 }, "retry.backoff.base"],
    [{ max: Number.POSITIVE_INFINITY }, "retry.backoff.max"],
    [{ factor: 0.5 }, "retry.backoff.factor"],
    [{ factor: Number.NaN }, "retry.backoff.factor"],
    [{ factor: "2" }, "retry.backoff.factor"],
    [{ jitter: 1.1 }, "retry.backoff.jitter"],
    [{ jitter: -0.1 }, "retry.backoff.jitter"],
    [{ jitter: Number.NaN }, "retry.backoff.jitter"],
    [{ jitter: "1x" }, "retry.backoff.jitter"],
  ])("%j", (options, field) => {
    expect(() => readBackoff(options)).toThrow(InvalidOptionError);
    expect(() => readBackoff(options)).toThrow(expect.objectContaining({ field }));
  });

  it.each<unknown>([0, -1, 1.5, 1_001, Number.NaN, "3", 2 ** 53])("maxAttempts %s", (given) => {
    expect(() => readMaxAttempts(given as number)).toThrow(/^maxAttempts: .* is not a whole number from 1 to 1000$/);
  });
});
