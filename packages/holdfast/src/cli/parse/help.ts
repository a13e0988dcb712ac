import { flagsOf, type Command, type Flag } from "./command.js";
import type { Output } from "../ui/output.js";
import { placeholderOf } from "./parse.js";
import { widthOf, wrap } from "../ui/text-width.js";

// The same on every terminal.
const CELLS = 80;
const INDENT = 2;
const MAX_NAME_CELLS = 30;

/** The help of a command. Without `globals`, only its own flags are listed. */
export function helpText(
  root: Command,
  path: readonly string[],
  command: Command,
  { globals }: { globals: boolean } = { globals: true },
): string {
  const sections = [
    wrap(command.summary, CELLS).join("\n"),
    ...(command.about === undefined ? [] : [wrap(command.about, CELLS).join("\n")]),
    usage(root, path, command),
    list(
      "Arguments",
      Object.entries(command.arguments).map(([name, argument]) => [
        placeholderOf(name, argument),
        describeOption(argument),
      ]),
    ),
    list(
      "Commands",
      command.commands.map((each) => [[each.name, ...argumentsOf(each)].join(" "), each.summary]),
    ),
    list("Flags", flagRows(command.flags)),
    globals ? list("Global flags", flagRows(globalsOf(command, path))) : "",
    examples(root, command),
    command.run === null ? `Run ${[root.name, ...path].join(" ")} <command> --help for details of a command.` : "",
  ];
  return sections.filter((section) => section !== "").join("\n\n");
}

/** Prints help as the result of the command. */
export function showHelp(output: Output, root: Command, path: readonly string[], command: Command): undefined {
  const text = helpText(root, path, command);
  output.result({ help: text }, (writer) => writer.block(text));
  return undefined;
}

function globalsOf(command: Command, path: readonly string[]): Record<string, Flag> {
  return Object.fromEntries(
    Object.entries(flagsOf(command, path.length === 0)).filter(([name]) => !Object.hasOwn(command.flags, name)),
  );
}

function argumentsOf({ arguments: args }: Command): string[] {
  return Object.entries(args).map(([name, argument]) => placeholderOf(name, argument));
}

function usage(root: Command, path: readonly string[], command: Command): string {
  const words = [root.name, ...path];
  if (command.run === null) return `Usage: ${[...words, "<command>"].join(" ")} [flags]`;
  const needed = Object.entries(command.flags).filter(([, { required }]) => required === true);
  const flags = needed.map(([name, flag]) => `--${name} ${valueOf(name, flag)}`);
  return `Usage: ${[...words, ...argumentsOf(command), ...flags].join(" ")} [flags]`;
}

function flagRows(flags: Readonly<Record<string, Flag>>): [string, string][] {
  const entries = Object.entries(flags);
  const anyShort = entries.some(([, { short }]) => short !== undefined);
  return entries.map(([name, flag]) => {
    const short = flag.short === undefined ? (anyShort ? "    " : "") : `-${flag.short}, `;
    const value = flag.kind === "switch" ? "" : ` ${valueOf(name, flag)}`;
    return [`${short}--${name}${value}`, describeOption(flag)];
  });
}

/** The placeholder of the value of a flag. */
function valueOf(name: string, flag: Flag): string {
  if (flag.placeholder !== undefined) return `<${flag.placeholder}>`;
  switch (flag.kind) {
    case "count":
    case "number":
      return "<n>";
    case "duration":
      return "<duration>";
    case "json":
      return "<json>";
    case "names":
      return "<a,b>";
    case "switch":
    case "text":
    case "choice":
    case "jitter":
      return `<${name}>`;
  }
}

/** The description of a flag or argument, and its allowed values. */
function describeOption(of: Flag | Command["arguments"][string]): string {
  const more: string[] = [of.description];
  if (of.kind === "choice") more.push(`One of: ${of.choices.join(", ")}.`);
  if (of.kind === "count" || of.kind === "number") more.push(`Range: ${of.min} to ${of.max}.`);
  if ("default" in of && of.default !== undefined && of.kind !== "switch")
    more.push(`Default: ${showDefault(of.default)}.`);
  // Arguments show this with `…`.
  if (of.repeated === true && of.kind !== "switch" && !("optional" in of))
    more.push(of.kind === "choice" ? "Repeatable, or a list: a,b." : "Repeatable.");
  if ("key" in of && of.key !== undefined) more.push(`Overrides the setting ${of.key}.`);
  return more.join(" ");
}

function showDefault(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Two columns. A name that is too wide gets its own line. */
function list(title: string, rows: readonly (readonly [name: string, description: string])[]): string {
  if (rows.length === 0) return "";
  const widest = Math.min(MAX_NAME_CELLS, Math.max(...rows.map(([name]) => widthOf(name))));
  const left = INDENT + widest + 2;
  const lines = rows.flatMap(([name, text]) => {
    const [first = "", ...rest] = wrap(text, CELLS - left).map((line) => `${" ".repeat(left)}${line}`);
    const head = `${" ".repeat(INDENT)}${name}`;
    if (widthOf(name) > widest) return [head, first, ...rest];
    return [`${head}${" ".repeat(widest - widthOf(name))}${first.slice(INDENT + widest)}`, ...rest];
  });
  return [`${title}:`, ...lines].join("\n");
}

function examples(root: Command, command: Command): string {
  if (command.examples.length === 0) return "";
  const lines = command.examples.flatMap(({ line, description }) => [
    ...wrap(description, CELLS - INDENT - 2).map((words) => `  # ${words}`),
    `  ${root.name} ${line}`,
  ]);
  return ["Examples:", ...lines].join("\n");
}
