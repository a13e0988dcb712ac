import { StoreUnreadableError } from "../../../errors.js";
import { type Runner, unnamed } from "./db.js";

const OLDEST = 15;
// SQL_ASCII stores any bytes, so it stores UTF-8. Other encodings would reject the characters of some jobs or outcomes.
const ENCODINGS = ["UTF8", "SQL_ASCII"];

/** Throws if Holdfast cannot use the server, before anything is written to it. */
export async function checkServer(runner: Runner, where: string): Promise<void> {
  const text =
    "SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.current_setting('server_encoding')";
  const [row] = await runner.run(unnamed(text), []);
  const [version, encoding] = row as [number, string];
  if (version < OLDEST * 10_000) {
    const major = Math.floor(version / 10_000);
    throw new StoreUnreadableError(`PostgreSQL at ${where} is version ${major}; Holdfast needs ${OLDEST} or later`);
  }
  if (!ENCODINGS.includes(encoding)) {
    throw new StoreUnreadableError(
      `the database at ${where} has the encoding ${encoding}, which cannot store every character; ` +
        `create one with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
    );
  }
}
