import { median } from "../figures.js";
import type { Machine } from "../machine.js";
import type { Measure } from "./alternate.js";
import { ratioOf, type Ratio } from "./statistics.js";

/** What `--against` prints with `--json`: all that the table shows, and the samples that it follows from. */
export interface Comparison {
  /** Of this document's shape. */
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
  /** Whether the interval reaches what was asked for. */
  met: boolean;
  /** Whether it is so wide that a loss of a twentieth could hide in it. */
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

/** "At least r × before": the interval reaches r, or lies above it. Only one that is wholly below r is a loss. */
export function reaches({ high }: Ratio, atLeast: number): boolean {
  return high >= atLeast;
}
