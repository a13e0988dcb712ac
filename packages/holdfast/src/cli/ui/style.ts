import { clean } from "../../terminal-text.js";

/** The colours that are used. */
export type Colour = "red" | "green" | "yellow" | "blue" | "cyan" | "magenta" | "gray" | "bold";

/** A text with a colour, which it has only where colours are shown. */
export interface Painted {
  readonly text: string;
  readonly colour: Colour;
}

/** What lines and cells are made of. Texts need not be clean. */
export type Part = string | Painted;

/** Gives a text a colour. */
export function paint(text: string, colour: Colour): Painted {
  return { text, colour };
}

/** The text of a part, clean. */
export function textOf(part: Part): string {
  return clean(typeof part === "string" ? part : part.text);
}

/** A clean text in the colour of its part. */
export function coloured(text: string, part: Part, colours: boolean): string {
  if (typeof part === "string" || !colours || text === "") return text;
  const [on, off] = CODES[part.colour];
  return `\u001b[${on}m${text}\u001b[${off}m`;
}

/** What turns each on, and off again. */
const CODES: Readonly<Record<Colour, readonly [on: number, off: number]>> = {
  bold: [1, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
  gray: [90, 39],
};

/** What decides on colours. */
export interface ColourChoice {
  /** `--color` or `--no-color`. */
  readonly flag: boolean | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly terminal: boolean;
}

/** As Node decides itself: a flag, then FORCE_COLOR, then NO_COLOR, then whether it is a terminal. */
export function showsColours({ flag, env, terminal }: ColourChoice): boolean {
  if (flag !== undefined) return flag;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return !["0", "false"].includes(forced);
  if ((env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb") return false;
  return terminal;
}
