import { isDeepStrictEqual } from "node:util";
import { parse } from "smol-toml";
import type { Value } from "./kind.js";
import { afterMark, layoutOf, type Layout, type Pair } from "./toml-text.js";

/** A value as TOML writes it. Texts must be free of control characters, as all of the configuration are. */
export function tomlValue(value: Value): string {
  if (typeof value === "object") return `[${value.map(tomlValue).join(", ")}]`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

/**
 * The text with one key set, and every other line as it was: a value is replaced where it stands, a new key is added to
 * its section, a new section at the end. Null if that cannot be done, because the section is no section there.
 */
export function setInText(text: string, key: string, value: Value): string | null {
  const path = key.split(".");
  const layout = layoutOf(text);
  const written = tomlValue(value);
  const pair = find(layout, path);
  const edited =
    pair === undefined
      ? insert(text, layout, path, written)
      : text.slice(0, pair.valueStart) + written + text.slice(pair.valueEnd);
  return differsOnlyIn(text, edited, path, value) ? edited : null;
}

/** The text without a key, which must be in it, and every other line as it was. Null if that cannot be done. */
export function unsetInText(text: string, key: string): string | null {
  const path = key.split(".");
  const layout = layoutOf(text);
  const pair = find(layout, path);
  if (pair === undefined) return null;
  const [from, to] = pair.inside === null ? linesOf(text, pair) : itemOf(text, layout, pair);
  const edited = text.slice(0, from) + text.slice(to);
  return differsOnlyIn(text, edited, path, undefined) ? edited : null;
}

function find(layout: Layout, path: readonly string[]): Pair | undefined {
  return layout.pairs.find((pair) => isDeepStrictEqual(pair.path, path));
}

function insert(text: string, layout: Layout, path: readonly string[], value: string): string {
  const [first = "", key] = path;
  if (key === undefined) return insertAtTop(text, layout, `${first} = ${value}`);
  const isOurs = (candidate: readonly string[]): boolean => candidate.length === 1 && candidate[0] === first;
  const section = layout.sections.find(({ path: of }) => isOurs(of));
  if (section !== undefined) {
    const last = layout.pairs.findLast((pair) => pair.section === section && pair.inside === null);
    return insertLine(text, last?.valueEnd ?? section.end, last?.start ?? section.start, `${key} = ${value}`);
  }
  const table = layout.pairs.find((pair) => isOurs(pair.path) && text[pair.valueStart] === "{");
  if (table !== undefined) return insertItem(text, layout, table, `${key} = ${value}`);
  // Once `jobs.x` stands there, `[jobs]` may not.
  const dotted = layout.pairs.findLast(
    (pair) => pair.section === null && pair.inside === null && pair.path[0] === first,
  );
  if (dotted !== undefined) return insertLine(text, dotted.valueEnd, dotted.start, `${first}.${key} = ${value}`);
  const end = endingOf(text);
  const gap = text.length === afterMark(text) ? "" : text.endsWith("\n") ? end : end + end;
  return `${text}${gap}[${first}]${end}${key} = ${value}${end}`;
}

/** After the other keys without a section; without any, above the first section, below what the file begins with. */
function insertAtTop(text: string, layout: Layout, line: string): string {
  const last = layout.pairs.findLast((pair) => pair.section === null && pair.inside === null);
  if (last !== undefined) return insertLine(text, last.valueEnd, last.start, line);
  const end = endingOf(text);
  const begin = afterMark(text);
  const first = layout.sections[0];
  if (first === undefined) {
    const gap = text.length === begin || text.endsWith("\n") ? "" : end;
    return `${text}${gap}${line}${end}`;
  }
  // Comments right above the section belong to it; those above an empty line, to the file.
  const head = /^(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*\r?\n/.exec(text.slice(begin, first.start))?.[0].length ?? 0;
  return `${text.slice(0, begin + head)}${line}${end}${end}${text.slice(begin + head)}`;
}

/** A line of its own below the one at `at`, indented as the one at `like`. */
function insertLine(text: string, at: number, like: number, line: string): string {
  const end = endingOf(text);
  const indent = /^[ \t]*/.exec(text.slice(startOfLine(text, like), like))?.[0] ?? "";
  const newline = text.indexOf("\n", at);
  if (newline < 0) return `${text}${end}${indent}${line}${end}`;
  return `${text.slice(0, newline + 1)}${indent}${line}${end}${text.slice(newline + 1)}`;
}

function insertItem(text: string, layout: Layout, table: Pair, item: string): string {
  const last = layout.pairs.findLast((pair) => pair.inside === table);
  const at = last?.valueEnd ?? table.valueStart + 1;
  const rest = text.slice(at);
  if (last !== undefined) return `${text.slice(0, at)}, ${item}${rest}`;
  return `${text.slice(0, at)} ${item}${rest.startsWith("}") ? " " : ""}${rest}`;
}

function linesOf(text: string, { start, valueEnd }: Pair): [from: number, to: number] {
  const newline = text.indexOf("\n", valueEnd);
  return [startOfLine(text, start), newline < 0 ? text.length : newline + 1];
}

/** With the comma that parts it from its neighbour. */
function itemOf(text: string, layout: Layout, pair: Pair): [from: number, to: number] {
  const items = layout.pairs.filter(({ inside }) => inside === pair.inside);
  const at = items.indexOf(pair);
  const next = items[at + 1];
  if (next !== undefined) return [pair.start, next.start];
  const before = items[at - 1];
  if (before !== undefined) return [before.valueEnd, pair.valueEnd];
  const comma = /^\s*,/.exec(text.slice(pair.valueEnd))?.[0].length ?? 0;
  return [pair.start, pair.valueEnd + comma];
}

function startOfLine(text: string, at: number): number {
  return Math.max(afterMark(text), text.lastIndexOf("\n", at - 1) + 1);
}

function endingOf(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}

/** An edit of text could go wrong where the text is odd: what counts is what the parser makes of it. */
function differsOnlyIn(before: string, after: string, path: readonly string[], value: Value | undefined): boolean {
  try {
    const expected = leavesOf(parse(before));
    if (value === undefined) expected.delete(JSON.stringify(path));
    else expected.set(JSON.stringify(path), value);
    return isDeepStrictEqual(leavesOf(parse(after)), expected);
  } catch {
    return false;
  }
}

/** Values by their paths. */
function leavesOf(table: object, above: readonly string[] = []): Map<string, unknown> {
  const leaves = new Map<string, unknown>();
  for (const [name, value] of Object.entries(table) as [string, unknown][]) {
    const path = [...above, name];
    if (isTable(value)) for (const [below, leaf] of leavesOf(value, path)) leaves.set(below, leaf);
    else leaves.set(JSON.stringify(path), value);
  }
  return leaves;
}

/** A section or inline table of a parsed text: neither a list nor a date. */
export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
