/**
 * Records on their way between threads, as columns: copying a few long lists costs a third of copying many short ones,
 * and a column whose values are all the same travels once.
 */
export interface Columns {
  length: number;
  /** One entry a column: all its values, or the one that all rows have. */
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

/** Calls `make` for each row with a function that gives its value in a column. */
export function fromColumns<Row>({ length, columns }: Columns, make: (at: (column: number) => unknown) => Row): Row[] {
  const rows: Row[] = [];
  let index = 0;
  const at = (number: number): unknown => {
    const values = columns[number];
    if (values === undefined) return undefined;
    return "all" in values ? values.all : values.each[index];
  };
  for (; index < length; index++) rows.push(make(at));
  return rows;
}
