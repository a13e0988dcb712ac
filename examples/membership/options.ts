import { parseArgs } from "node:util";

/** What the command line says. */
export interface Options {
  /** Keep the site running after the walk. */
  readonly stay: boolean;
  /** The folder of the database; null: a temporary one. */
  readonly data: string | null;
}

export const USAGE = "Usage: npm run example -- membership [--stay [--data <folder>]]";

/** Throws an error with a sentence for the user. */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({ args, options: { stay: { type: "boolean" }, data: { type: "string" } } });
  const { stay = false, data = null } = values;
  if (data !== null && !stay) throw new Error("--data needs --stay: without it, the data is deleted at the end.");
  return { stay, data };
}
