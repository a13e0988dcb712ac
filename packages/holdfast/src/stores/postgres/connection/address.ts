import { InvalidOptionError } from "../../../errors.js";
import { show } from "../../../options.js";

/** Takes `?schema=…` out of the URL. Other parameters are for the driver. */
export function readPostgresUrl(given: string): { url: string; schema: string | null } {
  for (const [, name = ""] of given.matchAll(/[?&]([^=&]+)=/g)) {
    // The driver ignores unknown parameters, so a typo would put the jobs into another schema.
    if (name !== "schema" && isNearly(name, "schema", 2)) {
      throw new InvalidOptionError(name, "is not a URL parameter; did you mean schema?");
    }
  }
  const match = /[?&]schema=([^&]*)/.exec(given);
  if (match === null) return { url: given, schema: null };
  const url = given
    .replace(match[0], match[0].startsWith("?") ? "?" : "")
    .replace(/\?&/, "?")
    .replace(/\?$/, "");
  return { url, schema: decoded(match[1] ?? "") };
}

/** An invalid escape is returned unchanged, and rejected as a name. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Reads the name of a schema. */
export function readSchemaName(name: string): string {
  if (!/^[a-z_][a-z0-9_]{0,49}$/.test(name)) {
    throw new InvalidOptionError(
      "schema",
      `${show(name)} must consist of lower-case letters, digits and _ (at most 50 characters, no digit first)`,
    );
  }
  if (/^(?:pg_|information_schema$)/.test(name)) {
    throw new InvalidOptionError(
      "schema",
      `${show(name)} is reserved by PostgreSQL; use another schema, such as "holdfast"`,
    );
  }
  return name;
}

/** Whether the edit distance between two strings is at most `max`. */
function isNearly(given: string, meant: string, max: number): boolean {
  if (given === "" || meant === "") return given.length + meant.length <= max;
  if (given[0] === meant[0]) return isNearly(given.slice(1), meant.slice(1), max);
  if (max === 0) return false;
  return (
    isNearly(given.slice(1), meant.slice(1), max - 1) ||
    isNearly(given.slice(1), meant, max - 1) ||
    isNearly(given, meant.slice(1), max - 1)
  );
}
