import type { Figure, Row, Target, Unit } from "./case.js";

/** The percentile of the values for a fraction from 0 to 1. */
export function percentile(values: readonly number[], fraction: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = Math.ceil(sorted.length * fraction) - 1;
  return sorted[Math.min(sorted.length - 1, Math.max(0, at))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  // Typed arrays sort numbers several times as fast, and an interval needs thousands of medians.
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

export function figure(unit: Unit, rounds: readonly number[], value: number = median(rounds)): Figure {
  return { value, unit, rounds: [...rounds] };
}

export function rates(timed: readonly { seconds: number; count: number }[]): Figure {
  return figure(
    "jobs/s",
    timed.map(({ seconds, count }) => count / seconds),
  );
}

/** A percentile of the samples of all rounds, and that of each round. */
export function percentiles(rounds: readonly number[][], fraction: number): Figure {
  return figure(
    "ms",
    rounds.map((samples) => percentile(samples, fraction)),
    percentile(rounds.flat(), fraction),
  );
}

interface Line {
  name: string;
  label: string;
  figure: Figure;
}

/** A figure without a baseline, with or without a limit. */
export function plainRow(line: Line, limits: { below?: number; atMost?: number } = {}): Row {
  const { below, atMost } = limits;
  let target: Target | null = null;
  if (below !== undefined) target = { of: "figure", bound: "below", limit: below, met: line.figure.value < below };
  if (atMost !== undefined)
    target = { of: "figure", bound: "at most", limit: atMost, met: line.figure.value <= atMost };
  return { ...line, baseline: null, comparison: null, target };
}

/** A figure divided by its baseline. Each round has its own ratio, so that a slow machine affects both sides. */
export function ratioRow(
  line: Line,
  baseline: { label: string; figure: Figure },
  limits: { atLeast?: number; atMost?: number } = {},
): Row {
  const ratios = line.figure.rounds.map((value, round) => value / (baseline.figure.rounds[round] ?? Number.NaN));
  const value = median(ratios);
  const { atLeast, atMost } = limits;
  let target: Target | null = null;
  if (atLeast !== undefined) target = { of: "comparison", bound: "at least", limit: atLeast, met: value >= atLeast };
  if (atMost !== undefined) target = { of: "comparison", bound: "at most", limit: atMost, met: value <= atMost };
  return { ...line, baseline, comparison: { kind: "ratio", value }, target };
}

/** A figure minus its baseline. */
export function differenceRow(
  line: Line,
  baseline: { label: string; figure: Figure },
  limits: { atMost?: number } = {},
): Row {
  const value = line.figure.value - baseline.figure.value;
  const { atMost } = limits;
  const target: Target | null =
    atMost === undefined ? null : { of: "comparison", bound: "at most", limit: atMost, met: value <= atMost };
  return { ...line, baseline, comparison: { kind: "difference", value }, target };
}
