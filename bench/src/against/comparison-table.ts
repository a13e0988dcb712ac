import { aligned, amount, number } from "../table.js";
import type { Comparison, ComparisonRow } from "./comparison.js";

const HEADINGS = ["", "before", "after", "ratio", "95 % interval", "pairs", ""];
const RIGHT = new Set([1, 2, 3, 4, 5]);

/** A comparison as a table. */
export function comparisonTable(comparison: Comparison): string {
  const { machine, before, after, rows, atLeast } = comparison;
  const facts = Object.entries(comparison.database).map(([name, value]) => `${name} ${value}`);
  const wide = rows.filter((row) => row.wide).map(({ name }) => name);
  const missed = rows.filter((row) => !row.met).map(({ name }) => name);
  return [
    `Holdfast on ${comparison.store}: speed of the working tree (${after.commit.slice(0, 10)}${after.changed ? " with changes" : ""}) over that of ${before.commit.slice(0, 10)} (${before.subject})`,
    `${comparison.rounds} rounds, ${number(comparison.drainJobs)} jobs per drain, ${comparison.seconds} s`,
    `${machine.cores} cores, ${machine.cpu}, ${machine.system}, Node ${machine.node}`,
    facts.join(", "),
    "",
    ...aligned([HEADINGS, ...rows.map(cells)], RIGHT),
    "",
    ...(wide.length > 0
      ? [`The intervals of ${wide.join(", ")} are wider than ±5 %: measure again when nothing else runs.`]
      : []),
    missed.length === 0
      ? `At least ${atLeast} × before: met`
      : `At least ${atLeast} × before: missed by ${missed.join(", ")}`,
  ].join("\n");
}

function cells({ name, unit, before, after, ratio, pairs, met }: ComparisonRow): string[] {
  const { value, low, high } = ratio;
  const interval = `${number(low, 3)} – ${number(high, 3)}`;
  return [name, amount(before, unit), amount(after, unit), number(value, 3), interval, String(pairs), met ? "✓" : "✗"];
}
