import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { systemReason } from "../../config/index.js";
import type { Store } from "../../store.js";
import type { DynamoStore } from "../../stores/dynamodb/index.js";
import type { LegacyImportOptions, PostgresStore } from "../../stores/postgres/index.js";
import { recordAuditEntry } from "../audit.js";
import { openMigrated } from "../store/migrate.js";
import { warnIfUrlIgnored, withConfiguredStore } from "../store/open.js";
import { pendingMigrationsOf } from "../store/schema-check.js";
import { command, keyFlag, YES, type Command } from "../parse/command.js";
import { importResult, showImport } from "../ui/import-result.js";
import { UsageError, CommandError } from "../errors.js";

const STORE = { store: keyFlag("store", { placeholder: "url" }) };

export const migrateCommand: Command = command({
  name: "migrate",
  summary: "Update the database to the current schema.",
  about:
    "Workers also do this at startup. It is safe to repeat, and safe while workers of the previous version run. With --check nothing is created or changed.",
  flags: {
    print: {
      kind: "switch",
      description: "Print the migrations instead: repeatable SQL, or a CloudFormation template for DynamoDB.",
    },
    check: { kind: "switch", description: "List pending migrations only. Exit code 1 if there are any." },
    ...STORE,
  },
  examples: [
    { line: "migrate --check", description: "Check before a deployment." },
    { line: "migrate --print", description: "Print the SQL, to run it with your own tools." },
  ],
  async run(context, { flags }) {
    const { output } = context;
    if (flags.print && flags.check) throw new UsageError("--print and --check cannot be combined");
    warnIfUrlIgnored(context);
    return withConfiguredStore(context, flags.print || flags.check ? "read" : "create", async (store) => {
      if (flags.print) {
        const text = printableMigrations(store);
        output.result({ text }, (writer) => writer.block(text.trimEnd()));
        return 0;
      }
      if (flags.check) {
        const pending = (await pendingMigrationsOf(store)).map(({ title }) => title);
        output.result({ current: pending.length === 0, pending }, (writer) => {
          if (pending.length === 0) return writer.line("Schema is up to date.");
          writer.line("Schema is out of date. Pending migrations:");
          for (const each of pending) writer.line(`  ${each}`);
        });
        return pending.length === 0 ? 0 : 1;
      }
      const { applied } = await openMigrated(context, store);
      output.result({ migrated: applied.length > 0, applied }, (writer) => {
        if (applied.length === 0) return writer.line("Schema is up to date.");
        writer.line("Applied:");
        for (const each of applied) writer.line(`  ${each}`);
      });
      return 0;
    });
  },
});

function printableMigrations(store: Store): string {
  if ("migrations" in store) return (store as PostgresStore).migrations();
  if ("cloudFormation" in store) return (store as DynamoStore).cloudFormation();
  throw new CommandError("SQLite files are migrated when they are opened; there is nothing to print");
}

export const importCommand: Command = command({
  name: "import",
  summary: "Import rows of another table as jobs (PostgreSQL).",
  about:
    "The file has the options of importLegacy: { table, type, map, … }. Without --yes this is a dry run, which changes nothing.",
  arguments: {
    file: { kind: "text", placeholder: "path", complete: "files", description: "JSON file with the options." },
  },
  flags: { yes: YES, ...STORE },
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
          hint: "run: holdfast migrate, or add --yes to migrate and import",
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
