import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { systemReason } from "../../config/index.js";
import type { Store } from "../../store.js";
import type { DynamoStore } from "../../stores/dynamodb/index.js";
import type { LegacyImportOptions, PostgresStore } from "../../stores/postgres/index.js";
import { migrated, pendingOf, tellStoreOnly, withBareStore, writeDown } from "../store/bare-store.js";
import { command, keyFlag, YES, type Command } from "../parse/command.js";
import { importAnswer, showImport } from "../ui/import-result.js";
import { BadUsage, Failure } from "../errors.js";

const STORE = { store: keyFlag("store", { placeholder: "url" }) };

export const migrateCommand: Command = command({
  name: "migrate",
  summary: "Brings the database to this version's schema.",
  about:
    "Workers do so by themselves when they start. Safe to repeat, and while workers of the version before run. With --check nothing is made or changed, not even a new file.",
  flags: {
    print: {
      kind: "switch",
      says: "Print all of it, and do nothing: SQL that can be run more than once, or a template for DynamoDB.",
    },
    check: { kind: "switch", says: "Only say what is pending; exit code 1 if anything is." },
    ...STORE,
  },
  examples: [
    { line: "migrate --check", says: "Before a deployment: is anything pending?" },
    { line: "migrate --print", says: "For those who run the SQL themselves." },
  ],
  async run(context, { flags }) {
    const { output } = context;
    if (flags.print && flags.check) throw new BadUsage("--print and --check do not go together");
    tellStoreOnly(context);
    return withBareStore(context, flags.print || flags.check ? "look" : "make", async (store) => {
      if (flags.print) {
        const text = printed(store);
        output.answer({ text }, (page) => page.block(text.trimEnd()));
        return 0;
      }
      if (flags.check) {
        const pending = await pendingOf(store);
        output.answer({ current: pending.length === 0, pending }, (page) => {
          if (pending.length === 0) return page.line("The schema is this version's.");
          page.line("The schema is not this version's. Pending:");
          for (const each of pending) page.line(`  ${each}`);
        });
        return pending.length === 0 ? 0 : 1;
      }
      const { applied } = await migrated(context, store);
      output.answer({ migrated: applied.length > 0, applied }, (page) => {
        for (const each of applied) page.line(`  ${each}`);
        page.line(applied.length === 0 ? "The schema is this version's already." : "The schema is this version's.");
      });
      return 0;
    });
  },
});

function printed(store: Store): string {
  if ("migrations" in store) return (store as PostgresStore).migrations();
  if ("cloudFormation" in store) return (store as DynamoStore).cloudFormation();
  throw new Failure("a SQLite file is migrated when it is opened; there is nothing to print");
}

export const importCommand: Command = command({
  name: "import",
  summary: "Makes jobs of the rows of an old table (PostgreSQL).",
  about:
    "What becomes of which column stands in a JSON file, as importLegacy of the API takes it: { table, type, map, … }. Without --yes it is a dry run, which changes nothing.",
  arguments: { file: { kind: "text", placeholder: "path", complete: "files", says: "The JSON file." } },
  flags: { yes: YES, ...STORE },
  async run(context, { flags, args }) {
    const text = await readFile(resolve(context.cwd, args.file), "utf8").catch((error: unknown) => {
      throw new Failure(`${args.file} cannot be read: ${systemReason(error)}`, { cause: error });
    });
    const options = parse(text, args.file);
    tellStoreOnly(context);
    await withBareStore(context, flags.yes ? "make" : "look", async (store) => {
      if (!("importLegacy" in store)) throw new Failure("old tables are imported on PostgreSQL only");
      const hf = flags.yes ? (await migrated(context, store)).hf : null;
      if (hf === null && (await pendingOf(store)).length > 0) {
        throw new Failure("the schema is not this version's, and a dry run does not change it", {
          hint: "holdfast migrate does; or add --yes, which migrates and imports",
        });
      }
      const progress = context.output.progress("rows", null);
      const answer = await (store as PostgresStore).importLegacy({
        ...options,
        dryRun: !flags.yes,
        onProgress: ({ done, total }) => progress.update(done, total),
      });
      progress.hide();
      const { imported, skipped, dropped } = answer;
      if (hf !== null) {
        const detail = { type: options.type, skipped, dropped };
        await writeDown(hf, { action: "jobs.import", target: String(options.table), count: imported, detail });
      }
      context.output.answer(importAnswer(answer), (page) => showImport(page, answer));
      if (!flags.yes) context.output.note("This was a dry run; --yes does it.");
    });
  },
});

/** What it holds is checked by the import itself. */
function parse(text: string, file: string): LegacyImportOptions {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as LegacyImportOptions;
  } catch (error) {
    throw new Failure(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  throw new Failure(`${file} holds no object`, { hint: "{ table, type, map, … }" });
}
