/** JSON as it was written: numbers keep all their digits, keys their order. `JSON.parse` would round 9007199254740993. */

interface Written {
  /** Where it is in the text, so that exactly this part can be copied. */
  start: number;
  end: number;
}
export type JsonNode = Written &
  (
    | { kind: "object"; entries: [key: string, value: JsonNode][] }
    | { kind: "array"; items: JsonNode[] }
    | { kind: "string"; value: string }
    | { kind: "number"; text: string }
    | { kind: "word"; text: "true" | "false" | "null" }
  );

/** Where a string is no JSON, and why. Lines and columns begin with 1. */
export interface JsonError {
  message: string;
  at: number;
  line: number;
  column: number;
}

/** Deeper nesting would end in a stack overflow. The server accepts 200 levels. */
const MAX_DEPTH = 500;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const [QUOTE, BACKSLASH, SPACE] = [0x22, 0x5c, 0x20];
const WORD = /[A-Za-z_]+/y;

class NotJson extends Error {
  readonly at: number;
  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

export function parseJson(text: string): { node: JsonNode; error?: never } | { node?: never; error: JsonError } {
  try {
    return { node: new Parser(text).read() };
  } catch (thrown) {
    if (!(thrown instanceof NotJson)) throw thrown;
    const before = text.slice(0, thrown.at);
    const line = before.split("\n").length;
    const column = thrown.at - before.lastIndexOf("\n");
    return { error: { message: thrown.message, at: thrown.at, line, column } };
  }
}

class Parser {
  readonly #text: string;
  #at = 0;
  constructor(text: string) {
    this.#text = text;
  }

