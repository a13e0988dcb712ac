import { readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parse, TomlError } from "smol-toml";
import { InvalidConfigError } from "./invalid-config.js";
import { showPath } from "./source.js";
import { systemReason } from "./system-error.js";
import { refuseUntrusted } from "./trusted-file.js";
import { layoutOf, type Layout } from "./toml-text.js";

/** The name of the file. It is looked up in the current folder and then in each parent folder. */
export const FILE_NAME = "holdfast.toml";

/** Where to find the configuration file. */
export interface Place {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The value of `--config`. */
  readonly file?: string | undefined;
}

/** Finds the configuration file: the one named by flag or variable, or the nearest. Null if none exists. */
export function findFile({ cwd, env, file }: Place): { path: string; named: string | null } | null {
  if (file !== undefined) return { path: resolve(cwd, file), named: "--config" };
  const variable = env["HOLDFAST_CONFIG"];
  if (variable === "")
    throw new InvalidConfigError(["HOLDFAST_CONFIG is empty; unset it, or give it the path of a file"]);
  if (variable !== undefined) return { path: resolve(cwd, variable), named: "HOLDFAST_CONFIG" };
  for (let folder = resolve(cwd); ; folder = dirname(folder)) {
    const path = join(folder, FILE_NAME);
    if (statSync(path, { throwIfNoEntry: false })?.isFile() === true) return { path, named: null };
    if (dirname(folder) === folder) return null;
  }
}

/** A parsed configuration file. */
export interface ConfigFile {
  readonly path: string;
  readonly text: string;
  readonly table: Readonly<Record<string, unknown>>;
  readonly layout: Layout;
}

/** Reads and parses a file; null if it does not exist. */
export function readFile(path: string, cwd: string): ConfigFile | null {
  const shown = showPath(path, cwd);
  let text: string;
  try {
    // Invalid UTF-8 would be lost when the file is written again.
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(path));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    const why = code === "ERR_ENCODING_INVALID_ENCODED_DATA" ? "it is not UTF-8" : systemReason(error);
    throw new InvalidConfigError([`${shown} cannot be read: ${why}`]);
  }
  return parseFile(path, text, shown);
}

function parseFile(path: string, text: string, shown: string): ConfigFile {
  try {
    return { path, text, table: parse(text), layout: layoutOf(text) };
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    // The following lines of the message quote the file, which may contain a password.
    const [what = ""] = error.message.split("\n");
    const why = what.replace(/^Invalid TOML document: /, "");
    throw new InvalidConfigError([`${shown}:${error.line}:${error.column} is not valid TOML: ${why}`]);
  }
}

/** A file that was found and not named must not be writable by other users. */
export function refuseUntrustedConfig(path: string, place: Place): void {
  refuseUntrusted(path, place, `if you trust it, name it: --config ${path}, or HOLDFAST_CONFIG`);
}

/** Finds and reads the configuration file. A named file must exist; any other must be trusted. */
export function readFoundFile(place: Place): (ConfigFile & { readonly named: boolean }) | null {
  const found = findFile(place);
  if (found === null) return null;
  if (found.named === null) refuseUntrustedConfig(found.path, place);
  const file = readFile(found.path, place.cwd);
  if (file !== null) return { ...file, named: found.named !== null };
  const path = showPath(found.path, place.cwd);
  throw new InvalidConfigError([`file ${path}${found.named === null ? "" : ` (from ${found.named})`} does not exist`]);
}
