import { InvalidOptionError } from "../../../errors.js";
import { show } from "../../../options.js";

/** `?schema=…` names the schema; the driver must not see it. Other parameters are the driver's. */
export function readPostgresUrl(given: string): { url: string; schema: string | null } {
  for (const [, name = ""] of given.matchAll(/[?&]([^=&]+)=/g)) {
    // The driver ignores what it does not know, and the jobs would go to the schema of somebody else.
    if (name !== "schema" && isNearly(name, "schema", 2)) {
      throw new InvalidOptionError(name, "is no parameter of the address; did you mean schema?");
    }
  }
  const match = /[?&]schema=([^&]*)/.exec(given);
  if (match === null) return { url: given, schema: null };
  const rest = given
    .replace(match[0], match[0].startsWith("?") ? "?" : "")
    .replace(/\?&/, "?")
    .replace(/\?$/, "");
  return { url: rest, schema: decoded(match[1] ?? "") };
}

/** What is no escape stays as it is, and is refused as a name. */
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
      `${show(name)} is not a plain name: small letters, digits and _, at most 50`,
    );
  }
  if (/^(?:pg_|information_schema$)/.test(name)) {
    throw new InvalidOptionError(
      "schema",
      `${show(name)} belongs to PostgreSQL; give a schema of your own, such as "holdfast"`,
    );
  }
  return name;
}

/** Whether so many letters changed, added or left out make the one of the other. */
function isNearly(given: string, meant: string, most: number): boolean {
  if (given === "" || meant === "") return given.length + meant.length <= most;
  if (given[0] === meant[0]) return isNearly(given.slice(1), meant.slice(1), most);
  if (most === 0) return false;
  return (
    isNearly(given.slice(1), meant.slice(1), most - 1) ||
    isNearly(given.slice(1), meant, most - 1) ||
    isNearly(given, meant.slice(1), most - 1)
  );
}
