import { resolve } from "node:path";
import { InvalidOptionError } from "../../errors.js";

/** Reads what follows `sqlite:` in an address: the whole path of the file, or `:memory:`. */
export function readSqliteFile(file: string): string {
  const name = file.startsWith("//") ? file.slice(2) : file;
  if (name === ":memory:") return name;
  if (name === "") throw new InvalidOptionError("store", 'names no file; use "sqlite:jobs.db" or "sqlite::memory:"');
  if (name === "memory:" || name === "memory") {
    throw new InvalidOptionError(
      "store",
      `"sqlite:${file}" would be a file of that name; did you mean "sqlite::memory:"?`,
    );
  }
  return resolve(name);
}
