import { isDeepStrictEqual } from "node:util";
import { parse } from "smol-toml";
import type { Value } from "./kind.js";
import { afterBom, layoutOf, type Layout, type Pair } from "./toml-text.js";

/** Formats a value as TOML. Strings must not contain control characters; the configuration does not allow them. */
export function tomlValue(value: Value): string {
  if (typeof value === "object") return `[${value.map(tomlValue).join(", ")}]`;
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

/**
 * Sets one key and leaves all other lines unchanged: replaces its value, adds the key to its section, or adds the section at the
 * end. Null if that is not possible, because the file uses the section's name for something else.
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

/** Removes a key and leaves all other lines unchanged. Null if the key is missing or cannot be removed. */
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
  // TOML does not allow a section `[jobs]` after a dotted key `jobs.x`.
  const dotted = layout.pairs.findLast(
    (pair) => pair.section === null && pair.inside === null && pair.path[0] === first,
  );
  if (dotted !== undefined) return insertLine(text, dotted.valueEnd, dotted.start, `${first}.${key} = ${value}`);
  const end = endingOf(text);
  const gap = text.length === afterBom(text) ? "" : text.endsWith("\n") ? end : end + end;
  return `${text}${gap}[${first}]${end}${key} = ${value}${end}`;
}

/** Inserts after the last key without a section. If there is none, above the first section, but below the comments at the top. */
function insertAtTop(text: string, layout: Layout, line: string): string {
  const last = layout.pairs.findLast((pair) => pair.section === null && pair.inside === null);
  if (last !== undefined) return insertLine(text, last.valueEnd, last.start, line);
  const end = endingOf(text);
  const begin = afterBom(text);
  const first = layout.sections[0];
  if (first === undefined) {
    const gap = text.length === begin || text.endsWith("\n") ? "" : end;
    return `${text}${gap}${line}${end}`;
  }
  // Comments directly above the section belong to it; those followed by an empty line belong to the file.
  const head = /^(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*\r?\n/.exec(text.slice(begin, first.start))?.[0].length ?? 0;
  return `${text.slice(0, begin + head)}${line}${end}${end}${text.slice(begin + head)}`;
}

/** Inserts a line below the one at `at`, indented like the one at `like`. */
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

/** The range of an item of an inline table, including the comma next to it. */
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
  return Math.max(afterBom(text), text.lastIndexOf("\n", at - 1) + 1);
}

function endingOf(text: string): string {
  return text.includes("\r\n") ? "\r\n" : "\n";
}

/** Checks an edit by parsing both versions, because editing unusual TOML as a string may go wrong. */
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

/** All values of a table by path. */
function leavesOf(table: object, above: readonly string[] = []): Map<string, unknown> {
  const leaves = new Map<string, unknown>();
  for (const [name, value] of Object.entries(table) as [string, unknown][]) {
    const path = [...above, name];
    if (isTable(value)) for (const [below, leaf] of leavesOf(value, path)) leaves.set(below, leaf);
    else leaves.set(JSON.stringify(path), value);
  }
  return leaves;
}

/** Whether a parsed value is a section or an inline table, and not an array or a date. */
export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);
}
