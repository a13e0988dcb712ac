import type { Figure, Row, Unit } from "./case.js";
import type { Report } from "./report.js";

const HEADINGS = ["", "", "Holdfast", "against", "", "compared", "target", ""];
const RIGHT = new Set([2, 3, 5, 6]);
const BOUNDS = { "at least": "≥", "at most": "≤", below: "<" } as const;

/** The report as an aligned table. */
export function table(report: Report): string {
  const { machine, database, targets } = report;
  const facts = Object.entries(database).map(([name, value]) => `${name} ${value}`);
  const lines = [
    HEADINGS,
    ...report.cases.flatMap(({ name, rows }) => rows.map((row, index) => cells(index === 0 ? name : "", row))),
  ];
  return [
    `Holdfast ${report.holdfast} on ${report.store}: ${number(report.jobs)} jobs per drain, median of ${report.rounds} rounds, ${report.seconds} s`,
    `${machine.cores} cores, ${machine.cpu}, ${machine.system}, Node ${machine.node}`,
    facts.join(", "),
    "",
    ...aligned(lines, RIGHT),
    "",
    `${targets.met} of ${targets.met + targets.missed} targets met`,
  ].join("\n");
}

/** Aligns the columns. Those in `right` are right-aligned. */
export function aligned(lines: readonly (readonly string[])[], right: ReadonlySet<number>): string[] {
  const columns = Math.max(...lines.map((line) => line.length));
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(...lines.map((line) => line[column]?.length ?? 0)),
  );
  return lines.map((line) =>
    line
      .map((cell, column) =>
        right.has(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join("  ")
      .trimEnd(),
  );
}

function cells(name: string, { label, figure, baseline, comparison, target }: Row): string[] {
  const compared =
    comparison === null
      ? ""
      : comparison.kind === "ratio"
        ? ratio(comparison.value)
        : signed(comparison.value, figure.unit);
  let wanted = "";
  if (target !== null) {
    const limit =
      target.of === "figure"
        ? amount(target.limit, figure.unit)
        : comparison?.kind === "ratio"
          ? ratio(target.limit)
          : signed(target.limit, figure.unit);
    wanted = `${BOUNDS[target.bound]} ${limit}`;
  }
  const against = baseline === null ? ["", ""] : [figureText(baseline.figure), baseline.label];
  return [name, label, figureText(figure), ...against, compared, wanted, target === null ? "" : target.met ? "✓" : "✗"];
}

function figureText({ value, unit }: Figure): string {
  return amount(value, unit);
}

export function amount(value: number, unit: Unit): string {
  if (unit === "jobs/s") return `${number(Math.round(value))}/s`;
  if (unit.startsWith("units") || unit === "requests" || unit === "%") return `${number(value, 2)} ${unit}`;
  if (["queries/s", "calls/s", "transitions/s"].includes(unit)) return `${number(value, 1)} ${unit}`;
  const digits = unit === "ms" && value < 100 ? 2 : unit === "µs" ? 1 : 0;
  return `${number(value, digits)} ${unit}`;
}

export function number(value: number, digits: number = 0): string {
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function ratio(value: number): string {
  return `${number(value, 2)}×`;
}

function signed(value: number, unit: Unit): string {
  return `${value < 0 ? "−" : "+"}${amount(Math.abs(value), unit)}`;
}
