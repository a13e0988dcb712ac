import { readFoundFile, type ConfigFile, type Place } from "./file.js";
import { InvalidConfigError } from "./invalid-config.js";
import {
  isKey,
  KEY_NAMES,
  keyOf,
  OTHER_VARIABLES,
  SECRET_VARIABLE,
  SECTIONS,
  URL_VARIABLE,
  variableOf,
  type KeyName,
  type Values,
} from "./keys.js";
import { checkValue, parseValue, showValue, type ParseResult } from "./kind.js";
import { didYouMean, nearest } from "../nearest.js";
import { hideSecret } from "../access/secret.js";
import { readSessionSecret } from "../access/session-secret.js";
import { showPath, showSource, type Source } from "./source.js";
import { isTable } from "./toml-edit.js";

/** A flag that sets a key, as typed. */
export interface GivenFlag {
  /** `--concurrency`. */
  readonly name: string;
  readonly text: string;
}

/** The sources of the configuration. */
export interface ConfigPlace extends Place {
  readonly flags?: Readonly<Partial<Record<KeyName, GivenFlag>>>;
}

/** The validated configuration and the source of each value. */
export interface Config {
  readonly values: Values;
  readonly sources: Readonly<Record<KeyName, Source>>;
  /** The absolute path of the file that was read; null if there is none. */
  readonly file: string | null;
  /** Whether a flag or variable named the file. If not, files that it names must be trusted, like the file itself. */
  readonly fileIsNamed: boolean;
  readonly cwd: string;
  /** Problems that do not stop the command: unknown variables. */
  readonly warnings: readonly string[];
}

type Found = { readonly source: Source; readonly given: unknown; readonly read: ParseResult };

/**
 * Reads the configuration. Flags override variables, variables override the file, and the file overrides the defaults. Throws
 * {@link InvalidConfigError} with all problems.
 */
export function readConfig(place: ConfigPlace): Config {
  const { cwd, env, flags = {} } = place;
  const file = readFoundFile(place);
  const problems: string[] = [];
  const inFile = file === null ? new Map<KeyName, Found>() : readTable(file, cwd, problems);
  const values: Record<string, unknown> = {};
  const sources: Record<string, Source> = {};
  for (const name of KEY_NAMES) {
    const found = [inFile.get(name), readVariable(name, env), readFlag(name, flags[name])];
    values[name] = keyOf(name).default;
    sources[name] = { kind: "default" };
    // An invalid value is reported even if another source overrides it, because one day that source may be gone.
    for (const each of found) {
      if (each === undefined) continue;
      if ("problem" in each.read) problems.push(problemOf(name, each, cwd));
      else values[name] = each.read.value;
      sources[name] = each.source;
    }
  }
  problems.push(...problemsOfUrl(env), ...problemsOfSecret(env));
  if (problems.length > 0) throw new InvalidConfigError(problems);
  return {
    values: values as Values,
    sources: sources as Record<KeyName, Source>,
    file: file?.path ?? null,
    fileIsNamed: file?.named ?? false,
    cwd,
    warnings: unknownVariables(env),
  };
}

const EMPTY_VARIABLE = "is empty; unset the variable, or give it a value";

function readVariable(name: KeyName, env: Place["env"]): Found | undefined {
  const variable = variableOf(name);
  const text = env[variable];
  if (text === undefined) return undefined;
  // Using the default silently would start a worker on a new, empty database because a variable was not filled in.
  const read = text === "" ? { problem: EMPTY_VARIABLE } : parseValue(keyOf(name), text);
  return { source: { kind: "variable", name: variable }, given: text, read };
}

function readFlag(name: KeyName, flag: GivenFlag | undefined): Found | undefined {
  if (flag === undefined) return undefined;
  return { source: { kind: "flag", name: flag.name }, given: flag.text, read: parseValue(keyOf(name), flag.text) };
}

/** An empty URL must not mean the local store: the command would read and change the wrong jobs. */
function problemsOfUrl(env: Place["env"]): string[] {
  return env[URL_VARIABLE] === "" ? [`${URL_VARIABLE} ${EMPTY_VARIABLE}`] : [];
}

