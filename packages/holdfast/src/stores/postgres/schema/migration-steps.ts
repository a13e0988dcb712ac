import { createHash } from "node:crypto";
import type { Migration, SchemaSettings } from "./schema.js";

/** What a database says of itself. */
export interface Standing {
  version: number;
  settings: ReadonlyMap<string, string>;
}

/** SQL that is run whole or not at all, and is passed over where its work is done. */
export interface Step {
  title: string;
  isDone: (standing: Standing) => boolean;
  /** The same question in SQL, asked again once nobody else can migrate. */
  done: string;
  body: string;
}

/** How long locks are waited for, in milliseconds. */
export interface LockWaits {
  /** For a table: whatever waits behind us, workers among them, waits as long. */
  table: number;
  /** For our turn among those who migrate. */
  turn: number;
}
// Long enough for the transactions of usual programs, short enough for workers to wait behind us.
export const LOCK_WAITS: LockWaits = { table: 5_000, turn: 60_000 };

// Any number will do as long as nobody else locks it.
export const MIGRATION_LOCK = 4_836_502_117;

/**
 * In a block: from here to the end of the transaction nothing is found but PostgreSQL's own, whatever is planted in
 * schemas on the search path of whoever runs it. `pg_temp` is named, since it would come first otherwise.
 */
export const PIN_PATH = "PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);";

/** A step as one statement: any client can run it, also inside a transaction, and nothing of it is left if it fails. */
export function block({ title, done, body }: Step, waits: LockWaits = LOCK_WAITS): string {
  return `-- ${title}
DO $holdfast$
DECLARE callers_path pg_catalog.text := pg_catalog.current_setting('search_path');
BEGIN
${PIN_PATH}
PERFORM pg_catalog.set_config('lock_timeout', '${waits.turn}', true);
PERFORM pg_catalog.pg_advisory_xact_lock(${MIGRATION_LOCK});
PERFORM pg_catalog.set_config('lock_timeout', '${waits.table}', true);
IF NOT (${done}) THEN
${body.trim()}
END IF;
PERFORM pg_catalog.set_config('search_path', callers_path, true);
END $holdfast$;`;
}

/** Where migrations are recorded. A schema that is there is taken as it is: its owner may have no right to make any. */
export function ground({ schema: s }: SchemaSettings): Step {
  return {
    title: "the schema",
    isDone: ({ version }) => version > 0,
    done: `pg_catalog.to_regclass('${s}.migrations') IS NOT NULL`,
    body: `
IF pg_catalog.to_regnamespace('${s}') IS NULL THEN CREATE SCHEMA ${s}; END IF;
CREATE TABLE ${s}.migrations (version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT pg_catalog.now());`,
  };
}

export function numbered(settings: SchemaSettings, { version, name, up }: Migration): Step {
  const { schema: s } = settings;
  return {
    title: `migration ${version}: ${name}`,
    isDone: (standing) => standing.version >= version,
    done: `EXISTS (SELECT FROM ${s}.migrations WHERE version >= ${version})`,
    body: `${up(settings).trim()}
INSERT INTO ${s}.migrations (version, name) VALUES (${version}, '${name}');`,
  };
}

/**
 * Steps that follow from options and can be repeated: taken again when their SQL is another. A start without those
 * options leaves them as they are.
 */
export function part(
  { schema: s }: SchemaSettings,
  name: string,
  steps: readonly Pick<Step, "title" | "body">[],
): Step[] {
  const hash = createHash("sha256");
  for (const { body } of steps) hash.update(body);
  const mark = hash.digest("hex").slice(0, 16);
  const record = `INSERT INTO ${s}.settings (name, value) VALUES ('${name}', '${mark}')
ON CONFLICT (name) DO UPDATE SET value = excluded.value;`;
  return steps.map(({ title, body }, at) => ({
    title: `${name}: ${title}`,
    isDone: ({ settings }) => settings.get(name) === mark,
    done: `EXISTS (SELECT FROM ${s}.settings WHERE name = '${name}' AND value = '${mark}')`,
    body: at === steps.length - 1 ? `${body}\n${record}` : body,
  }));
}

/** Takes one version back. What followed from options may have gone with it, and is to be taken again. */
export function undone(settings: SchemaSettings, { version, name, down }: Migration): Step {
  const { schema: s } = settings;
  return {
    title: `undoing migration ${version}: ${name}`,
    isDone: (standing) => standing.version < version,
    done: `NOT EXISTS (SELECT FROM ${s}.migrations WHERE version = ${version})`,
    body: `DELETE FROM ${s}.settings WHERE name NOT IN ('userType', 'cursorKey');
${down(settings).trim()}
DELETE FROM ${s}.migrations WHERE version = ${version};`,
  };
}
