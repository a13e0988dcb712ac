import {
  describe,
  fileToWrite,
  findFile,
  hideSecret,
  isKey,
  KEY_NAMES,
  keyOf,
  readText,
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
import { writeDownIfThere } from "../store/bare-store.js";
import { command, group, type Argument, type Command, type Context } from "../parse/command.js";
import { BadUsage, Failure } from "../errors.js";
import { STDIN } from "../parse/stdin.js";
import { paint, type Part } from "../ui/style.js";

const KEY = {
  kind: "text",
  complete: KEY_NAMES,
  says: "The key, such as jobs.concurrency.",
} as const satisfies Argument;

function readKey(name: string): KeyName {
  if (isKey(name)) return name;
  throw new BadUsage(`${JSON.stringify(name)} is not a key${suggest(name)}`, "holdfast config list shows all keys");
}

/** Where the file is looked for. */
function placeOf({ cwd, env, configFile }: Context): { cwd: string; env: Context["env"]; file: string | undefined } {
  return { cwd, env, file: configFile };
}

/** As it can be typed again. */
function writtenAs(value: unknown): string {
  if (value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

const list = command({
  name: "list",
  summary: "Shows every value with where it came from.",
  about: "Passwords in the address of a store are shown as ***.",
  run({ config, output }) {
    const rows = KEY_NAMES.map((key) => ({ key, value: shownValue(config, key), source: config.sources[key] }));
    output.answer({ file: config.file, values: rows }, (page) => {
      page.table(
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
  summary: "Shows one value, as it is.",
  about: "Prints nothing but the value, also a password: for scripts. An empty line: it is not set.",
  arguments: { key: KEY },
  examples: [{ line: "config get jobs.concurrency", says: "How many handlers run at once." }],
  run({ config, output }, { args }) {
    const key = readKey(args.key);
    const value = config.values[key];
    output.answer({ key, value, source: config.sources[key] }, (page) => page.line(writtenAs(value)));
  },
});

const set = command({
  name: "set",
  summary: "Sets a key in the configuration file.",
  about:
    "Comments, order and spacing of the file stay as they are. Without a file, holdfast.toml is made in the current folder. The change is in the audit log of the store, where that is there and can be reached.",
  arguments: {
    key: KEY,
    value: {
      kind: "text",
      stdin: true,
      says: "The value, or - for stdin, which no list of processes shows; a list as a,b.",
    },
  },
  examples: [
    { line: "config set jobs.concurrency 8", says: "Eight handlers at once." },
    { line: "config set jobs.queues mail,video", says: "Only two queues." },
    { line: "config set retention.dead forever", says: "Keep dead jobs." },
    { line: "config set store -", says: "An address with a password, from stdin." },
  ],
  async run(context, { args }) {
    const key = readKey(args.key);
    const value = readValue(key, await textOf(context, args.value));
    const { path: file, narrowed } = await setKey(placeOf(context), key, value);
    const written = shownAs(key, value);
    await writeDownIfThere(context, { action: "config.set", target: key, detail: { file, value: written } });
    tell(context, { key, value: written, file });
    if (narrowed) {
      context.output.note(`every user could read ${showPath(file, context.cwd)}; now only its owner can (mode 0600)`);
    }
  },
});

const MOST_BYTES = 100_000;

/** What was typed, or the line that stdin has. */
async function textOf(context: Context, given: string | typeof STDIN): Promise<string> {
  return given === STDIN ? (await context.readInput(MOST_BYTES)).replace(/\r?\n$/, "") : given;
}

function readValue(key: KeyName, text: string): Value {
  const read = readText(keyOf(key), text);
  if ("value" in read) return read.value as Value;
  const shownText = keyOf(key).secret === true ? hideSecret(text) : text;
  const is = describe(keyOf(key));
  // Most problems say what the value must be; the hint is for the others.
  const hint = read.problem.includes(is) ? undefined : `${key} is ${is}`;
  throw new BadUsage(`${key}: ${JSON.stringify(shownText)} ${read.problem}`, hint);
}

function shownAs(key: KeyName, value: Value): Value {
  return keyOf(key).secret === true && typeof value === "string" ? hideSecret(value) : value;
}

function tell(context: Context, { key, value, file }: { key: KeyName; value: Value; file: string }): void {
  const { output, cwd, env } = context;
  output.answer({ key, value, file }, (page) => page.line(`${key} = ${writtenAs(value)} in ${showPath(file, cwd)}`));
  warnOfVariable(context, key, env);
}

function warnOfVariable({ output }: Context, key: KeyName, env: Context["env"]): void {
  const variable = variableOf(key);
  if (env[variable] !== undefined) output.warn(`${variable} is set and counts for more than the file`);
}

const unset = command({
  name: "unset",
  summary: "Takes a key out of the configuration file, so that its default counts.",
  arguments: { key: KEY },
  examples: [{ line: "config unset jobs.queues", says: "All queues again." }],
  async run(context, { args }) {
    const { output, cwd } = context;
    const key = readKey(args.key);
    const place = placeOf(context);
    const file = await unsetKey(place, key);
    if (file !== null) await writeDownIfThere(context, { action: "config.unset", target: key, detail: { file } });
    const where = showPath(file ?? fileToWrite(place), cwd);
    output.answer({ key, file, unset: file !== null }, (page) =>
      page.line(file === null ? `${key} is not in ${where}` : `${key} is no longer in ${where}`),
    );
    if (file !== null) warnOfVariable(context, key, context.env);
  },
});

const path = command({
  name: "path",
  summary: "Shows which configuration file is used.",
  run(context) {
    const found = findFile(placeOf(context));
    if (found === null) {
      throw new Failure("there is no holdfast.toml in this folder or above it", {
        hint: "holdfast config set <key> <value> makes one",
      });
    }
    context.output.answer({ file: found.path }, (page) => page.line(found.path));
  },
});

export const configCommand: Command = group({
  name: "config",
  summary: "Reads and changes the configuration.",
  about: "Values come from flags, then variables such as HOLDFAST_JOBS_CONCURRENCY, then holdfast.toml, then defaults.",
  commands: [list, get, set, unset, path],
});