/** Checked by every command, not only by the server, which would have opened the store by then. */
function problemsOfSecret(env: Place["env"]): string[] {
  const secret = env[SECRET_VARIABLE] ?? "";
  if (secret === "") return [];
  try {
    readSessionSecret(secret, SECRET_VARIABLE);
    return [];
  } catch (error) {
    return [(error as Error).message];
  }
}

function problemOf(name: KeyName, { source, given, read }: Found, cwd: string): string {
  const value = keyOf(name).secret === true && typeof given === "string" ? hideSecret(given) : given;
  const problem = "problem" in read ? read.problem : "";
  return `${name}: ${given === "" ? "" : `${showGiven(value)} `}${problem} (${showSource(source, cwd)})`;
}

/** Strings that look like a number are shown without quotes, as the user typed them. */
function showGiven(value: unknown): string {
  return typeof value === "string" && /^[+-]?[\d.]+$/.test(value) ? value : showValue(value);
}

function readTable({ path, table, layout }: ConfigFile, cwd: string, problems: string[]): Map<KeyName, Found> {
  const found = new Map<KeyName, Found>();
  const lineOf = (name: string): number => {
    const isIt = (candidate: { path: readonly string[] }): boolean => candidate.path.join(".") === name;
    const begins = ({ path: of }: { path: readonly string[] }): boolean => of[0] === name;
    const { sections, pairs } = layout;
    return (pairs.find(isIt) ?? sections.find(isIt) ?? pairs.find(begins) ?? sections.find(begins))?.line ?? 1;
  };
  const take = (name: string, given: unknown): void => {
    const line = lineOf(name);
    if (isKey(name)) {
      found.set(name, { source: { kind: "file", file: path, line }, given, read: checkValue(keyOf(name), given) });
      return;
    }
    problems.push(`${name} is not a key${suggest(name)} (${showPath(path, cwd)}:${line})`);
  };
  for (const [name, value] of Object.entries(table)) {
    if (!SECTIONS.includes(name)) take(name, value);
    else if (isTable(value)) for (const [key, inner] of Object.entries(value)) take(`${name}.${key}`, inner);
    else
      problems.push(
        `${name}: ${showValue(value)} is not a section; write [${name}] above its keys (${showPath(path, cwd)}:${lineOf(name)})`,
      );
  }
  return found;
}

/** Suggests a key for an unknown name, including a known key in the wrong section. */
export function suggest(name: string): string {
  if (SECTIONS.includes(name)) {
    const [first] = KEY_NAMES.filter((key) => key.startsWith(`${name}.`));
    return `, but a section with keys such as ${first}`;
  }
  const last = name.slice(name.lastIndexOf(".") + 1);
  const same = KEY_NAMES.filter((key) => key.slice(key.lastIndexOf(".") + 1) === last);
  if (same.length === 1) return `; did you mean ${same[0]}?`;
  return didYouMean(name, [...KEY_NAMES, ...SECTIONS]);
}

function unknownVariables(env: Place["env"]): string[] {
  const known = [...KEY_NAMES.map(variableOf), ...OTHER_VARIABLES];
  return Object.keys(env)
    .filter((name) => name.startsWith(PREFIX) && env[name] !== undefined && !known.includes(name))
    .toSorted()
    .map((name) => {
      // Compare without the common prefix.
      const meant = nearest(
        name.slice(PREFIX.length),
        known.map((each) => each.slice(PREFIX.length)),
      );
      return `the variable ${name} is unknown and has no effect${meant === null ? "" : `; did you mean ${PREFIX}${meant}?`}`;
    });
}
const PREFIX = "HOLDFAST_";

/** A value for `config list` and messages, without passwords. */
export function shownValue(config: Config, name: KeyName): unknown {
  const value = config.values[name];
  return keyOf(name).secret === true && typeof value === "string" ? hideSecret(value) : value;
}
