/** Each column name of a list with its position, as literal types: `row[AT.fence]` has the type of that column. */
export type ColumnPositions<Names extends readonly string[]> = {
  readonly [Position in keyof Names & `${number}` as Names[Position]]: Position extends `${infer Value extends number}`
    ? Value
    : never;
};

/**
 * Names the positions of rows that are read as arrays. The SELECT list and the positions derive from the same list,
 * so they cannot diverge.
 */
export function columnPositions<const Names extends readonly string[]>(names: Names): ColumnPositions<Names> {
  return Object.fromEntries(names.map((name, position) => [name, position])) as unknown as ColumnPositions<Names>;
}

/** A row read as an array, with the type of each column. */
export type RowOf<Values, Names extends readonly (keyof Values)[]> = {
  -readonly [Position in keyof Names]: Values[Names[Position]];
};
