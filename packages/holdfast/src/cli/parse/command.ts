import { keyOf, type Config, type KEYS, type KeyName, type Kind, type ValueOf } from "../../config/index.js";
import type { Output } from "../ui/output.js";

/** Common to flags and arguments. */
interface Described {
  /** One sentence. */
  readonly description: string;
  /** The placeholder of the value in help: `<path>`. The default depends on the kind. */
  readonly placeholder?: string;
  /** Values for shell completion, or `"files"` for file names. Choices are completed anyway. */
  readonly complete?: readonly string[] | "files";
  /** May be given several times; the value is an array. */
  readonly repeated?: true;
  /** `-` reads the value from stdin. The command then gets `STDIN`. */
  readonly stdin?: true;
}

/** A flag, such as `--limit 10`. A switch can be turned off with `--no-…`. */
export type Flag = Kind &
  Described & {
    /** One letter: `-y`. */
    readonly short?: string;
    /** The value if the flag is not given. */
    readonly default?: unknown;
    readonly required?: true;
    /** The configuration key that this flag sets for one run. The command reads it from the configuration. */
    readonly key?: KeyName;
  };

/** A positional argument. */
export type Argument = Kind & Described & { readonly optional?: true };

/** By name, without the dashes. */
export type Flags = Readonly<Record<string, Flag>>;
/** By name, in order. */
export type Arguments = Readonly<Record<string, Argument>>;

type One<Of extends Kind & Described> = Of extends { repeated: true } ? readonly ValueOf<Of>[] : ValueOf<Of>;
type IsGiven = { kind: "switch" } | { repeated: true } | { required: true } | { default: boolean | number | string };
/** The parsed flags, typed by their definitions. */
export type GivenFlags<Of extends Flags> = {
  readonly [Name in keyof Of as Of[Name] extends { key: string } ? never : Name]: Of[Name] extends IsGiven
    ? One<Of[Name]>
    : One<Of[Name]> | undefined;
};
/** The parsed arguments, typed by their definitions. */
export type GivenArguments<Of extends Arguments> = {
  readonly [Name in keyof Of]: Of[Name] extends { repeated: true }
    ? One<Of[Name]>
    : Of[Name] extends { optional: true }
      ? One<Of[Name]> | undefined
      : One<Of[Name]>;
};

/** Passed to every command. */
export interface Context {
  /** The configuration, read on first use. Throws `InvalidConfigError`. */
  readonly config: Config;
  readonly output: Output;
  /** Aborted by Ctrl-C and SIGTERM; its reason is an `InterruptedError`. */
  readonly signal: AbortSignal;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The whole command line, with Node and the script: `dev` starts the same command again. */
  readonly argv: readonly string[];
  /** The value of `--config`. */
  readonly configFile: string | undefined;
  readonly version: string;
  /** Every command, for help and completion. */
  readonly root: Command;
  /**
   * Asks before a destructive change. Returns with `yes`, asks on a terminal, throws elsewhere and if the user declines.
   *
   * ```ts
   * await context.confirm(`Delete ${count} jobs for good?`, flags.yes);
   * ```
   */
  readonly confirm: (question: string, yes: boolean) => Promise<void>;
  /** Writes to stderr as given. Logs use it; commands use `output`. */
  readonly writeStderr: (text: string) => void;
  /** All of stdin as a string. Throws if it is longer than `maxBytes`. */
  readonly readInput: (maxBytes: number) => Promise<string>;
}

/** An exit code; undefined means 0. */
export type ExitCode = number | undefined | void;

/** An example: the words after `holdfast`, and what they do. */
export interface Example {
  readonly line: string;
  readonly description: string;
}

/** A command, or a group of commands. */
export interface Command {
  readonly name: string;
  /** One sentence. */
  readonly summary: string;
  /** More text for the help of the command. */
  readonly about?: string;
  readonly flags: Flags;
  readonly arguments: Arguments;
  readonly examples: readonly Example[];
  readonly commands: readonly Command[];
  /** A long-running command with a log. With `log.format` json, all of its stderr output is JSON lines. */
  readonly logs?: true;
  readonly run: ((context: Context, given: { flags: never; args: never }) => Promise<ExitCode> | ExitCode) | null;
}

