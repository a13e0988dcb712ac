import { parseArgs, type ParseArgsConfig } from "node:util";
import {
  describe,
  didYouMean,
  parseValue,
  showValue,
  type GivenFlag,
  type KeyName,
  type Kind,
} from "../../config/index.js";
import { STDIN } from "./stdin.js";
import { flagsOf, type Argument, type Command, type Flag, type Flags } from "./command.js";
import { UsageError } from "../errors.js";

/** A parsed and validated command line. */
export interface Call {
  readonly command: Command;
  /** `["config", "get"]`. */
  readonly path: readonly string[];
  readonly flags: Readonly<Record<string, unknown>>;
  readonly args: Readonly<Record<string, unknown>>;
  /** Flags that set configuration keys. */
  readonly keyFlags: Readonly<Partial<Record<KeyName, GivenFlag>>>;
}

/** The command that the words name, and the words after it. */
export interface Found {
  readonly command: Command;
  readonly path: readonly string[];
  readonly rest: readonly string[];
}

const NEGATIVE_NUMBER = /^-\.?\d/;

/** Follows the words that name commands, from the root. Flags may be anywhere between them. */
export function findCommand(root: Command, words: readonly string[]): Found {
  let command = root;
  const path: string[] = [];
  const rest: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "--") return { command, path, rest: [...rest, ...words.slice(at)] };
    const next = command.commands.find(({ name }) => name === word);
    if (next !== undefined && command.run === null) {
      command = next;
      path.push(word);
      continue;
    }
    rest.push(word);
    // The value of a flag is not the name of a command.
    const value = words[at + 1];
    if (value !== undefined && hasSeparateValue(word, flagsOf(command, path.length === 0))) {
      rest.push(value);
      at++;
    }
  }
  return { command, path, rest };
}

/** Whether the word is a flag whose value is the next word. */
export function hasSeparateValue(word: string, flags: Flags): boolean {
  const flag = word.includes("=") ? undefined : flagNamed(word, flags)?.flag;
  return flag !== undefined && flag.kind !== "switch";
}

/** The flag that a word such as `--limit`, `--limit=3` or `-l` names. */
export function flagNamed(word: string, flags: Flags): { name: string; flag: Flag } | undefined {
  const long = /^--(?<name>[^=]+)/.exec(word)?.groups?.["name"];
  const short = /^-(?<name>[^-\d])$/.exec(word)?.groups?.["name"];
  const found = Object.entries(flags).find(
    ([name, flag]) => name === long || (short !== undefined && flag.short === short),
  );
  return found === undefined ? undefined : { name: found[0], flag: found[1] };
}

/** The hint of an error in a command line. */
export function usageHint(command: string): string {
  return `run: ${command} --help`;
}

/** The words before `--`: those after it are arguments, even if they look like flags. */
function beforeDashes(words: readonly string[]): readonly string[] {
  return words.includes("--") ? words.slice(0, words.indexOf("--")) : words;
}

/** A switch such as `--json` or `--no-color`, without parsing the command line. The last one counts. Undefined: not given. */
export function findSwitch(words: readonly string[], name: string): boolean | undefined {
  const last = beforeDashes(words).findLast((word) =>
    [`--${name}`, `--no-${name}`].includes(word.split("=", 1)[0] ?? ""),
  );
  return last === undefined ? undefined : last === `--${name}` || last === `--${name}=true`;
}

/** Parses a command line. Throws {@link UsageError}. */
export function parseCall(root: Command, words: readonly string[]): Call {
  const { command, path, rest } = findCommand(root, words);
  const shown = [root.name, ...path].join(" ");
  const hint = usageHint(shown);
  const flags = flagsOf(command, path.length === 0);
  const typed = beforeDashes(rest);
  const helpOrVersionCall = (what: "help" | "version"): Call => {
    return { command, path, flags: { [what]: true, json: typed.includes("--json") }, args: {}, keyFlags: {} };
  };
  // An unknown command is reported before its flags, which belong to the command that was meant.
  const word = command.run === null ? firstValue(rest, flags) : undefined;
  if (word !== undefined) throw commandUsageError(command, path, shown, word);
  // --help wins over any other mistake in the command line.
  if (typed.some((each) => each === "--help" || each === "-h")) return helpOrVersionCall("help");
  const { given, values } = splitWords(rest, flags, shown, hint);
  if (path.length === 0 && given.get("version")?.at(-1) === true) return helpOrVersionCall("version");
  if (path.length === 0 && values.length === 0) return helpOrVersionCall("help");
  if (command.run === null) throw commandUsageError(command, path, shown, values[0]);
  // A missing argument is reported before a wrong flag.
  const args = readArguments(command, values, shown, hint);
  return { command, path, ...readFlags(flags, given, hint), args };
}

