import { median } from "../figures.js";
import type { Machine } from "../machine.js";
import type { Measure } from "./alternate.js";
import { ratioOf, type Ratio } from "./statistics.js";

/** The output of `--against` with `--json`: the figures of the table and their samples. */
export interface Comparison {
  /** The version of this format. */
  version: 1;
  store: string;
  before: { commit: string; subject: string };
  after: { commit: string; changed: boolean };
  at: string;
  seconds: number;
  machine: Machine;
  /** Facts about the database: its version, its durability. */
  database: Record<string, string>;
  rounds: number;
  drainJobs: number;
  atLeast: number;
  rows: ComparisonRow[];
  met: boolean;
}

export interface ComparisonRow {
  name: string;
  unit: Measure["unit"];
  /** Medians. */
  before: number;
  after: number;
  pairs: number;
  /** Speed after over speed before: above 1 is faster. */
  ratio: Ratio;
  /** Whether the interval reaches the required ratio. */
  met: boolean;
  /** Whether the interval is so wide that a loss of 5 % could be within it. */
  wide: boolean;
  samples: Measure["rounds"];
}

// The bounds of an interval of ±5 %.
const WIDE = 1.05 / 0.95;

export function compare(measures: readonly Measure[], atLeast: number): ComparisonRow[] {
  return measures.map(({ name, unit, rounds }) => {
    // Less time is more speed.
    const speedups = rounds.map((pairs) =>
      pairs.map(({ before, after }) => (unit === "ms" ? before / after : after / before)),
    );
    const pairs = rounds.flat();
    const ratio = ratioOf(speedups);
    return {
      name,
      unit,
      before: median(pairs.map(({ before }) => before)),
      after: median(pairs.map(({ after }) => after)),
      pairs: pairs.length,
      ratio,
      met: reaches(ratio, atLeast),
      wide: ratio.high / ratio.low > WIDE,
      samples: rounds,
    };
  });
}

/** "At least r × before": the interval reaches r or is above it. Only an interval completely below r is a loss. */
export function reaches({ high }: Ratio, atLeast: number): boolean {
  return high >= atLeast;
}