  read(): JsonNode {
    this.#skip();
    const node = this.#value(0);
    this.#skip();
    if (this.#at < this.#text.length) throw this.#fail(`Nothing may follow, but there is ${this.#found()}.`);
    return node;
  }

  #value(depth: number): JsonNode {
    if (depth > MAX_DEPTH) throw this.#fail(`It is nested deeper than ${MAX_DEPTH} levels.`);
    const start = this.#at;
    const sign = this.#text[start];
    if (sign === "{") return this.#object(depth);
    if (sign === "[") return this.#array(depth);
    if (sign === '"') return { kind: "string", value: this.#string(), start, end: this.#at };
    const number = this.#match(NUMBER);
    if (number !== null) {
      if (/[\d.]/.test(this.#text[this.#at] ?? "")) throw new NotJson("This is not a number in JSON.", start);
      return { kind: "number", text: number, start, end: this.#at };
    }
    const word = this.#match(WORD);
    if (word === "true" || word === "false" || word === "null")
      return { kind: "word", text: word, start, end: this.#at };
    this.#at = start;
    if (word !== null) throw this.#fail(`"${word.slice(0, 40)}" is not a value. Strings have double quotes.`);
    throw this.#fail(`A value is missing: there is ${this.#found()}.`);
  }

  #object(depth: number): JsonNode {
    const start = this.#at++;
    const entries: [string, JsonNode][] = [];
    this.#skip();
    while (!this.#take("}")) {
      if (entries.length > 0) this.#expect(",", "A comma or } is missing");
      this.#skip();
      if (this.#text[this.#at] !== '"')
        throw this.#fail(`A key in double quotes is missing: there is ${this.#found()}.`);
      const key = this.#string();
      this.#skip();
      this.#expect(":", "A colon is missing");
      this.#skip();
      entries.push([key, this.#value(depth + 1)]);
      this.#skip();
    }
    return { kind: "object", entries, start, end: this.#at };
  }

  #array(depth: number): JsonNode {
    const start = this.#at++;
    const items: JsonNode[] = [];
    this.#skip();
    while (!this.#take("]")) {
      if (items.length > 0) this.#expect(",", "A comma or ] is missing");
      this.#skip();
      items.push(this.#value(depth + 1));
      this.#skip();
    }
    return { kind: "array", items, start, end: this.#at };
  }

  #string(): string {
    const start = this.#at;
    for (let at = start + 1; at < this.#text.length; at++) {
      const code = this.#text.charCodeAt(at);
      if (code === BACKSLASH) at++;
      else if (code === QUOTE) {
        this.#at = at + 1;
        return this.#unescape(this.#text.slice(start, at + 1), start);
      } else if (code < SPACE) {
        throw new NotJson("A string must not contain line breaks and tabs: write \\n and \\t.", at);
      }
    }
    throw new NotJson("This string does not end.", start);
  }

  #unescape(text: string, start: number): string {
    try {
      return JSON.parse(text) as string;
    } catch {
      throw new NotJson("This string has a wrong escape: write two backslashes for one.", start);
    }
  }

  #expect(sign: string, message: string): void {
    if (!this.#take(sign)) throw this.#fail(`${message}: there is ${this.#found()}.`);
  }

  #take(sign: string): boolean {
    if (this.#text[this.#at] !== sign) return false;
    this.#at++;
    return true;
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at;
    const [found] = pattern.exec(this.#text) ?? [];
    if (found === undefined) return null;
    this.#at += found.length;
    return found;
  }

  #skip(): void {
    while (" \n\t\r".includes(this.#text[this.#at] ?? "x")) this.#at++;
  }

  #found(): string {
    const sign = this.#text.codePointAt(this.#at);
    return sign === undefined ? "nothing more" : String.fromCodePoint(sign);
  }

  #fail(message: string): NotJson {
    return new NotJson(message, this.#at);
  }
}

/** The part of the string that a value was read from, indented. Numbers and strings stay as they were written. */
export function formatJson(text: string, node: JsonNode, indent = ""): string {
  const inner = `${indent}  `;
  if (node.kind === "object" && node.entries.length > 0) {
    const lines = node.entries.map(
      ([key, value]) => `${inner}${JSON.stringify(key)}: ${formatJson(text, value, inner)}`,
    );
    return `{\n${lines.join(",\n")}\n${indent}}`;
  }
  if (node.kind === "array" && node.items.length > 0) {
    return `[\n${node.items.map((item) => `${inner}${formatJson(text, item, inner)}`).join(",\n")}\n${indent}]`;
  }
  if (node.kind === "object") return "{}";
  return node.kind === "array" ? "[]" : text.slice(node.start, node.end);
}

/** Whether a program that reads the number as a double gets the same number. */
export function isExact(text: string): boolean {
  const value = Number(text);
  return Number.isFinite(value) && digitsOf(text) === digitsOf(String(value));
}

/** One way to write each number: its digits without zeros at the ends, and the power of ten. */
function digitsOf(text: string): string {
  const [mantissa = "", exponent = "0"] = text.toLowerCase().replace(/^-/, "").split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  const digits = `${whole}${fraction}`.replace(/^0+/, "");
  const short = withoutLastZeros(digits);
  const power = Number(exponent) - fraction.length + digits.length - short.length;
  return short === "" ? "0" : `${text.startsWith("-") ? "-" : ""}${short}e${power}`;
}

/** Not by a regular expression, which would take minutes for 250,000 zeros before another digit. */
function withoutLastZeros(digits: string): string {
  let end = digits.length;
  while (digits[end - 1] === "0") end--;
  return digits.slice(0, end);
}

/** The first number that JavaScript would round; null if there is none. */
export function firstInexact(node: JsonNode): (JsonNode & { kind: "number" }) | null {
  if (node.kind === "number") return isExact(node.text) ? null : node;
  const inner =
    node.kind === "object" ? node.entries.map(([, value]) => value) : node.kind === "array" ? node.items : [];
  for (const each of inner) {
    const found = firstInexact(each);
    if (found !== null) return found;
  }
  return null;
}

/** A string of JSON that is to be sent. Refuses numbers that JavaScript would round before they are sent. */
export function readForSending(text: string): { value: unknown; error?: never } | { value?: never; error: JsonError } {
  const { node, error } = parseJson(text);
  if (error !== undefined) return { error };
  const number = firstInexact(node);
  if (number === null) return { value: JSON.parse(text) as unknown };
  const before = text.slice(0, number.start);
  return {
    error: {
      message: `${number.text.slice(0, 60)} has more digits than a number in JavaScript. Send it as a string.`,
      at: number.start,
      line: before.split("\n").length,
      column: number.start - before.lastIndexOf("\n"),
    },
  };
}

/** The value of a key of an object; undefined if it has none. Of several, the last one, as `JSON.parse` does. */
export function memberOf(node: JsonNode, key: string): JsonNode | undefined {
  return node.kind === "object" ? node.entries.findLast(([name]) => name === key)?.[1] : undefined;
}

/** What a closed object or array shows of its content. */
export function summaryOf(node: JsonNode): string {
  if (node.kind === "array") return `[${node.items.length}]`;
  if (node.kind !== "object") return "";
  const [first] = node.entries;
  const size = `{${node.entries.length}}`;
  if (first === undefined) return size;
  const [key, value] = first;
  const shown = value.kind === "string" ? value.value : "text" in value ? value.text : summaryOf(value);
  return `${size}  ${cut(key, 40)}: ${cut(shown, 60)}`;
}

// Marks that turn the direction of writing are invisible, and change the words after them.
export const DIRECTION = /[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g;

export function cut(text: string, length: number): string {
  return text.length <= length ? text : `${headOf(text, length - 1)}…`;
}

/** The beginning of a string, without half a character at its end. */
export function headOf(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}
