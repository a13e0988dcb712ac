import {
  describe,
  fileToWrite,
  findFile,
  hideSecret,
  isKey,
  KEY_NAMES,
  keyOf,
  parseValue,
  setKey,
  shownValue,
  showPath,
  showSource,
  suggest,
  unsetKey,
  variableOf,
  type KeyName,
  type Source,
  type Value,
} from "../../config/index.js";
import { recordIfStoreExists } from "../record-audit.js";
import { command, group, type Argument, type Command, type Context } from "../parse/command.js";
import { UsageError, CommandError } from "../errors.js";
import { STDIN } from "../parse/stdin.js";
import { paint, type Part } from "../ui/style.js";

const KEY = {
  kind: "text",
  complete: KEY_NAMES,
  description: "The key, e.g. jobs.concurrency.",
} as const satisfies Argument;

function readKey(name: string): KeyName {
  if (isKey(name)) return name;
  throw new UsageError(
    `${JSON.stringify(name)} is not a key${suggest(name)}`,
    "to list all keys, run: holdfast config list",
  );
}

/** Where to look for the configuration file. */
function placeOf({ cwd, env, configFile }: Context): { cwd: string; env: Context["env"]; file: string | undefined } {
  return { cwd, env, file: configFile };
}

/** A value as the user would type it. */
function writtenAs(value: unknown): string {
  if (value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

const list = command({
  name: "list",
  summary: "Show all values and their sources.",
  about: "Passwords in the URL of the store are printed as ***.",
  run({ config, output }) {
    const rows = KEY_NAMES.map((key) => ({ key, value: shownValue(config, key), source: config.sources[key] }));
    output.result({ file: config.file, values: rows }, (writer) => {
      writer.table(
        [{ title: "Key", whole: true }, { title: "Value" }, { title: "Source" }],
        rows.map(({ key, value, source }): Part[] => [key, shown(value), from(source, config.cwd)]),
      );
    });
  },
});

function shown(value: unknown): Part {
  return value === null ? paint("not set", "gray") : writtenAs(value);
}
function from(source: Source, cwd: string): Part {
  const text = showSource(source, cwd);
  return source.kind === "default" ? paint(text, "gray") : text;
}

const get = command({
  name: "get",
  summary: "Print one value.",
  about: "For scripts: prints the value only, including passwords. Prints an empty line if the key is not set.",
  arguments: { key: KEY },
  examples: [{ line: "config get jobs.concurrency", description: "Print the number of concurrent jobs." }],
  run({ config, output }, { args }) {
    const key = readKey(args.key);
    const value = config.values[key];
    output.result({ key, value, source: config.sources[key] }, (writer) => writer.line(writtenAs(value)));
  },
});

const set = command({
  name: "set",
  summary: "Set a key in the configuration file.",
  about:
    "Keeps comments, order and spacing of the file. Creates holdfast.toml in the current folder if there is no file. The change is recorded in the audit log if the store exists and can be reached.",
  arguments: {
    key: KEY,
    value: {
      kind: "text",
      stdin: true,
      description:
        "The value. A list is written as a,b. Use - to read a secret from stdin: arguments are visible in the process list.",
    },
  },
  examples: [
    { line: "config set jobs.concurrency 8", description: "Run up to 8 jobs concurrently." },
    { line: "config set jobs.queues mail,video", description: "Claim from two queues only." },
    { line: "config set retention.dead forever", description: "Keep dead jobs." },
    { line: "config set store -", description: "Read a URL with a password from stdin." },
  ],
  async run(context, { args }) {
    const key = readKey(args.key);
    const value = readValue(key, await textOf(context, args.value));
    const { path: file, narrowed } = await setKey(placeOf(context), key, value);
    const written = shownAs(key, value);
    await recordIfStoreExists(context, { action: "config.set", target: key, detail: { file, value: written } });
    printChange(context, { key, value: written, file });
    if (narrowed) {
      context.output.note(
        `${showPath(file, context.cwd)} was readable by every user; now only by its owner (mode 0600)`,
      );
    }
  },
});

const MAX_BYTES = 100_000;

/** The argument, or the line on stdin. */
async function textOf(context: Context, given: string | typeof STDIN): Promise<string> {
  return given === STDIN ? (await context.readInput(MAX_BYTES)).replace(/\r?\n$/, "") : given;
}

function readValue(key: KeyName, text: string): Value {
  const read = parseValue(keyOf(key), text);
  if ("value" in read) return read.value as Value;
  const shownText = keyOf(key).secret === true ? hideSecret(text) : text;
  const is = describe(keyOf(key));
  // Most problems already name the expected value.
  const hint = read.problem.includes(is) ? undefined : `${key} is ${is}`;
  throw new UsageError(`${key}: ${JSON.stringify(shownText)} ${read.problem}`, hint);
}

function shownAs(key: KeyName, value: Value): Value {
  return keyOf(key).secret === true && typeof value === "string" ? hideSecret(value) : value;
}

function printChange(context: Context, { key, value, file }: { key: KeyName; value: Value; file: string }): void {
  const { output, cwd, env } = context;
  output.result({ key, value, file }, (writer) =>
    writer.line(`${key} = ${writtenAs(value)} in ${showPath(file, cwd)}`),
  );
  warnIfOverridden(context, key, env);
}

function warnIfOverridden({ output }: Context, key: KeyName, env: Context["env"]): void {
  const variable = variableOf(key);
  if (env[variable] !== undefined) output.warn(`${variable} is set and overrides the file`);
}

const unset = command({
  name: "unset",
  summary: "Remove a key from the configuration file (its default then applies).",
  arguments: { key: KEY },
  examples: [{ line: "config unset jobs.queues", description: "Claim from all queues again." }],
  async run(context, { args }) {
    const { output, cwd } = context;
    const key = readKey(args.key);
    const place = placeOf(context);
    const file = await unsetKey(place, key);
    if (file !== null) await recordIfStoreExists(context, { action: "config.unset", target: key, detail: { file } });
    const where = showPath(file ?? fileToWrite(place), cwd);
    output.result({ key, file, unset: file !== null }, (writer) =>
      writer.line(file === null ? `${key} was not set in ${where}` : `Removed ${key} from ${where}`),
    );
    if (file !== null) warnIfOverridden(context, key, context.env);
  },
});

const path = command({
  name: "path",
  summary: "Print the path of the configuration file in use.",
  run(context) {
    const found = findFile(placeOf(context));
    if (found === null) {
      throw new CommandError("no holdfast.toml in this folder or its parents", {
        hint: "to create one, run: holdfast config set <key> <value>",
      });
    }
    context.output.result({ file: found.path }, (writer) => writer.line(found.path));
  },
});

export const configCommand: Command = group({
  name: "config",
  summary: "Read and change the configuration.",
  about:
    "Flags override variables such as HOLDFAST_JOBS_CONCURRENCY, which override holdfast.toml, which overrides the defaults.",
  commands: [list, get, set, unset, path],
});
