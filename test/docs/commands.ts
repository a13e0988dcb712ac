import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { rootOf } from "../../packages/holdfast/dist/cli/parse/command.js";
import { parseCall } from "../../packages/holdfast/dist/cli/parse/parse.js";
import { program } from "../../packages/holdfast/dist/cli/program.js";
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

/** The words after `holdfast` or `npx holdfast`, without a trailing comment. Null if the line runs another program. */
export function callOf(line: string): string[] | null {
  const words = [...line.replace(/\s#.*$/, "").matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? bare ?? "",
  );
  const at = words[0] === "npx" ? 1 : 0;
  return words[at] === "holdfast" ? words.slice(at + 1) : null;
}

/** Why a shell line is not valid in documents; null if it is. */
export function problemOf(line: string): string | null {
  const call = callOf(line);
  if (call !== null) return problemOfCall(call);
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
      return rest.includes("--workspace=holdfast") ? null : `"${line}" does not pack holdfast`;
    case "start":
    case "test":
      return scripts.has(verb) ? null : `package.json has no script ${verb}`;
    case "run":
      return scripts.has(rest[0] ?? "") ? null : `package.json has no script ${rest[0]}`;
    default:
      return `"npm ${verb}": documents must not use this command`;
  }
}

/** The error of the command itself. */
function problemOfCall(call: readonly string[]): string | null {
  try {
    parseCall(holdfast, call);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
