import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

export const ROOT: string = join(import.meta.dirname, "../..");

/** A fenced block. `line` is that of its first line of text, counted from 1, as an editor shows it. */
export interface Block {
  document: string;
  line: number;
  language: string;
  text: string;
  /** `<!-- output -->` stands before it: the block after it says what it prints. */
  showsOutput: boolean;
}

export interface Link {
  line: number;
  target: string;
}

export interface Document {
  /** Path below the root of the repository, with forward slashes. */
  path: string;
  blocks: Block[];
  links: Link[];
  /** What `#…` can point to. */
  anchors: ReadonlySet<string>;
  /** Lines, with those inside of blocks empty. */
  prose: readonly string[];
}

const AT_THE_ROOT = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];

/** Every document whose blocks are run. */
export function findDocuments(): Document[] {
  const below = readdirSync(join(ROOT, "docs"), { recursive: true, encoding: "utf8" })
    .map((path) => `docs/${path.replaceAll("\\", "/")}`)
    .filter((path) => path.endsWith(".md"));
  const atTheRoot = AT_THE_ROOT.filter((path) => existsSync(join(ROOT, path)));
  // The README of the core is a copy of that at the root.
  const ofPacks = readdirSync(join(ROOT, "packages"))
    .filter((name) => name !== "holdfast")
    .map((name) => `packages/${name}/README.md`)
    .filter((path) => existsSync(join(ROOT, path)));
  return [...atTheRoot, ...ofPacks, ...below.toSorted()].map((path) => readDocument(path));
}

export function readDocument(path: string): Document {
  return parseDocument(path, readFileSync(join(ROOT, path), "utf8"));
}

const OPENING = /^(?<indent> *)(?<fence>`{3,}|~{3,})(?<info>.*)$/;
const OUTPUT_MARKER = /^\s*<!--\s*output\s*-->\s*$/;

export function parseDocument(path: string, text: string): Document {
  const blocks: Block[] = [];
  const prose: string[] = [];
  let open: { block: Block; fence: string; indent: number; lines: string[] } | null = null;
  let marked = false;
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (open !== null) {
      prose.push("");
      if (isClosing(line, open.fence)) {
        blocks.push({ ...open.block, text: open.lines.join("\n") });
        open = null;
      } else open.lines.push(line.slice(Math.min(open.indent, line.search(/\S|$/))));
      continue;
    }
    const opening = OPENING.exec(line)?.groups;
    prose.push(opening === undefined ? line : "");
    if (opening !== undefined) {
      const language = (opening["info"] ?? "").trim();
      const block: Block = { document: path, line: index + 2, language, text: "", showsOutput: marked };
      open = { block, fence: opening["fence"] ?? "", indent: opening["indent"]?.length ?? 0, lines: [] };
    }
    if (line.trim() !== "") marked = OUTPUT_MARKER.test(line);
  }
  // Otherwise an unclosed block would hide the rest of the document.
  if (open !== null) throw new Error(`${path}:${open.block.line - 1}: the block is never closed`);
  return { path, blocks, links: linksOf(prose), anchors: anchorsOf(prose), prose };
}

function isClosing(line: string, fence: string): boolean {
  const text = line.trim();
  return text.length >= fence.length && text === (fence[0] ?? "").repeat(text.length);
}

const INLINE_LINK = /\[[^\]]*\]\(<?(?<target>[^)\s>]+)>?(?:\s+"[^"]*")?\)/g;
const DEFINITION = /^\s{0,3}\[[^\]]+\]:\s+<?(?<target>[^\s>]+)/;

function linksOf(prose: readonly string[]): Link[] {
  return prose.flatMap((text, index) => {
    // An inline code span is no link; its length is kept.
    const line = text.replace(/(`+)(?:(?!\1).)*\1/g, (span) => "`".repeat(span.length));
    const targets = [...line.matchAll(INLINE_LINK), DEFINITION.exec(line)];
    return targets.flatMap((match) =>
      match?.groups?.["target"] === undefined ? [] : [{ line: index + 1, target: match.groups["target"] }],
    );
  });
}

/** The anchors that a code host makes of headings: lower case, no punctuation, hyphens for spaces, numbered if repeated. */
function anchorsOf(prose: readonly string[]): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const line of prose) {
    const heading = /^#{1,6}\s+(?<text>.*?)\s*#*$/.exec(line)?.groups?.["text"];
    if (heading === undefined) continue;
    const words = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").toLowerCase();
    const slug = words.replace(/[^\p{L}\p{N}\p{M}_\- ]/gu, "").replaceAll(" ", "-");
    let anchor = slug;
    for (let n = 1; anchors.has(anchor); n++) anchor = `${slug}-${n}`;
    anchors.add(anchor);
  }
  return anchors;
}

export interface Table {
  line: number;
  /** Cells, trimmed. */
  header: string[];
  rows: string[][];
}

export function tablesOf({ prose }: Document): Table[] {
  const tables: Table[] = [];
  for (const [index, line] of prose.entries()) {
    if (!line.startsWith("|")) continue;
    const cells = line.split(/(?<!\\)\|/).slice(1, -1);
    const row = cells.map((cell) => cell.replaceAll("\\|", "|").trim());
    const above = prose[index - 1]?.startsWith("|") === true ? tables.at(-1) : undefined;
    if (above === undefined) tables.push({ line: index + 1, header: row, rows: [] });
    else if (!row.every((cell) => /^:?-+:?$/.test(cell))) above.rows.push(row);
  }
  return tables;
}

/** The rows of the first table below a heading, and above the next. */
export function tableAfter(document: Document, heading: string): string[][] {
  const isHeading = (line: string): boolean => /^#{1,6}\s/.test(line);
  const start = document.prose.findIndex((line) => isHeading(line) && line.replace(/^#+\s+/, "") === heading);
  if (start < 0) throw new Error(`${document.path}: there is no heading "${heading}"`);
  const next = document.prose.findIndex((line, index) => index > start && isHeading(line));
  const table = tablesOf(document).find(({ line }) => line > start + 1 && (next < 0 || line <= next));
  if (table === undefined) throw new Error(`${document.path}: no table follows "${heading}"`);
  return table.rows;
}
