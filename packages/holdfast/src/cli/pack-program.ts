/** For authors of packs: a command of their own that uses the configuration and the jobs module of `holdfast`. */
import { showPath } from "../config/index.js";
import type { Holdfast } from "../engine/client/holdfast.js";
import { read } from "../job/thrown.js";
import { CommandError } from "./errors.js";
import { command, group, keyFlag, type Arguments, type Command, type Flags } from "./parse/command.js";
import { runProgram } from "./run-program.js";
import { runJobs } from "./run-jobs.js";

export { CommandError, UsageError } from "./errors.js";

/** A flag: a switch, or a string such as `--list weekly`. */
export interface PackFlag {
  readonly kind: "switch" | "text";
  /** One sentence. */
  readonly description: string;
}

/** A positional argument. */
export interface PackArgument {
  /** One sentence. */
  readonly description: string;
  readonly optional?: true;
}

/** The parsed flags. */
export type PackFlags<Of extends Readonly<Record<string, PackFlag>>> = {
  readonly [Name in keyof Of]: Of[Name]["kind"] extends "switch" ? boolean : string | undefined;
};

/** The parsed arguments. */
export type PackArguments<Of extends Readonly<Record<string, PackArgument>>> = {
  readonly [Name in keyof Of]: Of[Name] extends { optional: true } ? string | undefined : string;
};

/** Passed to the command of a pack. */
export interface PackCall<
  Of extends Readonly<Record<string, PackFlag>>,
  By extends Readonly<Record<string, PackArgument>>,
> {
  /** A client with the jobs of the module, on the configured store. */
  readonly hf: Holdfast;
  readonly flags: PackFlags<Of>;
  readonly args: PackArguments<By>;
  /** Aborted by Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
  /** The export of the module for which `is` returns true. Throws an error that says what to export if there is none, or several. */
  readonly find: <Thing>(what: string, is: (value: unknown) => value is Thing, example: string) => Thing;
  /** Prints the result: these lines, or the object with `--json`. */
  readonly print: (result: object, lines: readonly string[]) => void;
}

/** The definition of a command of a pack. */
export interface PackCommandDefinition<
  Of extends Readonly<Record<string, PackFlag>>,
  By extends Readonly<Record<string, PackArgument>>,
> {
  name: string;
  /** One sentence. */
  summary: string;
  /** More text for the help of the command. */
  about?: string;
  flags?: Of;
  arguments?: By;
  /** The words after the name of the program, and what they do. */
  examples?: readonly { line: string; description: string }[];
  run: (call: PackCall<Of, By>) => Promise<void> | void;
}

declare const brand: unique symbol;

/** A command of a pack, or a group of commands. */
export interface PackCommand {
  readonly name: string;
  readonly summary: string;
  readonly [brand]?: never;
}

/** A command that loads the jobs module, as `holdfast worker` does: from `--module`, `HOLDFAST_JOBS_MODULE` or `holdfast.toml`. */
export function packCommand<
  const Of extends Readonly<Record<string, PackFlag>> = Record<never, never>,
  const By extends Readonly<Record<string, PackArgument>> = Record<never, never>,
>({ run: work, ...definition }: PackCommandDefinition<Of, By>): PackCommand {
  const flags: Flags = {
    ...definition.flags,
    module: keyFlag("jobs.module", { placeholder: "path", complete: "files", description: "The jobs module." }),
    store: keyFlag("store", { placeholder: "url", description: "The store." }),
  };
  const args: Arguments = Object.fromEntries(
    Object.entries(definition.arguments ?? {}).map(([name, given]) => [name, { kind: "text", ...given }]),
  );
  return command({
    ...definition,
    flags,
    arguments: args,
    run: (context, given) =>
      runJobs(context, undefined, async (hf, signal, { path, exports }) => {
        const module = showPath(path, context.cwd);
        await work({
          hf,
          signal,
          flags: given.flags as unknown as PackFlags<Of>,
          args: given.args as unknown as PackArguments<By>,
          find: (what, is, example) => findExport(exports, { what, is, example, module }),
          print: (result, lines) =>
            context.output.result(result, (writer) => {
              for (const line of lines) writer.line(line);
            }),
        });
      }),
  });
}

/** A group of commands: `holdfast-mail newsletter …`. */
export function packGroup(definition: {
  name: string;
  summary: string;
  commands: readonly PackCommand[];
}): PackCommand {
  return group({ ...definition, commands: definition.commands as readonly Command[] });
}

/** Runs the bin of a pack as this process, and exits. */
export async function runPackProgram(program: {
  /** The name of the bin. */
  name: string;
  summary: string;
  version: string;
  commands: readonly PackCommand[];
}): Promise<never> {
  return runProgram({ ...program, commands: program.commands as readonly Command[] });
}

interface Wanted<Thing> {
  what: string;
  is: (value: unknown) => value is Thing;
  example: string;
  /** The path of the module. */
  module: string;
}

function findExport<Thing>(
  exported: Readonly<Record<string, unknown>>,
  { what, is, example, module }: Wanted<Thing>,
): Thing {
  const found = new Map<Thing, string>();
  for (const name of Object.keys(exported)) {
    const value = read(exported, name);
    if (is(value)) found.set(value, name);
  }
  const [first, ...others] = found.keys();
  if (first === undefined) throw new CommandError(`${module} exports no ${what}`, { hint: `export it: ${example}` });
  if (others.length > 0) {
    const names = [...found.values()].join(", ");
    throw new CommandError(`${module} exports several: ${names}`, { hint: `export one ${what} only` });
  }
  return first;
}
