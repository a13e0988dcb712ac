/** A value in the format of DynamoDB. Only the types that Holdfast uses. */
export type Attribute =
  | { S: string }
  | { N: string }
  | { BOOL: boolean }
  | { L: Attribute[] }
  | { M: Record<string, Attribute> };
export type Item = Record<string, Attribute>;

export function stringAttribute(value: string): Attribute {
  return { S: value };
}
export function numberAttribute(value: number): Attribute {
  return { N: String(value) };
}
export function stringList(values: readonly string[]): Attribute {
  return { L: values.map(stringAttribute) };
}

export function stringOf(item: Item, name: string): string | null {
  const value = item[name];
  return value !== undefined && "S" in value ? value.S : null;
}
export function numberOf(item: Item, name: string): number | null {
  const value = item[name];
  return value !== undefined && "N" in value ? Number(value.N) : null;
}
export function flagOf(item: Item, name: string): boolean {
  const value = item[name];
  return value !== undefined && "BOOL" in value && value.BOOL;
}
export function stringsOf(item: Item, name: string): string[] {
  const value = item[name];
  return value !== undefined && "L" in value ? value.L.flatMap((each) => ("S" in each ? [each.S] : [])) : [];
}
/** A map attribute whose values are numbers. */
export function numbersOf(item: Item, name: string): Map<string, number> {
  const value = item[name];
  const entries = value !== undefined && "M" in value ? Object.entries(value.M) : [];
  return new Map(entries.map(([key, each]) => [key, "N" in each ? Number(each.N) : 0]));
}

/** A map attribute whose values are strings. */
export function stringMapOf(item: Item, name: string): Map<string, string> {
  const value = item[name];
  const entries = value !== undefined && "M" in value ? Object.entries(value.M) : [];
  return new Map(entries.flatMap(([key, each]) => ("S" in each ? [[key, each.S] as const] : [])));
}

/** Null fields are left out. An index does not contain items that lack its key attributes. */
export function itemOf(fields: Record<string, Attribute | string | number | boolean | null>): Item {
  const item: Item = {};
  for (const [name, value] of Object.entries(fields)) if (value !== null) item[name] = attributeOf(value);
  return item;
}

export function attributeOf(value: Attribute | string | number | boolean): Attribute {
  switch (typeof value) {
    case "string":
      return stringAttribute(value);
    case "number":
      return numberAttribute(value);
    case "boolean":
      return { BOOL: value };
    default:
      return value;
  }
}

/** DynamoDB's limit for the size of an item. */
export const MAX_ITEM_BYTES: number = 400 * 1024;
const NUMBER_BYTES = 21;

/** An upper bound of an item's size, as DynamoDB counts it: names and values in UTF-8. */
export function itemBytes(item: Item): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(item)) bytes += Buffer.byteLength(name) + attributeBytes(value);
  return bytes;
}

function attributeBytes(value: Attribute): number {
  if ("S" in value) return Buffer.byteLength(value.S);
  if ("N" in value) return NUMBER_BYTES;
  if ("BOOL" in value) return 1;
  if ("L" in value) return value.L.reduce((sum, each) => sum + 1 + attributeBytes(each), 3);
  return 3 + itemBytes(value.M) + Object.keys(value.M).length;
}
