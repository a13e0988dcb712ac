import { InvalidOptionError } from "../errors.js";
import { show } from "../options.js";

const MAX_BYTES = 63;

/** Quotes a name of a table, column or schema for SQL. Any characters are allowed but NUL; PostgreSQL has names of up to 63 bytes. */
export function quoteIdentifier(name: string, field: string): string {
  if (typeof name !== "string" || name === "")
    throw new InvalidOptionError(field, `${show(name)} is not a name of a table or column`);
  if (name.includes("\0")) throw new InvalidOptionError(field, "must not contain a NUL character");
  if (Buffer.byteLength(name) > MAX_BYTES)
    throw new InvalidOptionError(field, `${show(name)} is longer than ${MAX_BYTES} bytes`);
  return `"${name.replaceAll('"', '""')}"`;
}
