import { createHash } from "node:crypto";
import type { Migration, SchemaSettings } from "./schema.js";

/** The state of the schema in a database. */
export interface SchemaState {
  version: number;
  settings: ReadonlyMap<string, string>;
}

/** SQL that runs in one transaction, and is skipped if its work is done. */
export interface Step {
  title: string;
  isDone: (state: SchemaState) => boolean;
  /** The same check in SQL, evaluated again while this process holds the migration lock. */
  done: string;
  body: string;
}

/** How long to wait for locks, in milliseconds. */
export interface LockWaits {
  /** For a table: other sessions, including workers, queue behind this request and wait as long. */
  table: number;
  /** For the lock that allows one migration at a time. */
  migration: number;
}
// Longer than most transactions take, and short enough for workers that wait behind it.
export const LOCK_WAITS: LockWaits = { table: 5_000, migration: 60_000 };

// An arbitrary number that other programs do not lock.
export const MIGRATION_LOCK = 4_836_502_117;

/**
 * In a block: from here to the end of the transaction only objects of PostgreSQL itself are found, whatever the search
 * path of the caller contains. `pg_temp` is named because it would be searched first otherwise.
 */
export const PIN_PATH = "PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);";

/** A step as one statement: any client can run it, also in a transaction, and it is atomic. */
export function block({ title, done, body }: Step, waits: LockWaits = LOCK_WAITS): string {
  return `-- ${title}
DO $holdfast$
DECLARE callers_path pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
${PIN_PATH}
PERFORM pg_catalog.set_config('lock_timeout', '${waits.migration}', true);
PERFORM pg_catalog.pg_advisory_xact_lock(${MIGRATION_LOCK});
PERFORM pg_catalog.set_config('lock_timeout', '${waits.table}', true);
IF NOT (${done}) THEN
${body.trim()}
END IF;
PERFORM pg_catalog.set_config('search_path', callers_path, true);
END $holdfast$;`;
}

/** The table that records migrations. An existing schema is used: its owner may lack the privilege to create one. */
export function baseSchema({ schema: s }: SchemaSettings): Step {
  return {
    title: "the schema",
    isDone: ({ version }) => version > 0,
    done: `pg_catalog.to_regclass('${s}.migrations') IS NOT NULL`,
    body: `
IF pg_catalog.to_regnamespace('${s}') IS NULL THEN CREATE SCHEMA ${s}; END IF;
CREATE TABLE ${s}.migrations (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT pg_catalog.now());`,
  };
}

export function migrationStep(settings: SchemaSettings, { version, name, up }: Migration): Step {
  const { schema: s } = settings;
  return {
    title: `migration ${version}: ${name}`,
    isDone: (state) => state.version >= version,
    done: `EXISTS (SELECT FROM ${s}.migrations WHERE version >= ${version})`,
    body: `${up(settings).trim()}
INSERT INTO ${s}.migrations (version, name) VALUES (${version}, '${name}');`,
  };
}

/**
 * Repeatable steps that depend on options. They run again when their SQL changes. A start without those options changes
 * nothing.
 */
export function optionSteps(
  { schema: s }: SchemaSettings,
  name: string,
  steps: readonly Pick<Step, "title" | "body">[],
): Step[] {
  const hash = createHash("sha256");
  for (const { body } of steps) hash.update(body);
  const digest = hash.digest("hex").slice(0, 16);
  const record = `INSERT INTO ${s}.settings (name, value) VALUES ('${name}', '${digest}')
ON CONFLICT (name) DO UPDATE SET value = excluded.value;`;
  return steps.map(({ title, body }, at) => ({
    title: `${name}: ${title}`,
    isDone: ({ settings }) => settings.get(name) === digest,
    done: `EXISTS (SELECT FROM ${s}.settings WHERE name = '${name}' AND value = '${digest}')`,
    body: at === steps.length - 1 ? `${body}\n${record}` : body,
  }));
}

/** Undoes one version. Steps that depend on options may be undone with it, and run again later. */
export function undoStep(settings: SchemaSettings, { version, name, down }: Migration): Step {
  const { schema: s } = settings;
  return {
    title: `undoing migration ${version}: ${name}`,
    isDone: (state) => state.version < version,
    done: `NOT EXISTS (SELECT FROM ${s}.migrations WHERE version = ${version})`,
    body: `DELETE FROM ${s}.settings WHERE name NOT IN ('userType', 'cursorKey');
${down(settings).trim()}
DELETE FROM ${s}.migrations WHERE version = ${version};`,
  };
}
