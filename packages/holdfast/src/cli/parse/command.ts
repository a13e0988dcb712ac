import { keyOf, KEYS, type Config, type KeyName, type Kind, type ValueOf } from "../../config/index.js";
import type { Output } from "../ui/output.js";

/** What flags and arguments have in common. */
interface Described {
  /** One sentence. */
  readonly says: string;
  /** What stands for the value in help: `<path>`. Default: by its kind. */
  readonly placeholder?: string;
  /** What the shell completes; choices are known anyway. `"files"`: names of files. */
  readonly complete?: readonly string[] | "files";
  /** May be given more than once: a list of all. */
  readonly repeated?: true;
  /** `-` stands for stdin, and is given as `STDIN`. */
  readonly stdin?: true;
}

/** A flag, such as `--limit 10`. A switch can be turned off by `--no-…`. */
export type Flag = Kind &
  Described & {
    /** One letter: `-y`. */
    readonly short?: string;
    /** What it is if not given. */
    readonly default?: unknown;
    readonly required?: true;
    /** The key of the configuration that it sets for this call; it is read with that, and is no flag to the command. */
    readonly key?: KeyName;
  };

/** An argument, by its place. */
export type Argument = Kind & Described & { readonly optional?: true };

/** By name, without the dashes. */
export type Flags = Readonly<Record<string, Flag>>;
/** By name, in their order. */
export type Arguments = Readonly<Record<string, Argument>>;

type One<Of extends Kind & Described> = Of extends { repeated: true } ? readonly ValueOf<Of>[] : ValueOf<Of>;
type IsGiven = { kind: "switch" } | { repeated: true } | { required: true } | { default: boolean | number | string };
/** The values of flags, typed by their table. */
export type GivenFlags<Of extends Flags> = {
  readonly [Name in keyof Of as Of[Name] extends { key: string } ? never : Name]: Of[Name] extends IsGiven
    ? One<Of[Name]>
    : One<Of[Name]> | undefined;
};
/** The values of arguments, typed by their table. */
export type GivenArguments<Of extends Arguments> = {
  readonly [Name in keyof Of]: Of[Name] extends { repeated: true }
    ? One<Of[Name]>
    : Of[Name] extends { optional: true }
      ? One<Of[Name]> | undefined
      : One<Of[Name]>;
};

/** What every command gets. */
export interface Context {
  /** The configuration, read at the first use. Throws `InvalidConfigError`. */
  readonly config: Config;
  readonly output: Output;
  /** Aborted by Ctrl-C and SIGTERM; its reason is `Interrupted`. */
  readonly signal: AbortSignal;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** The whole command line, with Node and the script: `dev` starts the same command again. */
  readonly argv: readonly string[];
  /** What `--config` says. */
  readonly configFile: string | undefined;
  readonly version: string;
  /** Every command, for help and completion. */
  readonly root: Command;
  /**
   * Before what destroys: passes with `yes`, asks on a terminal, refuses elsewhere. Throws where the answer is no.
   *
   * ```ts
   * await context.confirm(`Delete ${count} jobs for good?`, flags.yes);
   * ```
   */
  readonly confirm: (question: string, yes: boolean) => Promise<void>;
  /** Writes to stderr as given. Logs use it; commands use `output`. */
  readonly writeStderr: (text: string) => void;
  /** All of stdin as text, up to so many bytes. */
  readonly readInput: (mostBytes: number) => Promise<string>;
}

/** An exit code; none means done. */
export type Ending = number | undefined | void;

/** One example: what to type after `holdfast`, and what that does. */
export interface Example {
  readonly line: string;
  readonly says: string;
}

/** A command, or a group of commands. */
export interface Command {
  readonly name: string;
  /** One sentence. */
  readonly summary: string;
  /** More, for its own help. */
  readonly about?: string;
  readonly flags: Flags;
  readonly arguments: Arguments;
  readonly examples: readonly Example[];
  readonly commands: readonly Command[];
  /** It goes on and keeps a log: with `log.format` json, all that it says on stderr is lines of that. */
  readonly logs?: true;
  readonly run: ((context: Context, given: { flags: never; args: never }) => Promise<Ending> | Ending) | null;
}

/** What a command is defined by. */
export interface CommandDefinition<Of extends Flags, By extends Arguments> {
  name: string;
  summary: string;
  about?: string;
  flags?: Of;
  arguments?: By;
  examples?: readonly Example[];
  logs?: true;
  /** What is heavy is imported in here, so that help and completion stay quick. */
  run: (context: Context, given: { flags: GivenFlags<Of>; args: GivenArguments<By> }) => Promise<Ending> | Ending;
}

/**
 * Defines a command.
 *
 * ```ts
 * export const greet: Command = command({
 *   name: "greet",
 *   summary: "Greets somebody.",
 *   arguments: { name: { kind: "text", says: "Who is greeted." } },
 *   flags: { times: { kind: "count", least: 1, most: 9, default: 1, says: "How often." } },
 *   run({ output }, { args, flags }) {
 *     output.answer({ name: args.name }, (page) => page.line(`Hello ${args.name}`.repeat(flags.times)));
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

/** What the command is made of. */
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

/** A flag that sets a key of the configuration for this call, with the key's kind and sentence. */
export function keyFlag<Name extends KeyName>(
  key: Name,
  more: { short?: string; placeholder?: string; says?: string; complete?: readonly string[] | "files" } = {},
): (typeof KEYS)[Name] & { readonly key: Name; readonly says: string } {
  const { default: _default, ...kind } = KEYS[key];
  return { ...kind, says: keyOf(key).says, ...more, key } as unknown as (typeof KEYS)[Name] & {
    key: Name;
    says: string;
  };
}

/** For commands that destroy. */
export const YES: { readonly kind: "switch"; readonly short: "y"; readonly says: string } = {
  kind: "switch",
  short: "y",
  says: "Do it without asking.",
};

/** The flags that every command has. */
export const GLOBAL_FLAGS: Flags = {
  json: { kind: "switch", says: "Answer with one JSON document on stdout, and tell an error as JSON on stderr." },
  config: {
    kind: "text",
    placeholder: "path",
    complete: "files",
    says: "The configuration file; else HOLDFAST_CONFIG, else the nearest holdfast.toml.",
  },
  color: { kind: "switch", says: "Show colours or, with --no-color, none; else as the terminal allows." },
  verbose: { kind: "switch", says: "Show where an error comes from." },
  help: { kind: "switch", short: "h", says: "Show this help." },
};

/** Those that only `holdfast` itself has. */
export const ROOT_FLAGS: Flags = { version: { kind: "switch", short: "V", says: "Show the version." } };

/** Every flag that can be typed with a command. */
export function flagsOf(of: Command, isRoot: boolean): Flags {
  return { ...of.flags, ...(isRoot && ROOT_FLAGS), ...GLOBAL_FLAGS };
}
