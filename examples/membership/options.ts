import { parseArgs } from "node:util";

/** What the command line says. */
export interface Options {
  /** Keep the site running after the walk. */
  readonly stay: boolean;
  /** The folder of the database; null: a temporary one. */
  readonly data: string | null;
}

export const USAGE = "Usage: npm run example -- membership [--stay [--data <folder>]]";

/** The options, or what is wrong with them. */
export function readOptions(args: string[]): Options | { problem: string } {
  try {
    const { values } = parseArgs({ args, options: { stay: { type: "boolean" }, data: { type: "string" } } });
    const { stay = false, data = null } = values;
    return data === null || stay ? { stay, data } : { problem: "--data needs --stay." };
  } catch (error) {
    return { problem: (error as Error).message };
  }
}
