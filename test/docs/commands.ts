import { readFileSync } from "node:fs";
import { join } from "node:path";
import { rootOf } from "../../packages/holdfast/dist/cli/parse/command.js";
import { parseCall } from "../../packages/holdfast/dist/cli/parse/parse.js";
import { program } from "../../packages/holdfast/dist/cli/program.js";
import { ROOT } from "./documents.js";

interface Manifest {
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
const published = manifest("packages/holdfast");
const packages = new Set([
  "holdfast",
  // What `npm pack` makes, in a clone beside the reader's project.
  `../holdfast/holdfast-${published.version}.tgz`,
  ...[root, published].flatMap(({ dependencies, devDependencies, peerDependencies }) =>
    Object.keys({ ...dependencies, ...devDependencies, ...peerDependencies }),
  ),
]);

const holdfast = rootOf(program());

/** The words after `holdfast` or `npx holdfast`; null if the line calls something else. A comment at its end is none. */
export function callOf(line: string): string[] | null {
  const words = [...line.replace(/\s#.*$/, "").matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? bare ?? "",
  );
  const at = words[0] === "npx" ? 1 : 0;
  return words[at] === "holdfast" ? words.slice(at + 1) : null;
}

/** What is wrong with a line of shell; null if a reader can type it. */
export function problemOf(line: string): string | null {
  const call = callOf(line);
  if (call !== null) return problemOfCall(call);
  const [name = "", verb = "", ...rest] = line.trim().split(/\s+/);
  if (["node", "cd", "curl", "pg_dump", "pg_restore"].includes(name) || (name === "git" && verb === "clone"))
    return null;
  if (name !== "npm") return `"${line}" is none of the commands that documents may use`;
  switch (verb) {
    case "install": {
      const missing = rest.filter((word) => !word.startsWith("-")).find((name) => !packages.has(name));
      return missing === undefined ? null : `the package ${missing} is not among those we use`;
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
      return `"npm ${verb}" is none of the commands that documents may use`;
  }
}

/** The command itself says what it does not know. */
function problemOfCall(call: readonly string[]): string | null {
  try {
    parseCall(holdfast, call);
    return null;
  } catch (error) {
    return (error as Error).message;
  }
}