/** The definition of a command. */
export interface CommandDefinition<Of extends Flags, By extends Arguments> {
  name: string;
  summary: string;
  about?: string;
  flags?: Of;
  arguments?: By;
  examples?: readonly Example[];
  logs?: true;
  /** Import large modules in here, so that help and completion stay fast. */
  run: (context: Context, given: { flags: GivenFlags<Of>; args: GivenArguments<By> }) => Promise<ExitCode> | ExitCode;
}

/**
 * Defines a command.
 *
 * ```ts
 * export const greet: Command = command({
 *   name: "greet",
 *   summary: "Greet a user.",
 *   arguments: { name: { kind: "text", description: "The name of the user." } },
 *   flags: { times: { kind: "count", min: 1, max: 9, default: 1, description: "How often." } },
 *   run({ output }, { args, flags }) {
 *     output.result({ name: args.name }, (writer) => writer.line(`Hello ${args.name}`.repeat(flags.times)));
 *   },
 * });
 * ```
 */
export function command<
  const Of extends Flags = Record<never, never>,
  const By extends Arguments = Record<never, never>,
>(definition: CommandDefinition<Of, By>): Command {
  const { name, summary, about, flags = {}, arguments: args = {}, examples = [], logs, run } = definition;
  return {
    name,
    summary,
    ...(about !== undefined && { about }),
    flags,
    arguments: args,
    examples,
    commands: [],
    ...(logs !== undefined && { logs }),
    run,
  };
}

/** Defines a group: `holdfast config …`. */
export function group(definition: {
  name: string;
  summary: string;
  about?: string;
  commands: readonly Command[];
}): Command {
  return { flags: {}, arguments: {}, examples: [], run: null, ...definition };
}

/** A command-line program. */
export interface Program {
  readonly name: string;
  readonly summary: string;
  readonly version: string;
  readonly commands: readonly Command[];
}

/** The group of all commands. */
export function rootOf({ name, summary, commands: all }: Program): Command {
  return group({ name, summary, commands: all });
}

/** A flag that sets a configuration key for one run. Kind and description come from the key. */
export function keyFlag<Name extends KeyName>(
  key: Name,
  more: { short?: string; placeholder?: string; description?: string; complete?: readonly string[] | "files" } = {},
): (typeof KEYS)[Name] & { readonly key: Name; readonly description: string } {
  const { default: _default, description, ...kind } = keyOf(key);
  return { ...kind, description, ...more, key } as unknown as (typeof KEYS)[Name] & {
    key: Name;
    description: string;
  };
}

/** For commands that use the configured store. */
export const STORE_FLAG: ReturnType<typeof keyFlag<"store">> = keyFlag("store", { placeholder: "url" });

/** For destructive commands. */
export const YES: { readonly kind: "switch"; readonly short: "y"; readonly description: string } = {
  kind: "switch",
  short: "y",
  description: "Do not ask for confirmation.",
};

/** Flags of every command. */
export const GLOBAL_FLAGS: Flags = {
  json: { kind: "switch", description: "Print the result as JSON on stdout, and errors as JSON on stderr." },
  config: {
    kind: "text",
    placeholder: "path",
    complete: "files",
    description: "Configuration file. Default: HOLDFAST_CONFIG, or the nearest holdfast.toml.",
  },
  color: { kind: "switch", description: "Use colours, or none with --no-color. Default: colours on a terminal." },
  verbose: { kind: "switch", description: "Print the stack trace of an error." },
  help: { kind: "switch", short: "h", description: "Show this help." },
};

/** Flags of `holdfast` itself. */
export const ROOT_FLAGS: Flags = { version: { kind: "switch", short: "V", description: "Show the version." } };

/** All flags that a command accepts. */
export function flagsOf(of: Command, isRoot: boolean): Flags {
  return { ...of.flags, ...(isRoot && ROOT_FLAGS), ...GLOBAL_FLAGS };
}
