import { parse } from "smol-toml";

/** A line such as `[jobs]`. */
export interface Section {
  readonly path: readonly string[];
  /** Counted from 1. */
  readonly line: number;
  readonly start: number;
  readonly end: number;
}

/** A `key = value` and its positions in the file. */
export interface Pair {
  /** From the root of the document: `["jobs", "concurrency"]`. */
  readonly path: readonly string[];
  readonly line: number;
  readonly start: number;
  readonly valueStart: number;
  readonly valueEnd: number;
  /** The section that contains it; null before the first section. */
  readonly section: Section | null;
  /** The pair whose inline table contains it. */
  readonly inside: Pair | null;
}

/** The positions of all sections and pairs of a TOML file, in order. */
export interface Layout {
  readonly sections: readonly Section[];
  readonly pairs: readonly Pair[];
}

const BLANK = /[ \t]*/y;
// Spaces, line breaks and comments.
const GAP = /(?:[ \t\r\n]+|#[^\n]*)*/y;
const BARE_KEY = /[\w-]+/y;
const BARE_VALUE = /[^,\]}#\r\n]*/y;
const LINE_STRING = /"(?:[^"\\\n]|\\.)*"|'[^'\n]*'/y;
// The string may end with up to two quotes before its three closing quotes.
const BLOCK_STRING = /"""(?:[^\\]|\\[\s\S])*?"""(?:"{0,2})(?!")|'''[\s\S]*?'''(?:'{0,2})(?!')/y;

/** Finds the positions in a TOML file. The file must have been parsed successfully before. */
export function layoutOf(text: string): Layout {
  const reader = new LayoutReader(text);
  reader.read();
  return reader;
}

class LayoutReader implements Layout {
  readonly sections: Section[] = [];
  readonly pairs: Pair[] = [];
  readonly #text: string;
  #at: number;
  #line = 1;
  #counted = 0;

  constructor(text: string) {
    this.#text = text;
    this.#at = afterBom(text);
  }

  read(): void {
    let section: Section | null = null;
    for (this.#take(GAP); this.#at < this.#text.length; this.#take(GAP)) {
      if (this.#here() === "[") section = this.#section();
      else this.#pair(section, null, section?.path ?? []);
    }
  }

  #section(): Section {
    const start = this.#at;
    const line = this.#lineHere();
    const brackets = this.#text.startsWith("[[", start) ? 2 : 1;
    this.#at += brackets;
    const path = this.#key();
    this.#at += brackets;
    const section = { path, line, start, end: this.#at };
    this.sections.push(section);
    return section;
  }

  #pair(section: Section | null, inside: Pair | null, above: readonly string[] | null): void {
    const start = this.#at;
    const line = this.#lineHere();
    const key = this.#key();
    // The equals sign.
    this.#at++;
    this.#take(BLANK);
    const valueStart = this.#at;
    const path = above === null ? null : [...above, ...key];
    const pair = { path: path ?? [], line, start, valueStart, valueEnd: valueStart, section, inside };
    if (path !== null) this.pairs.push(pair);
    this.#value(section, path === null ? null : pair);
    pair.valueEnd = this.#at;
  }

  /** Skips a value. Tables in arrays are not recorded, because they have no path. */
  #value(section: Section | null, of: Pair | null): void {
    const here = this.#here();
    if (this.#text.startsWith('"""', this.#at) || this.#text.startsWith("'''", this.#at)) this.#take(BLOCK_STRING);
    else if (here === '"' || here === "'") this.#take(LINE_STRING);
    else if (here === "[") this.#items("]", () => this.#value(section, null));
    else if (here === "{") this.#items("}", () => this.#pair(section, of, of?.path ?? null));
    else this.#at += this.#match(BARE_VALUE).trimEnd().length;
  }

  #items(end: string, takeItem: () => void): void {
    this.#at++;
    for (this.#take(GAP); this.#at < this.#text.length && this.#here() !== end; this.#take(GAP)) {
      const before = this.#at;
      if (this.#here() === ",") this.#at++;
      else takeItem();
      // Always advance: invalid TOML must not cause an endless loop.
      if (this.#at === before) this.#at++;
    }
    this.#at++;
  }

  #key(): string[] {
    const path: string[] = [];
    for (;;) {
      this.#take(BLANK);
      const quoted = this.#take(LINE_STRING);
      path.push(quoted === "" ? this.#take(BARE_KEY) : (parse(`key = ${quoted}`)["key"] as string));
      this.#take(BLANK);
      if (this.#here() !== ".") return path;
      this.#at++;
    }
  }

  #here(): string | undefined {
    return this.#text[this.#at];
  }
  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#text)?.[0] ?? "";
  }
  #take(pattern: RegExp): string {
    const found = this.#match(pattern);
    this.#at += found.length;
    return found;
  }
  #lineHere(): number {
    for (; this.#counted < this.#at; this.#counted++) if (this.#text[this.#counted] === "\n") this.#line++;
    return this.#line;
  }
}

/** The start of the content, after a byte order mark. */
export function afterBom(text: string): number {
  return text.startsWith("\ufeff") ? 1 : 0;
}
