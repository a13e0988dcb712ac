import { coloured, paint, textOf, type Part } from "./style.js";
import { cut, widthOf } from "./text-width.js";

/** A column of a table. */
export interface Column {
  readonly title: string;
  /** Numbers stand at the right. */
  readonly align?: "left" | "right";
  /** Never cut: ids, say, that somebody will copy. */
  readonly whole?: true;
  /** The fewest cells that it is worth to be cut to; default 5. */
  readonly least?: number;
  /** Where the others would get too few cells it stands below its row, on a line of its own. For one column at most. */
  readonly below?: true;
}

const GAP = 2;
// Below this a column says nothing any more.
const LEAST = 5;

/**
 * A table in lines. `cells` wide at most if that is given: then the widest columns are cut. Where that is not enough, the
 * column that may stands below its row; and where not even that, each row is a block of its own, a line for each cell.
 */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly Part[])[],
  room: { cells: number | null; colours: boolean },
): string[] {
  const { colours } = room;
  const whole = gridOf(columns, rows, room);
  if (whole !== null) return whole;
  const apart = columns.findIndex(({ below }) => below === true);
  if (apart >= 0) {
    const without = rows.map((row) => row.toSpliced(apart, 1));
    const [head = "", ...lines] = gridOf(columns.toSpliced(apart, 1), without, room) ?? [];
    if (lines.length > 0) {
      return [head, ...lines.flatMap((line, index) => [line, belowOf(rows[index]?.[apart] ?? "", colours)])];
    }
  }
  return rows.flatMap((row, index) => [...(index === 0 ? [] : [""]), ...block(columns, row, colours)]);
}

/** A line for the titles and one for each row; null where they do not fit. */
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
      if (columns[index]?.whole === true || width <= (columns[index]?.least ?? LEAST)) continue;
      if (widest < 0 || width > (widths[widest] ?? 0)) widest = index;
    }
    if (widest < 0) return null;
    widths[widest] = (widths[widest] ?? 0) - 1;
    total--;
  }
  return widths;
}
