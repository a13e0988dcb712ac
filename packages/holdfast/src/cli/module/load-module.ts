import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import nodeModule, { createRequire, register } from "node:module";
import { dirname, extname, join, posix, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { isOwnedByTrusted, MODULE_ENDINGS, UntrustedFileError } from "../../config/index.js";
import { messageOf } from "../../job/thrown.js";
import { Failure } from "../errors.js";
import { readExports, type Exports, type ModuleExports } from "./module-exports.js";

type Env = Readonly<Record<string, string | undefined>>;

const TYPESCRIPT = [".ts", ".mts"];

/** A module of jobs that was loaded. */
export interface JobsModule extends ModuleExports {
  /** Its whole path. */
  readonly path: string;
}

/**
 * Loads a module with job types, in TypeScript or JavaScript. The module gets the same `holdfast` as this command, so that its
 * errors are known here.
 */
export async function loadJobs(
  given: string,
  { cwd, env }: { cwd: string; env: Env },
  namedBy: string | null = null,
): Promise<JobsModule> {
  const path = resolve(cwd, given);
  refuseFile(path, given, namedBy);
  return { path, ...readExports(await load(path, given, env), given) };
}

/**
 * What is no file, or no module by its name, need not be loaded to say so. `namedBy` says who named it, if it was not typed as an
 * argument just now.
 */
export function refuseFile(path: string, given: string, namedBy: string | null = null): void {
  const file = statSync(path, { throwIfNoEntry: false });
  if (file === undefined) {
    const near = MODULE_ENDINGS.map((ending) => `${given}${ending}`).find((name) =>
      existsSync(resolve(dirname(path), name)),
    );
    const found = near === undefined ? (given === path ? null : `looked for ${path}`) : `there is ${near}`;
    const hints = [found, namedBy].filter((hint) => hint !== null);
    throw new Failure(`there is no file ${given}`, hints.length === 0 ? {} : { hint: hints.join("; ") });
  }
  if (!file.isFile()) throw new Failure(`${given} is not a file`, { hint: "name the module itself" });
  if (!MODULE_ENDINGS.includes(extname(path))) {
    throw new Failure(`${given} is not a module of jobs`, {
      hint: `its name must end in ${MODULE_ENDINGS.join(", ")}`,
    });
  }
}

/** Node loads what it can, with whatever loader is active; TypeScript that is beyond it goes to jiti. */
async function load(path: string, given: string, env: Env): Promise<Exports> {
  if (findsOtherCopy(path)) shareThisCopy();
  try {
    try {
      return (await import(pathToFileURL(path).href)) as Exports;
    } catch (error) {
      if (!isTypeScript(path) || !isBeyondNode(error)) throw error;
    }
    return await loadByJiti(path, env);
  } catch (error) {
    if (error instanceof UntrustedFileError) throw error;
    // Node goes on with every module on the way there.
    const [why = ""] = messageOf(error).trim().replaceAll(/\s+/g, " ").split(" Require stack:");
    throw new Failure(`${given} cannot be loaded: ${why.slice(0, 300)}`, {
      cause: error,
      hint: "--verbose shows where it fails",
    });
  }
}

function isTypeScript(path: string): boolean {
  return TYPESCRIPT.includes(extname(path));
}

/** Told while the module was linked: none of its code has run. */
const BEYOND_NODE: ReadonlySet<unknown> = new Set([
  "ERR_UNKNOWN_FILE_EXTENSION",
  "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
  "ERR_INVALID_TYPESCRIPT_SYNTAX",
  "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING",
  // `./other.js` where there is `other.ts`, or a path of tsconfig.json.
  "ERR_MODULE_NOT_FOUND",
  "ERR_UNSUPPORTED_DIR_IMPORT",
]);
function isBeyondNode(error: unknown): boolean {
  return BEYOND_NODE.has((error as { code?: unknown } | null)?.code);
}

/** This package, whose entry points a module shall get. */
const HOME = dirname(createRequire(import.meta.url).resolve("holdfast/package.json"));

/** Would Node give the module another copy of Holdfast than this? The command may be installed elsewhere. */
function findsOtherCopy(path: string): boolean {
  try {
    const found = createRequire(path).resolve("holdfast/package.json");
    return realpathSync(dirname(found)) !== realpathSync(HOME);
  } catch {
    // It finds none: only with ours it will work.
    return true;
  }
}

let shared = false;

/** Whoever imports `holdfast` from now on, in this process, gets this copy. */
function shareThisCopy(): void {
  if (shared) return;
  shared = true;
  const points = Object.fromEntries(
    Object.entries(entryPoints()).map(([name, file]) => [name, pathToFileURL(file).href]),
  );
  const { registerHooks } = nodeModule as unknown as { registerHooks?: (hooks: object) => void };
  if (registerHooks === undefined) return register(HOOK, { data: points });
  type Next = (specifier: string, context: unknown) => unknown;
  registerHooks({
    resolve(specifier: string, context: unknown, next: Next) {
      const url = points[specifier];
      return url === undefined ? next(specifier, context) : { url, shortCircuit: true };
    },
  });
}

/** The same for a Node that has no hooks in its own thread yet. */
const HOOK = `data:text/javascript,${encodeURIComponent(`
let points;
export const initialize = (data) => { points = data; };
export const resolve = (specifier, context, next) =>
  Object.hasOwn(points, specifier) ? { url: points[specifier], shortCircuit: true } : next(specifier, context);
`)}`;

async function loadByJiti(path: string, env: Env): Promise<Exports> {
  refuseForeignPaths(path, env);
  const { createJiti } = await import("jiti");
  const jiti = createJiti(pathToFileURL(path).href, {
    alias: entryPoints(),
    tsconfigPaths: true,
    sourceMaps: true,
    interopDefault: false,
    // Kept in a folder that others may be able to write to.
    fsCache: false,
  });
  return jiti.import<Exports>(path);
}

/**
 * The nearest tsconfig.json, which jiti looks for, may say which file an import means: one in a folder above that neither this user nor
 * the module's owner has written would choose the code that runs.
 */
function refuseForeignPaths(path: string, env: Env): void {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const file = join(folder, "tsconfig.json");
    if (existsSync(file)) {
      if (isOwnedByTrusted(file, env, statSync(path).uid)) return;
      const problem = `${file} belongs to another user (uid ${statSync(file).uid}), so it is not used`;
      throw new UntrustedFileError(file, problem, "put a tsconfig.json of your own beside the module; {} will do");
    }
    if (dirname(folder) === folder) return;
  }
}

/** The file of each entry point of this package: `holdfast`, `holdfast/sqlite` and so on. */
function entryPoints(): Record<string, string> {
  const manifest = JSON.parse(readFileSync(join(HOME, "package.json"), "utf8")) as {
    exports: Record<string, string | { default: string }>;
  };
  return Object.fromEntries(
    Object.entries(manifest.exports).map(([name, entry]) => [
      posix.join("holdfast", name),
      join(HOME, typeof entry === "string" ? entry : entry.default),
    ]),
  );
}
