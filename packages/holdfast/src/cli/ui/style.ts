import { clean } from "../../terminal-text.js";

/** The colours of the output. */
export type Colour = "red" | "green" | "yellow" | "blue" | "cyan" | "magenta" | "gray" | "bold";

/** A string with a colour. The colour is used only where colours are shown. */
export interface Painted {
  readonly text: string;
  readonly colour: Colour;
}

/** A part of a line or of a table cell. Its string need not be clean. */
export type Part = string | Painted;

/** Gives a string a colour. */
export function paint(text: string, colour: Colour): Painted {
  return { text, colour };
}

/** The string of a part, with control characters escaped. */
export function textOf(part: Part): string {
  return clean(typeof part === "string" ? part : part.text);
}

/** Adds the colour of a part to its clean string. */
export function coloured(text: string, part: Part, colours: boolean): string {
  if (typeof part === "string" || !colours || text === "") return text;
  const [on, off] = CODES[part.colour];
  return `\u001b[${on}m${text}\u001b[${off}m`;
}

/** The escape codes that turn each colour on and off. */
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

/** Inputs of {@link showsColours}. */
export interface ColourChoice {
  /** `--color` or `--no-color`. */
  readonly flag: boolean | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly terminal: boolean;
}

/** The order of Node: the flag, FORCE_COLOR, NO_COLOR, then whether it is a terminal. */
export function showsColours({ flag, env, terminal }: ColourChoice): boolean {
  if (flag !== undefined) return flag;
  const forced = env["FORCE_COLOR"];
  if (forced !== undefined) return !["0", "false"].includes(forced);
  if ((env["NO_COLOR"] ?? "") !== "" || env["TERM"] === "dumb") return false;
  return terminal;
}
