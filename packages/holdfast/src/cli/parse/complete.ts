import { flagsOf, type Argument, type Command, type Flag, type Flags } from "./command.js";
import { findCommand, flagNamed, hasSeparateValue } from "./parse.js";

/** A completion of the word under the cursor. */
export interface Candidate {
  readonly word: string;
  readonly description: string;
}

/** Makes the shell complete file names. */
export const FILES: Candidate = { word: ":files", description: "" };

/** Completions of the last word, which may be empty. `words` are those after `holdfast`. */
export function completionsOf(root: Command, words: readonly string[]): Candidate[] {
  const { before, current } = atCursor(words);
  const { command, path, rest } = findCommand(root, before);
  const flags = flagsOf(command, path.length === 0);
  const startsRight = ({ word }: Candidate): boolean => word === FILES.word || word.startsWith(current);

  const last = before.at(-1) ?? "";
  if (!before.includes("--")) {
    const open = hasSeparateValue(last, flags) ? flagNamed(last, flags) : undefined;
    if (open !== undefined) return valuesOf(open.flag).filter(startsRight);
    const inline = /^(?<flag>--[^=]+=)/.exec(current)?.groups?.["flag"];
    if (inline !== undefined) {
      const named = flagNamed(inline, flags);
      const values = named === undefined ? [] : valuesOf(named.flag);
      // The scripts find out where the file name begins.
      if (values.includes(FILES)) return values;
      return values.map(({ word, description }) => ({ word: `${inline}${word}`, description })).filter(startsRight);
    }
    if (current.startsWith("-")) {
      const given = new Set(rest.map((word) => flagNamed(word, flags)?.name));
      return Object.entries(flags)
        .filter(([name, { repeated }]) => repeated === true || !given.has(name))
        .map(([name, { description }]) => ({ word: `--${name}`, description }))
        .filter(startsRight);
    }
  }
  if (command.run === null) {
    // The words name a command that does not exist.
    if (countArguments(rest, flags) > 0) return [];
    return command.commands.map(({ name, summary }) => ({ word: name, description: summary })).filter(startsRight);
  }
  return argumentValues(command, rest).filter(startsRight);
}

/** bash splits `--state=dead` into three words; this joins them. */
function atCursor(words: readonly string[]): { before: readonly string[]; current: string } {
  const current = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  if (current === "=" && before.at(-1)?.startsWith("--") === true) return { before, current: "" };
  const joined: string[] = [];
  for (const [at, word] of before.entries()) {
    const isSign = word === "=" && before[at - 1]?.startsWith("--") === true;
    if (isSign && at === before.length - 1) continue;
    joined.push(word);
  }
  return { before: joined, current };
}

function valuesOf(of: Flag | Argument): Candidate[] {
  if (of.complete === "files") return [FILES];
  const words = of.complete ?? (of.kind === "choice" ? of.choices : []);
  return words.map((word) => ({ word, description: "" }));
}

/** The number of words that are not flags or their values. */
function countArguments(words: readonly string[], flags: Flags): number {
  let count = 0;
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? "";
    if (word === "--") continue;
    if (hasSeparateValue(word, flags)) at++;
    else if (!/^-./.test(word)) count++;
  }
  return count;
}

function argumentValues(command: Command, rest: readonly string[]): Candidate[] {
  const given = countArguments(rest, flagsOf(command, false));
  const args = Object.values(command.arguments);
  const argument = args[given] ?? (args.at(-1)?.repeated === true ? args.at(-1) : undefined);
  return argument === undefined ? [] : valuesOf(argument);
}
