import type { Store } from "../../store.js";
import type { DynamoStore } from "../../stores/dynamodb/index.js";
import type { PostgresStore } from "../../stores/postgres/index.js";
import { openMigrated } from "../store/migrate.js";
import { warnIfUrlIgnored, withConfiguredStore } from "../store/open.js";
import { pendingMigrationsOf } from "../store/schema-check.js";
import { streamText } from "../store/stream-state.js";
import { command, STORE_FLAG, type Command } from "../parse/command.js";
import { UsageError, CommandError } from "../errors.js";

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
    store: STORE_FLAG,
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
      const stream = await streamText(store);
      output.result({ migrated: applied.length > 0, applied }, (writer) => {
        writer.line(applied.length === 0 ? "Schema is up to date." : "Applied:");
        for (const each of applied) writer.line(`  ${each}`);
        if (stream !== null) writer.line(stream);
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
