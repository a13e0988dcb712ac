import { optionKeys, readCount, refuseUnknown } from "../../../options.js";
import { accessSteps } from "./access-sql.js";
import { MIGRATIONS } from "./migrations.js";
import type { Migration, SchemaSettings } from "./schema.js";
import { baseSchema, block, migrationStep, type Step } from "./migration-steps.js";
import { usersSteps } from "./users.js";

/** All steps to the current version, in order. */
export function stepsFor(settings: SchemaSettings, migrations: readonly Migration[] = MIGRATIONS): Step[] {
  return [
    baseSchema(settings),
    ...migrations.map((migration) => migrationStep(settings, migration)),
    ...usersSteps(settings),
    ...accessSteps(settings),
  ];
}

/** Options of `migrations`. */
export interface ScriptOptions {
  /** Only the migrations after this version. Default 0: all. */
  from?: number;
}
const SCRIPT_FIELDS: ReadonlySet<string> = optionKeys<ScriptOptions>({ from: true });

/** All steps as SQL. It can run any number of times. */
export function migrationScript(settings: SchemaSettings, options: ScriptOptions = {}): string {
  refuseUnknown(options, SCRIPT_FIELDS, "migrations");
  const from = readCount(options.from ?? 0, "from", 0, MIGRATIONS.length);
  const steps = stepsFor(settings).filter(({ isDone }) => !isDone({ version: from, settings: new Map() }));
  return `${steps.map((step) => block(step)).join("\n\n")}\n`;
}
