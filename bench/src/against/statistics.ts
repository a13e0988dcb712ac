import { median } from "../figures.js";

/** A ratio with the interval that contains the true one in 95 of 100 comparisons. */
export interface Ratio {
  value: number;
  low: number;
  high: number;
}

const RESAMPLES = 2_000;
const SEED = 20_260_101;
const NORMAL_975 = 1.959964;

/**
 * The median of the ratios of all pairs. It equals the ratio of the two medians without the effects that both sides of
 * a pair share, such as a busy machine. The interval is a percentile bootstrap over rounds, because the pairs of one
 * round share two processes and are not independent samples. The same ratios always give the same interval.
 */
export function ratioOf(rounds: readonly (readonly number[])[]): Ratio {
  const random = seeded(SEED);
  const resample = (): number[] => rounds.flatMap(() => rounds[Math.floor(random() * rounds.length)] ?? []);
  const medians = Float64Array.from({ length: RESAMPLES }, () => median(resample())).sort();
  const outside = tail(rounds.length);
  const at = (fraction: number): number => medians[Math.round(fraction * (RESAMPLES - 1))] ?? Number.NaN;
  return { value: median(rounds.flat()), low: at(outside), high: at(1 - outside) };
}

/**
 * The share of resamples on each side of a 95 % interval. It is smaller than 2.5 %, because a bootstrap of few samples
 * is too narrow: it underestimates their variance by (n − 1) / n and ignores Student's distribution (Hesterberg, "What
 * Teachers Should Know About the Bootstrap", 2015, on expanded percentile intervals).
 */
export function tail(rounds: number): number {
  if (rounds < 2) return 0;
  const degrees = rounds - 1;
  const z = NORMAL_975;
  // Student's quantile as a series around the normal one; three terms are exact to 0.1 % from ten rounds on.
  const first = (z ** 3 + z) / 4;
  const second = (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96;
  const third = (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384;
  const t = z + first / degrees + second / degrees ** 2 + third / degrees ** 3;
  return normalBelow(-t * Math.sqrt(rounds / degrees));
}

/** The normal distribution's share below a negative value, to six digits (Abramowitz and Stegun 26.2.17). */
function normalBelow(value: number): number {
  const k = 1 / (1 - 0.2316419 * value);
  const sum = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))));
  return (Math.exp((-value * value) / 2) / Math.sqrt(2 * Math.PI)) * sum;
}

/** Mulberry32. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
