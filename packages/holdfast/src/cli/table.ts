import { coloured, paint, textOf, type Part } from "./style.js";
import { cut, widthOf } from "./text.js";

/** A column of a table. */
export interface Column {
  readonly title: string;
  /** Numbers stand at the right. */
  readonly align?: "left" | "right";
  /** Never cut: ids, say, that somebody will copy. */
  readonly whole?: true;
}

const GAP = 2;
// Below this a column says nothing any more.
const LEAST = 5;

/**
 * A table in lines. `cells` wide at most if that is given: then the widest columns are cut. Where that is not enough, each row
 * is a block of its own, a line for each cell.
 */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly Part[])[],
  { cells, colours }: { cells: number | null; colours: boolean },
): string[] {
  const all = [columns.map(({ title }): Part => paint(title, "bold")), ...rows];
  const texts = all.map((row) => columns.map((_, index) => textOf(row[index] ?? "")));
  const natural = columns.map((_, index) => Math.max(...texts.map((row) => widthOf(row[index] ?? ""))));
  const widths = cells === null ? natural : fit(natural, columns, cells);
  if (widths === null)
    return rows.flatMap((row, index) => [...(index === 0 ? [] : [""]), ...block(columns, row, colours)]);
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

/** One row, where a terminal is too narrow for a table: what is empty is left out. */
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

/** Takes from the widest column, cell by cell, until the row fits. Null: it does not. */
function fit(natural: readonly number[], columns: readonly Column[], cells: number): number[] | null {
  const widths = [...natural];
  const room = cells - GAP * (widths.length - 1);
  let total = widths.reduce((sum, width) => sum + width, 0);
  while (total > room) {
    let widest = -1;
    for (const [index, width] of widths.entries()) {
      if (columns[index]?.whole === true || width <= LEAST) continue;
      if (widest < 0 || width > (widths[widest] ?? 0)) widest = index;
    }
    if (widest < 0) return null;
    widths[widest] = (widths[widest] ?? 0) - 1;
    total--;
  }
  return widths;
}
