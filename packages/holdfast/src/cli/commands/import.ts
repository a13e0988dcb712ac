import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { systemReason } from "../../config/index.js";
import type { LegacyImportOptions, PostgresStore } from "../../stores/postgres/index.js";
import { recordAuditEntry } from "../record-audit.js";
import { openMigrated } from "../store/migrate.js";
import { connectionFlags, warnIfUrlIgnored, withConfiguredStore } from "../store/open.js";
import { pendingMigrationsOf } from "../store/schema-check.js";
import { command, STORE_FLAG, YES, type Command } from "../parse/command.js";
import { importResult, showImport } from "../ui/import-result.js";
import { CommandError } from "../errors.js";

export const importCommand: Command = command({
  name: "import",
  summary: "Import rows of another table as jobs (PostgreSQL).",
  about:
    "The file has the options of importLegacy: { table, type, map, … }. Without --yes this is a dry run, which changes nothing.",
  arguments: {
    file: { kind: "text", placeholder: "path", complete: "files", description: "JSON file with the options." },
  },
  flags: { yes: { ...YES, description: "Import. Without it, nothing is changed." }, store: STORE_FLAG },
  async run(context, { flags, args }) {
    const text = await readFile(resolve(context.cwd, args.file), "utf8").catch((error: unknown) => {
      throw new CommandError(`${args.file} cannot be read: ${systemReason(error)}`, { cause: error });
    });
    const options = parse(text, args.file);
    warnIfUrlIgnored(context);
    await withConfiguredStore(context, flags.yes ? "create" : "read", async (store) => {
      if (!("importLegacy" in store)) throw new CommandError("import needs a PostgreSQL store");
      const hf = flags.yes ? (await openMigrated(context, store)).hf : null;
      if (hf === null && (await pendingMigrationsOf(store)).length > 0) {
        throw new CommandError("the schema is out of date, and a dry run does not migrate it", {
          hint: `run: holdfast migrate${connectionFlags(context.config)}, or add --yes to migrate and import`,
        });
      }
      const progress = context.output.progress("rows", null);
      const result = await (store as PostgresStore).importLegacy({
        ...options,
        dryRun: !flags.yes,
        onProgress: ({ done, total }) => progress.update(done, total),
      });
      progress.hide();
      const { imported, skipped, dropped } = result;
      if (hf !== null) {
        const detail = { type: options.type, skipped, dropped };
        await recordAuditEntry(hf, { action: "jobs.import", target: String(options.table), count: imported, detail });
      }
      context.output.result(importResult(result), (writer) => showImport(writer, result));
      if (!flags.yes) context.output.note("This was a dry run. Add --yes to import.");
    });
  },
});

/** The fields are validated by the import. */
function parse(text: string, file: string): LegacyImportOptions {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as LegacyImportOptions;
  } catch (error) {
    throw new CommandError(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  throw new CommandError(`${file} must contain a JSON object`, { hint: "expected { table, type, map, … }" });
}
