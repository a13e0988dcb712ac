/** Each column name of a list with its position, as literal types: `row[COLUMN.fence]` has the type of that column. */
export type ColumnPositions<Names extends readonly string[]> = {
  readonly [Position in keyof Names & `${number}` as Names[Position]]: Position extends `${infer Value extends number}`
    ? Value
    : never;
};

/**
 * Names the positions of rows that are read as arrays. The SELECT list and the positions derive from the same columns, so they
 * cannot diverge: a list of names, or an object with the SQL of each column by name.
 */
export function columnPositions<const Names extends readonly string[]>(names: Names): ColumnPositions<Names>;
export function columnPositions<Name extends string>(
  columns: Readonly<Record<Name, unknown>>,
): Readonly<Record<Name, number>>;
export function columnPositions(
  columns: readonly string[] | Readonly<Record<string, unknown>>,
): Record<string, number> {
  const names: readonly string[] = Array.isArray(columns) ? columns : Object.keys(columns);
  return Object.fromEntries(names.map((name, position) => [name, position]));
}

/** A row read as an array, with the type of each column. */
export type RowOf<Values, Names extends readonly (keyof Values)[]> = {
  -readonly [Position in keyof Names]: Values[Names[Position]];
};
