import { createRequire } from "node:module";
import type { Bench, Case, Row, Samples } from "./case.js";
import { machine, type Machine } from "./machine.js";

/** The output of `--json`: one document per store. */
export interface Report {
  /** The version of this format. */
  version: 1;
  store: string;
  holdfast: string;
  at: string;
  seconds: number;
  jobs: number;
  rounds: number;
  machine: Machine;
  /** Facts about the database: its version, its durability. */
  database: Record<string, string>;
  cases: { name: string; rows: Row[] }[];
  targets: { met: number; missed: number };
}

export async function report(
  { bed, scale }: Bench,
  cases: readonly Case[],
  samples: Samples,
  seconds: number,
): Promise<Report> {
  const read = cases.map((each) => ({ name: each.name, rows: each.read(samples).map(rounded) }));
  const targets = read.flatMap(({ rows }) => rows).flatMap(({ target }) => (target === null ? [] : [target]));
  const met = targets.filter((target) => target.met).length;
  const product = createRequire(import.meta.url)("holdfast/package.json") as { version: string };
  return {
    version: 1,
    store: bed.store,
    holdfast: product.version,
    at: new Date().toISOString(),
    seconds: Math.round(seconds),
    jobs: scale.jobs,
    rounds: scale.rounds,
    machine: machine(),
    database: await bed.facts(),
    cases: read,
    targets: { met, missed: targets.length - met },
  };
}

/** Five significant digits are more than these measurements have. */
function rounded(row: Row): Row {
  const short = (value: number): number => Number(value.toPrecision(5));
  const shortFigure = (figure: Row["figure"]): Row["figure"] => ({
    ...figure,
    value: short(figure.value),
    rounds: figure.rounds.map(short),
  });
  return {
    ...row,
    figure: shortFigure(row.figure),
    baseline: row.baseline === null ? null : { ...row.baseline, figure: shortFigure(row.baseline.figure) },
    comparison: row.comparison === null ? null : { ...row.comparison, value: short(row.comparison.value) },
  };
}