/** The first word that is not a flag. Undefined after an unknown flag, as the word may be its value. */
function firstValue(words: readonly string[], flags: Flags): string | undefined {
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (!word.startsWith("-")) return word;
    if (flagNamed(word.replace(/^--no-/, "--"), flags) === undefined) return undefined;
    if (hasSeparateValue(word, flags)) at++;
  }
  return undefined;
}

/** Words that are often typed for one another. */
const SYNONYMS: readonly (readonly string[])[] = [
  ["delete", "remove", "rm", "del", "destroy", "revoke"],
  ["list", "ls"],
  ["show", "get", "view", "describe", "info"],
  ["create", "add", "new", "make"],
  ["update", "edit", "change"],
  ["resume", "unpause"],
];

function suggestion(word: string, names: readonly string[]): string {
  const same = SYNONYMS.find((words) => words.includes(word.toLowerCase())) ?? [];
  const name = names.find((each) => same.includes(each));
  return name === undefined ? didYouMean(word, names) : `; did you mean ${name}?`;
}

function commandUsageError(
  command: Command,
  path: readonly string[],
  shown: string,
  word: string | undefined,
): UsageError {
  const names = command.commands.map(({ name }) => name);
  if (word === undefined) {
    return new UsageError(`${shown} needs a command: ${names.join(", ")}`, usageHint(shown));
  }
  const where = path.length === 0 ? "unknown command" : `${shown}: unknown command`;
  return new UsageError(`${where} ${showValue(word)}${suggestion(word, names)}`, usageHint(shown));
}

type Raw = string | boolean;

/** Splits the words into flags, with their unparsed values, and positional arguments. */
function splitWords(
  words: readonly string[],
  flags: Flags,
  shown: string,
  hint: string,
): { given: Map<string, Raw[]>; values: string[] } {
  const args = joinValues(words, flags, hint);
  const { tokens } = parseArgs({
    args,
    options: optionsOf(flags),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given = new Map<string, Raw[]>();
  const values: string[] = [];
  let numberAt = -1;
  for (const token of tokens) {
    if (token.kind === "positional") values.push(token.value);
    if (token.kind !== "option") continue;
    const word = args[token.index] ?? "";
    // Node reads -12 as the flags -1 and -2.
    if (NEGATIVE_NUMBER.test(word)) {
      if (token.index !== numberAt) values.push(word);
      numberAt = token.index;
      continue;
    }
    const { name, value } = readToken(token, flags, shown, hint);
    given.set(name, [...(given.get(name) ?? []), value]);
  }
  return { given, values };
}

function optionsOf(flags: Flags): NonNullable<ParseArgsConfig["options"]> {
  const options = Object.entries(flags).map(([name, { kind, short }]) => {
    return [name, { type: kind === "switch" ? "boolean" : "string", ...(short !== undefined && { short }) }] as const;
  });
  return Object.fromEntries(options);
}

/** Turns `--limit 3` into `--limit=3`, so that a value may be a negative number, or `-` for stdin. */
function joinValues(words: readonly string[], flags: Flags, hint: string): string[] {
  const joined: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "--") return [...joined, ...words.slice(at)];
    if (!hasSeparateValue(word, flags)) {
      joined.push(word);
      continue;
    }
    const value = words[++at];
    const { name } = flagNamed(word, flags) as { name: string };
    if (value === undefined || (value.startsWith("-") && value !== "-" && !NEGATIVE_NUMBER.test(value))) {
      throw new UsageError(`--${name} needs a value: ${describe(flags[name] as Kind)}`, hint);
    }
    joined.push(`--${name}=${value}`);
  }
  return joined;
}

