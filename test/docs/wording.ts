/** How documents write values of `defaults.ts`. */

const UNITS = [
  ["days", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
  ["ms", 1],
] as const;

export function duration(ms: number): string {
  const [unit, size] = UNITS.find(([, length]) => ms >= length && ms % length === 0) ?? ["ms", 1];
  return `${count(ms / size)} ${unit}`;
}

export function bytes(value: number): string {
  if (value % 1_048_576 === 0) return `${value / 1_048_576} MB`;
  return value % 1_024 === 0 ? `${value / 1_024} KB` : `${value} bytes`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** Every leaf of a tree of settings, by its path, as documents write it. */
export function* leaves(tree: object, above = ""): Generator<[path: string, text: string]> {
  for (const [name, value] of Object.entries(tree) as [string, unknown][]) {
    const path = `${above}${name}`;
    if (typeof value === "object" && value !== null) yield* leaves(value, `${path}.`);
    else if (typeof value === "string") yield [path, `\`${JSON.stringify(value)}\``];
    else if (/Ms$|\.age$|backoff\.(?:base|max)$/.test(path)) yield [path, duration(value as number)];
    else if (path.endsWith("Bytes")) yield [path, bytes(value as number)];
    else yield [path, count(value as number)];
  }
}
