import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import nodeModule, { createRequire, register } from "node:module";
import { dirname, extname, join, posix, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { isOwnedByTrusted, MODULE_ENDINGS, UntrustedFileError } from "../../config/index.js";
import { messageOf } from "../../job/thrown.js";
import { CommandError } from "../errors.js";
import { readExports, type Exports, type ModuleExports } from "./module-exports.js";

type Env = Readonly<Record<string, string | undefined>>;

const TYPESCRIPT = [".ts", ".mts"];

/** A loaded jobs module. */
export interface JobsModule extends ModuleExports {
  /** Absolute. */
  readonly path: string;
  /** Everything that it exports. */
  readonly exports: Exports;
}

/**
 * Loads a jobs module in TypeScript or JavaScript. The module gets the same copy of `holdfast` as this command, so that
 * `instanceof` works for its errors.
 */
export async function loadJobs(
  given: string,
  { cwd, env }: { cwd: string; env: Env },
  namedBy: string | null = null,
): Promise<JobsModule> {
  const path = resolve(cwd, given);
  checkModuleFile(path, given, namedBy);
  const exports = await load(path, given, env);
  return { path, exports, ...readExports(exports, given) };
}

/** Throws if the file does not exist or is not a module. `namedBy` is where the path comes from, if not an argument. */
export function checkModuleFile(path: string, given: string, namedBy: string | null = null): void {
  const file = statSync(path, { throwIfNoEntry: false });
  if (file === undefined) {
    const near = MODULE_ENDINGS.map((ending) => `${given}${ending}`).find((name) =>
      existsSync(resolve(dirname(path), name)),
    );
    const found = near === undefined ? (given === path ? null : `looked for ${path}`) : `did you mean ${near}?`;
    const hints = [found, namedBy].filter((hint) => hint !== null);
    throw new CommandError(`file not found: ${given}`, hints.length === 0 ? {} : { hint: hints.join("; ") });
  }
  if (!file.isFile()) throw new CommandError(`${given} is not a file`, { hint: "pass the path of the module file" });
  if (!MODULE_ENDINGS.includes(extname(path))) {
    throw new CommandError(`${given} is not a jobs module`, {
      hint: `the file name must end in ${MODULE_ENDINGS.join(", ")}`,
    });
  }
}

/** Node loads what it can, with any registered loader. TypeScript that it cannot load goes to jiti. */
async function load(path: string, given: string, env: Env): Promise<Exports> {
  if (findsOtherCopy(path)) shareThisCopy();
  try {
    try {
      return (await import(pathToFileURL(path).href)) as Exports;
    } catch (error) {
      if (!isTypeScript(path) || !isUnsupportedByNode(error)) throw error;
    }
    return await loadByJiti(path, env);
  } catch (error) {
    if (error instanceof UntrustedFileError) throw error;
    // Node appends every module on the way there.
    const [why = ""] = messageOf(error).trim().replaceAll(/\s+/g, " ").split(" Require stack:");
    throw new CommandError(`${given} cannot be loaded: ${why.slice(0, 300)}`, {
      cause: error,
      hint: "run with --verbose for the stack trace",
    });
  }
}

function isTypeScript(path: string): boolean {
  return TYPESCRIPT.includes(extname(path));
}

/** Errors of linking, before any code of the module has run. */
const UNSUPPORTED_BY_NODE: ReadonlySet<unknown> = new Set([
  "ERR_UNKNOWN_FILE_EXTENSION",
  "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
  "ERR_INVALID_TYPESCRIPT_SYNTAX",
  "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING",
  // An import of `./other.js` for `other.ts`, or a path of tsconfig.json.
  "ERR_MODULE_NOT_FOUND",
  "ERR_UNSUPPORTED_DIR_IMPORT",
]);
function isUnsupportedByNode(error: unknown): boolean {
  return UNSUPPORTED_BY_NODE.has((error as { code?: unknown } | null)?.code);
}

/** The folder of this package. */
const HOME = dirname(createRequire(import.meta.url).resolve("holdfast/package.json"));

/** Whether the module would import another copy of Holdfast: the command may be installed elsewhere. */
function findsOtherCopy(path: string): boolean {
  try {
    const found = createRequire(path).resolve("holdfast/package.json");
    return realpathSync(dirname(found)) !== realpathSync(HOME);
  } catch {
    // It finds none, and needs this one.
    return true;
  }
}

let shared = false;

/** Makes all later imports of `holdfast` in this process resolve to this copy. */
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

/** The same hook for versions of Node without `registerHooks`. */
const HOOK = `data:text/javascript,${encodeURIComponent(`
let points;
export const initialize = (data) => { points = data; };
export const resolve = (specifier, context, next) =>
  Object.hasOwn(points, specifier) ? { url: points[specifier], shortCircuit: true } : next(specifier, context);
`)}`;

async function loadByJiti(path: string, env: Env): Promise<Exports> {
  rejectForeignTsconfig(path, env);
  const { createJiti } = await import("jiti");
  const jiti = createJiti(pathToFileURL(path).href, {
    alias: entryPoints(),
    tsconfigPaths: true,
    sourceMaps: true,
    interopDefault: false,
    // The cache folder may be writable by other users.
    fsCache: false,
  });
  return jiti.import<Exports>(path);
}

/**
 * jiti uses the nearest tsconfig.json, whose `paths` choose the files that an import loads. A file of another user in a
 * parent folder could choose the code that runs, so it is rejected.
 */
function rejectForeignTsconfig(path: string, env: Env): void {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const file = join(folder, "tsconfig.json");
    if (existsSync(file)) {
      if (isOwnedByTrusted(file, env, statSync(path).uid)) return;
      const problem = `${file} belongs to another user (uid ${statSync(file).uid}), so it is not used`;
      throw new UntrustedFileError(file, problem, "put your own tsconfig.json next to the module; {} is enough");
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
