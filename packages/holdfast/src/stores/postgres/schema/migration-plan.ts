import { optionKeys, readCount, refuseUnknown } from "../../../options.js";
import { accessSteps } from "./access-sql.js";
import { MIGRATIONS } from "./migrations.js";
import type { Migration, SchemaSettings } from "./schema.js";
import { block, ground, numbered, type Step } from "./migration-steps.js";
import { usersSteps } from "./users.js";

/** Everything that makes a database one of this version, in its order. */
export function stepsFor(settings: SchemaSettings, migrations: readonly Migration[] = MIGRATIONS): Step[] {
  return [
    ground(settings),
    ...migrations.map((migration) => numbered(settings, migration)),
    ...usersSteps(settings),
    ...accessSteps(settings),
  ];
}

/** What `migrations` is told. */
export interface ScriptOptions {
  /** Only what comes after this version. Default 0: everything. */
  from?: number;
}
const SCRIPT_FIELDS: ReadonlySet<string> = optionKeys<ScriptOptions>({ from: true });

/** All steps as SQL to be run by other means, once or more often. */
export function migrationScript(settings: SchemaSettings, options: ScriptOptions = {}): string {
  refuseUnknown(options, SCRIPT_FIELDS, "migrations");
  const from = readCount(options.from ?? 0, "from", 0, MIGRATIONS.length);
  const steps = stepsFor(settings).filter(({ isDone }) => !isDone({ version: from, settings: new Map() }));
  return `${steps.map((step) => block(step)).join("\n\n")}\n`;
}