function readToken(
  token: { name: string; rawName: string; value?: string | undefined },
  flags: Flags,
  shown: string,
  hint: string,
): { name: string; value: Raw } {
  const { rawName, value } = token;
  const flag = Object.hasOwn(flags, token.name) ? flags[token.name] : undefined;
  if (flag !== undefined) {
    if (flag.kind !== "switch") return { name: token.name, value: value ?? "" };
    if (value === undefined) return { name: token.name, value: true };
    const read = parseValue(flag, value);
    if ("value" in read) return { name: token.name, value: read.value === true };
    throw new UsageError(`--${token.name}: ${showValue(value)} ${read.problem}`, hint);
  }
  const negated = /^--no-(?<name>.+)$/.exec(rawName)?.groups?.["name"];
  if (negated !== undefined && flags[negated]?.kind === "switch" && value === undefined) {
    return { name: negated, value: false };
  }
  const known = Object.entries(flags).flatMap(([name, { kind }]) =>
    kind === "switch" ? [name, `no-${name}`] : [name],
  );
  const meant = didYouMean(rawName.replace(/^-+/, ""), known).replace("mean ", "mean --");
  throw new UsageError(`${shown}: unknown flag ${escaped(rawName)}${meant}`, hint);
}

function escaped(text: string): string {
  return showValue(text).slice(1, -1);
}

function readFlags(
  flags: Flags,
  given: ReadonlyMap<string, readonly Raw[]>,
  hint: string,
): { flags: Record<string, unknown>; keyFlags: Partial<Record<KeyName, GivenFlag>> } {
  const values: Record<string, unknown> = {};
  const keyFlags: Partial<Record<KeyName, GivenFlag>> = {};
  for (const [name, flag] of Object.entries(flags)) {
    const givenValues = given.get(name) ?? [];
    if (flag.key !== undefined) {
      // Checked with the configuration, whose errors name the key.
      const last = givenValues.at(-1);
      if (last !== undefined) keyFlags[flag.key] = { name: `--${name}`, text: String(last) };
      continue;
    }
    if (flag.required === true && givenValues.length === 0) {
      throw new UsageError(`--${name} is required: ${describe(flag)}`, hint);
    }
    if (givenValues.length > 1 && flag.repeated !== true && flag.kind !== "switch") {
      throw new UsageError(`--${name} was given ${givenValues.length} times; give it once`, hint);
    }
    // No choice contains a comma.
    const parts =
      flag.repeated === true && flag.kind === "choice"
        ? givenValues.flatMap((text) => String(text).split(","))
        : givenValues;
    const read = parts.map((text) => (typeof text === "boolean" ? text : readOne(`--${name}`, flag, text, hint)));
    if (flag.repeated === true) values[name] = read;
    else if (name === "color") values[name] = read.at(-1);
    else values[name] = read.at(-1) ?? flag.default ?? (flag.kind === "switch" ? false : undefined);
  }
  return { flags: values, keyFlags };
}

function readOne(name: string, kind: Flag | Argument, text: string, hint: string): unknown {
  if (kind.stdin === true && text === "-") return STDIN;
  if (kind.kind === "text" && text === "") throw emptyValue(name, hint);
  const read = parseValue(kind, text);
  if ("value" in read) return read.value;
  const meant = kind.kind === "choice" ? didYouMean(text, kind.choices) : "";
  throw new UsageError(
    `${name}: ${showValue(text)} ${read.problem}${meant}`,
    kind.kind === "json" ? `quote it for the shell: '{"to":"ada"}'` : hint,
  );
}

/** A script often passes a variable that is not set. */
function emptyValue(name: string, hint: string): UsageError {
  const remedy = name.startsWith("--") ? "omit the flag, or give it a value" : "give it a value";
  return new UsageError(`${name} is empty; ${remedy}`, hint);
}

function readArguments(
  command: Command,
  givenValues: readonly string[],
  shown: string,
  hint: string,
): Record<string, unknown> {
  const args = Object.entries(command.arguments);
  const values: Record<string, unknown> = {};
  let at = 0;
  for (const [name, argument] of args) {
    const own = argument.repeated === true ? givenValues.slice(at) : givenValues.slice(at, at + 1);
    at += own.length;
    if (own.length === 0 && argument.optional !== true) {
      throw new UsageError(`${shown}: missing argument ${placeholderOf(name, argument)}`, hint);
    }
    const read = own.map((text) => readOne(`<${name}>`, argument, text, hint));
    values[name] = argument.repeated === true ? read : read[0];
  }
  const extra = givenValues[at];
  if (extra !== undefined) {
    const takes =
      args.length === 0
        ? "takes no arguments"
        : `takes ${args.map(([name, each]) => placeholderOf(name, each)).join(" ")}`;
    throw new UsageError(`${shown} ${takes}; unexpected argument ${showValue(extra)}`, hint);
  }
  return values;
}

/** `<key>`, `<id>…`, `[module]`. */
export function placeholderOf(name: string, { optional, repeated }: Argument): string {
  return `${optional === true ? `[${name}]` : `<${name}>`}${repeated === true ? "…" : ""}`;
}
