import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { rootOf, type Command } from "../../packages/holdfast/dist/cli/parse/command.js";
import { parseCall } from "../../packages/holdfast/dist/cli/parse/parse.js";
import { program } from "../../packages/holdfast/dist/cli/program.js";
import { newsletterCommands } from "../../packages/mail/dist/newsletter/command.js";
import { replay } from "../../packages/stripe/dist/command.js";
import { ROOT } from "./documents.js";

interface Manifest {
  name: string;
  version?: string;
  scripts?: Record<string, string>;
  dependencies?: Record<string, string>;
  devDependencies?: Record<string, string>;
  peerDependencies?: Record<string, string>;
}

function manifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(ROOT, folder, "package.json"), "utf8")) as Manifest;
}

const root = manifest(".");
const scripts = new Set(Object.keys(root.scripts ?? {}));
const published = readdirSync(join(ROOT, "packages"))
  .filter((name) => name !== "dashboard")
  .map((name) => manifest(`packages/${name}`));
const packages = new Set([
  ...published.map(({ name }) => name),
  // The output of `npm pack`, in a clone next to the reader's project.
  ...published.map(({ name, version }) => `../holdfast/${name.replace("@", "").replace("/", "-")}-${version}.tgz`),
  ...[root, ...published].flatMap(({ dependencies, devDependencies, peerDependencies }) =>
    Object.keys({ ...dependencies, ...devDependencies, ...peerDependencies }),
  ),
]);

const holdfast = rootOf(program());
/** The commands of packs. */
const packPrograms = new Map(
  Object.entries({ "holdfast-mail": newsletterCommands, "holdfast-stripe": replay }).map(([name, only]) => [
    name,
    rootOf({ name, summary: "", version: "", commands: [only as Command] }),
  ]),
);

/** The words after `holdfast` or `npx holdfast`, without a trailing comment. Null if the line runs another program. */
export function callOf(line: string): string[] | null {
  const words = wordsOf(line);
  return words[0] === "holdfast" ? words.slice(1) : null;
}

/** The words of a line without `npx` and a trailing comment. */
function wordsOf(line: string): string[] {
  const words = [...line.replace(/\s#.*$/, "").matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? bare ?? "",
  );
  return words[0] === "npx" ? words.slice(1) : words;
}

/** Why a shell line is not valid in documents; null if it is. */
export function problemOf(line: string): string | null {
  const [program = "", ...call] = wordsOf(line);
  const root = program === "holdfast" ? holdfast : packPrograms.get(program);
  if (root !== undefined) return problemOfCall(root, call);
  const [name = "", verb = "", ...rest] = line.trim().split(/\s+/);
  if (["node", "cd", "curl", "pg_dump", "pg_restore"].includes(name) || (name === "git" && verb === "clone"))
    return null;
  if (name !== "npm") return `"${line}": documents must not use this command`;
  switch (verb) {
    case "install": {
      const missing = rest.filter((word) => !word.startsWith("-")).find((name) => !packages.has(name));
      return missing === undefined ? null : `the package ${missing} is not a dependency of this repository`;
    }
    case "init":
    case "pkg":
      return null;
    case "pack":
      return problemOfPack(rest);
    case "start":
    case "test":
      return scripts.has(verb) ? null : `package.json has no script ${verb}`;
    case "run":
      return scripts.has(rest[0] ?? "") ? null : `package.json has no script ${rest[0]}`;
    default:
      return `"npm ${verb}": documents must not use this command`;
  }
}

/** The core is always needed, and other packages are packed by their names. */
function problemOfPack(words: readonly string[]): string | null {
  const packed = words.flatMap((word) => (word.startsWith("--workspace=") ? [word.slice("--workspace=".length)] : []));
  if (!packed.includes("holdfast")) return "the core is not packed: --workspace=holdfast";
  const unknown = packed.find((name) => !published.some((each) => each.name === name));
  return unknown === undefined ? null : `there is no package ${unknown}`;
}

/** The error of the command itself. */
function problemOfCall(root: typeof holdfast, call: readonly string[]): string | null {
  try {
    parseCall(root, call);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
