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
import { BadUsage, Failure } from "../errors.js";

const STORE = { store: keyFlag("store", { placeholder: "url" }) };

export const migrateCommand: Command = command({
  name: "migrate",
  summary: "Update the database to the current schema.",
  about:
    "Workers also do this at startup. It is safe to repeat. On PostgreSQL and DynamoDB, workers of the previous version can keep running; on SQLite, stop them first. With --check nothing is created or changed.",
  flags: {
    print: {
      kind: "switch",
      description:
        "Print the migrations instead: repeatable SQL for PostgreSQL, or a CloudFormation template for DynamoDB.",
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
    if (flags.print && flags.check) throw new BadUsage("--print and --check cannot be combined");
    warnIfUrlIgnored(context);
    return withConfiguredStore(context, flags.print || flags.check ? "read" : "create", async (store) => {
      if (flags.print) {
        const text = printableMigrations(store);
        output.result({ text }, (page) => page.block(text.trimEnd()));
        return 0;
      }
      if (flags.check) {
        const pending = (await pendingMigrationsOf(store)).map(({ title }) => title);
        output.result({ current: pending.length === 0, pending }, (page) => {
          if (pending.length === 0) return page.line("Schema is up to date.");
          page.line("Schema is out of date. Pending migrations:");
          for (const each of pending) page.line(`  ${each}`);
        });
        return pending.length === 0 ? 0 : 1;
      }
      const { applied } = await openMigrated(context, store);
      output.result({ migrated: applied.length > 0, applied }, (page) => {
        if (applied.length === 0) return page.line("Schema is up to date.");
        page.line("Applied:");
        for (const each of applied) page.line(`  ${each}`);
      });
      return 0;
    });
  },
});

function printableMigrations(store: Store): string {
  if ("migrations" in store) return (store as PostgresStore).migrations();
  if ("cloudFormation" in store) return (store as DynamoStore).cloudFormation();
  throw new Failure("SQLite files are migrated when they are opened; there is nothing to print");
}

export const importCommand: Command = command({
  name: "import",
  summary: "Import rows of another table as jobs (PostgreSQL).",
  about:
    "The file has the options of importLegacy: { table, type, map, … }. Without --yes this is a dry run, which changes nothing.",
  arguments: {
    file: { kind: "text", placeholder: "path", complete: "files", description: "JSON file with the options." },
  },
  flags: { yes: { ...YES, description: "Import. Without it, nothing is changed." }, ...STORE },
  async run(context, { flags, args }) {
    const text = await readFile(resolve(context.cwd, args.file), "utf8").catch((error: unknown) => {
      throw new Failure(`${args.file} cannot be read: ${systemReason(error)}`, { cause: error });
    });
    const options = parse(text, args.file);
    warnIfUrlIgnored(context);
    await withConfiguredStore(context, flags.yes ? "create" : "read", async (store) => {
      if (!("importLegacy" in store)) throw new Failure("import needs a PostgreSQL store");
      const hf = flags.yes ? (await openMigrated(context, store)).hf : null;
      if (hf === null && (await pendingMigrationsOf(store)).length > 0) {
        throw new Failure("the schema is out of date, and a dry run does not migrate it", {
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
      context.output.result(importResult(result), (page) => showImport(page, result));
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
    throw new Failure(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  throw new Failure(`${file} must contain a JSON object`, { hint: "expected { table, type, map, … }" });
}
