import { parse } from "smol-toml";

/** A line such as `[jobs]`. */
export interface Section {
  readonly path: readonly string[];
  /** Counted from 1. */
  readonly line: number;
  readonly start: number;
  readonly end: number;
}

/** A `key = value`, by its places in the text. */
export interface Pair {
  /** From the root of the document: `["jobs", "concurrency"]`. */
  readonly path: readonly string[];
  readonly line: number;
  readonly start: number;
  readonly valueStart: number;
  readonly valueEnd: number;
  /** The section that it stands in; null before the first. */
  readonly section: Section | null;
  /** The pair whose inline table it stands in. */
  readonly inside: Pair | null;
}

/** Where everything of a TOML text stands, in its order. */
export interface Layout {
  readonly sections: readonly Section[];
  readonly pairs: readonly Pair[];
}

const BLANK = /[ \t]*/y;
// Spaces, ends of lines and comments.
const GAP = /(?:[ \t\r\n]+|#[^\n]*)*/y;
const BARE_KEY = /[\w-]+/y;
const BARE_VALUE = /[^,\]}#\r\n]*/y;
const LINE_STRING = /"(?:[^"\\\n]|\\.)*"|'[^'\n]*'/y;
// Up to two quotes more than the three that end it are its own.
const BLOCK_STRING = /"""(?:[^\\]|\\[\s\S])*?"""(?:"{0,2})(?!")|'''[\s\S]*?'''(?:'{0,2})(?!')/y;

/** Finds the places in a text that the parser has taken; of another text nothing can be said. */
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
    this.#at = afterMark(text);
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

  /** Passes over a value. Of tables in lists nothing is kept: they have no path. */
  #value(section: Section | null, of: Pair | null): void {
    const here = this.#here();
    if (this.#text.startsWith('"""', this.#at) || this.#text.startsWith("'''", this.#at)) this.#take(BLOCK_STRING);
    else if (here === '"' || here === "'") this.#take(LINE_STRING);
    else if (here === "[") this.#items("]", () => this.#value(section, null));
    else if (here === "{") this.#items("}", () => this.#pair(section, of, of?.path ?? null));
    else this.#at += this.#look(BARE_VALUE).trimEnd().length;
  }

  #items(end: string, takeItem: () => void): void {
    this.#at++;
    for (this.#take(GAP); this.#at < this.#text.length && this.#here() !== end; this.#take(GAP)) {
      const before = this.#at;
      if (this.#here() === ",") this.#at++;
      else takeItem();
      // A text that is not TOML after all must not hold anybody up.
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
  #look(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#text)?.[0] ?? "";
  }
  #take(pattern: RegExp): string {
    const found = this.#look(pattern);
    this.#at += found.length;
    return found;
  }
  #lineHere(): number {
    for (; this.#counted < this.#at; this.#counted++) if (this.#text[this.#counted] === "\n") this.#line++;
    return this.#line;
  }
}

/** Where a text begins: after the mark that some editors put first. */
export function afterMark(text: string): number {
  return text.startsWith("\ufeff") ? 1 : 0;
}
