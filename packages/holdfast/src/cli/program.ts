import { readFileSync } from "node:fs";
import { commands } from "./commands/index.js";
import type { Program } from "./parse/command.js";

/** The `holdfast` command with all its subcommands. */
export function program(): Program {
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  return {
    name: "holdfast",
    summary: "Holdfast: a job queue and scheduler on SQLite, PostgreSQL and DynamoDB.",
    version: (JSON.parse(manifest) as { version: string }).version,
    commands,
  };
}
