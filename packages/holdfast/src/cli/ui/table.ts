import { coloured, paint, textOf, type Part } from "./style.js";
import { cut, widthOf } from "./text-width.js";

/** A column of a table. */
export interface Column {
  readonly title: string;
  /** Use "right" for numbers. */
  readonly align?: "left" | "right";
  /** Never cut. For ids and names that users copy. */
  readonly whole?: true;
  /** The column is not cut below this width. Default 5. */
  readonly minWidth?: number;
  /** Printed on a separate line below its row if the table is too wide. For one column at most. */
  readonly below?: true;
}

const GAP = 2;
const MIN_WIDTH = 5;

/**
 * The lines of a table. If `cells` is given, the widest columns are cut to that width. If that is not enough, the column
 * with `below` is printed below its row. If that is not enough either, each row becomes a block with one line per cell.
 */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly Part[])[],
  size: { cells: number | null; colours: boolean },
): string[] {
  const { colours } = size;
  const whole = gridOf(columns, rows, size);
  if (whole !== null) return whole;
  const apart = columns.findIndex(({ below }) => below === true);
  if (apart >= 0) {
    const without = rows.map((row) => row.toSpliced(apart, 1));
    const [head = "", ...lines] = gridOf(columns.toSpliced(apart, 1), without, size) ?? [];
    if (lines.length > 0) {
      return [head, ...lines.flatMap((line, index) => [line, belowOf(rows[index]?.[apart] ?? "", colours)])];
    }
  }
  return rows.flatMap((row, index) => [...(index === 0 ? [] : [""]), ...block(columns, row, colours)]);
}

/** A line of titles and one line per row; null if they do not fit. */
function gridOf(
  columns: readonly Column[],
  rows: readonly (readonly Part[])[],
  { cells, colours }: { cells: number | null; colours: boolean },
): string[] | null {
  const all = [columns.map(({ title }): Part => paint(title, "bold")), ...rows];
  const texts = all.map((row) => columns.map((_, index) => textOf(row[index] ?? "")));
  const natural = columns.map((_, index) => Math.max(...texts.map((row) => widthOf(row[index] ?? ""))));
  const widths = cells === null ? natural : fit(natural, columns, cells);
  if (widths === null) return null;
  return texts.map((row, line) => {
    const shown = columns.map(({ align }, index) => {
      const width = widths[index] ?? 0;
      const text = cut(row[index] ?? "", width);
      const space = " ".repeat(width - widthOf(text));
      const inColour = coloured(text, all[line]?.[index] ?? "", colours);
      return align === "right" ? space + inColour : inColour + space;
    });
    return shown.join(" ".repeat(GAP)).trimEnd();
  });
}

function belowOf(part: Part, colours: boolean): string {
  return `${" ".repeat(GAP)}${coloured(textOf(part), part, colours)}`;
}

/** A row as a block, for a terminal that is too narrow for a table. Empty cells are omitted. */
function block(columns: readonly Column[], row: readonly Part[], colours: boolean): string[] {
  const widest = Math.max(...columns.map(({ title }) => widthOf(title)));
  return columns.flatMap(({ title }, index) => {
    const part = row[index] ?? "";
    const text = textOf(part);
    if (text === "") return [];
    const label = title === "" ? "" : `${title}:`;
    const space = " ".repeat(widest + 2 - widthOf(label));
    return [`${coloured(label, paint(label, "bold"), colours)}${space}${coloured(text, part, colours)}`];
  });
}

/** Narrows the widest column, cell by cell, until the row fits. Null if it cannot fit. */
function fit(natural: readonly number[], columns: readonly Column[], cells: number): number[] | null {
  const widths = [...natural];
  const available = cells - GAP * (widths.length - 1);
  let total = widths.reduce((sum, width) => sum + width, 0);
  while (total > available) {
    let widest = -1;
    for (const [index, width] of widths.entries()) {
      if (columns[index]?.whole === true || width <= (columns[index]?.minWidth ?? MIN_WIDTH)) continue;
      if (widest < 0 || width > (widths[widest] ?? 0)) widest = index;
    }
    if (widest < 0) return null;
    widths[widest] = (widths[widest] ?? 0) - 1;
    total--;
  }
  return widths;
}
