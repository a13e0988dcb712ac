/**
 * Records as columns, to cross between threads: a structured clone of a few long arrays costs a third of one of many small
 * objects, and a column whose values are all equal is sent as one value.
 */
export interface Columns {
  length: number;
  /** One entry per column: the value of each row, or the one value of all rows. */
  columns: ({ each: unknown[] } | { all: unknown })[];
}

export function toColumns<Row>(rows: readonly Row[], keys: readonly (keyof Row)[]): Columns {
  return { length: rows.length, columns: keys.map((key) => column(rows, key)) };
}

function column<Row>(rows: readonly Row[], key: keyof Row): Columns["columns"][number] {
  const first: unknown = rows[0]?.[key];
  for (const row of rows) if (row[key] !== first) return { each: rows.map((other) => other[key]) };
  return { all: first };
}

/** Calls `make` for each row, with a function that returns the row's value in a column. */
export function fromColumns<Row>({ length, columns }: Columns, make: (at: (column: number) => unknown) => Row): Row[] {
  const rows: Row[] = [];
  let index = 0;
  const at = (position: number): unknown => {
    const values = columns[position];
    if (values === undefined) return undefined;
    return "all" in values ? values.all : values.each[index];
  };
  for (; index < length; index++) rows.push(make(at));
  return rows;
}
