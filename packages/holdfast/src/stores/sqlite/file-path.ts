import { resolve } from "node:path";
import { InvalidOptionError } from "../../errors.js";

/** Reads the part of a store URL after `sqlite:`. Returns the absolute path of the file, or `:memory:`. */
export function readSqliteFile(file: string): string {
  const name = file.startsWith("//") ? file.slice(2) : file;
  if (name === ":memory:") return name;
  if (name === "") throw new InvalidOptionError("store", 'has no file name; use "sqlite:jobs.db" or "sqlite::memory:"');
  if (name === "memory:" || name === "memory") {
    throw new InvalidOptionError(
      "store",
      `"sqlite:${file}" would be a file with that name; did you mean "sqlite::memory:"?`,
    );
  }
  return resolve(name);
}
