import { InvalidOptionError } from "../../../errors.js";
import { optionKeys, refuseUnknownIn, show } from "../../../options.js";
import { type Db, unnamed } from "../connection/db.js";
import { archiveSql } from "../jobs/archive-sql.js";
import type { SchemaSettings, UsersTable } from "./schema.js";
import { sqlFor, type Sql } from "../connection/sql.js";
import { optionSteps, type Step } from "./migration-steps.js";

/** Your users' table. */
export interface UsersOptions {
  /** With its schema: `"public.users"` or `"auth.users"`. */
  table: string;
  /** The column of the users' key. Default `id`. */
  column?: string;
}
const USERS_FIELDS: ReadonlySet<string> = optionKeys<UsersOptions>({ table: true, column: true });

const NAME = /^[A-Za-z_][A-Za-z0-9_$]{0,62}$/;

export function readUsers(given: UsersOptions | undefined): UsersTable | null {
  if (given === undefined) return null;
  refuseUnknownIn(given, USERS_FIELDS, "users");
  const parts = String(given.table).split(".");
  if (parts.length !== 2 || !parts.every((name) => NAME.test(name))) {
    throw new InvalidOptionError(
      "users.table",
      `${show(given.table)} must be a table with its schema, such as "public.users"`,
    );
  }
  const column = given.column ?? "id";
  if (!NAME.test(column)) throw new InvalidOptionError("users.column", `${show(column)} is not a valid column name`);
  return { table: parts.map((name) => `"${name}"`).join("."), column: `"${column}"` };
}

/** Types that a foreign key can compare with each `userType`. */
const MATCHING: Readonly<Record<SchemaSettings["userType"], readonly string[]>> = {
  text: ["text", "varchar"],
  uuid: ["uuid"],
  bigint: ["int8", "int4", "int2"],
};

/** Checks the users' table before PostgreSQL does, so that errors name the option. */
export async function refuseUsers(db: Db, { users, userType }: SchemaSettings): Promise<void> {
  if (users === null) return;
  const text = `SELECT pg_catalog.to_regclass($1)::text, (SELECT t.typname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = pg_catalog.to_regclass($1) AND a.attname = $2 AND a.attnum > 0)`;
  const [row] = await db.run(unnamed(text), [users.table, users.column.slice(1, -1)]);
  const [table, type] = (row ?? []) as [string | null, string | null];
  if (table === null) {
    throw new InvalidOptionError("users.table", `the table ${users.table} does not exist; create it first`);
  }
  if (type === null)
    throw new InvalidOptionError("users.column", `the table ${users.table} has no column ${users.column}`);
  if (!MATCHING[userType].includes(type)) {
    const name = type === "int8" ? "bigint" : type;
    throw new InvalidOptionError("userType", `is "${userType}", but ${users.table}.${users.column} is of type ${name}`);
  }
}

const REFERRING = ["live", "schedules"] as const;

/**
 * Foreign keys to the users' table, and triggers that delete what belongs to the deleted jobs.
 *
 * The archive has no foreign key: it would lock the user's row whenever a job is settled, which is slow, and which
 * deadlocks with a deletion of that user. Its rows come from `live` only, and a trigger on the users' table deletes
 * them. The trigger's name sorts it after the foreign keys, so that jobs which were being settled are already in the
 * archive.
 */
export function usersSteps(settings: SchemaSettings): Step[] {
  const { schema: s, users } = settings;
  if (users === null) return [];
  // NOT VALID is quick, however large the table is. Validating existing rows afterwards blocks no other session.
  const validated = REFERRING.map((table) => ({
    title: `validate the foreign key of ${table}`,
    body: `ALTER TABLE ${s}.${table} VALIDATE CONSTRAINT ${table}_user;`,
  }));
  const keys = REFERRING.map((table) => foreignKey(s, table, users));
  return optionSteps(settings, "users", [
    { title: "foreign keys", body: `${triggers(settings, users)}\n${keys.join("\n")}` },
    ...validated,
  ]);
}

function foreignKey(s: string, table: string, users: UsersTable): string {
  const named = `FROM pg_catalog.pg_constraint c WHERE c.conrelid = '${s}.${table}'::regclass AND c.conname = '${table}_user'`;
  const column = `(SELECT a.attnum FROM pg_catalog.pg_attribute a WHERE a.attrelid = '${users.table}'::regclass AND a.attname = '${users.column.slice(1, -1)}')`;
  return `IF EXISTS (SELECT ${named} AND (c.confrelid <> '${users.table}'::regclass OR c.confkey <> ARRAY[${column}])) THEN
  ALTER TABLE ${s}.${table} DROP CONSTRAINT ${table}_user;
END IF;
IF NOT EXISTS (SELECT ${named}) THEN
  ALTER TABLE ${s}.${table} ADD CONSTRAINT ${table}_user FOREIGN KEY (user_id) REFERENCES ${users.table} (${users.column})
    ON DELETE CASCADE NOT VALID;
END IF;`;
}

/**
 * The store cleans up after its own deletions, so these only act inside other triggers, which includes cascades. They
 * run with their owner's privileges: a role that deletes users need have none on jobs.
 */
function triggers({ schema: s, userType }: SchemaSettings, users: UsersTable): string {
  const trigger = (
    table: string,
    name: string,
  ): string => `CREATE OR REPLACE TRIGGER ${name} AFTER DELETE ON ${s}.${table}
  FOR EACH ROW WHEN (pg_catalog.pg_trigger_depth() > 0) EXECUTE FUNCTION ${s}.${name}();`;
  return `${forgetJob(sqlFor(s, userType))}
CREATE OR REPLACE FUNCTION ${s}.forget_schedule() RETURNS trigger ${FIXED} AS $function$
BEGIN
  DELETE FROM ${s}.slots WHERE schedule = OLD.name;
  RETURN NULL;
END $function$;
-- With its trigger on a previous users' table.
DROP FUNCTION IF EXISTS ${s}.forget_user() CASCADE;
CREATE FUNCTION ${s}.forget_user() RETURNS trigger ${FIXED} AS $function$
BEGIN
  DELETE FROM ${s}.archive WHERE user_id = OLD.${users.column};
  RETURN NULL;
END $function$;
REVOKE ALL ON FUNCTION ${s}.forget_job(), ${s}.forget_schedule(), ${s}.forget_user() FROM PUBLIC;
CREATE TRIGGER holdfast_${s.slice(1, -1)} AFTER DELETE ON ${users.table} FOR EACH ROW EXECUTE FUNCTION ${s}.forget_user();
${trigger("live", "forget_job")}
${trigger("archive", "forget_job")}
${trigger("schedules", "forget_schedule")}`;
}

const FIXED = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp";

/** SQL that creates or replaces the function that deletes what belongs to a deleted job. */
function forgetJob(sql: Sql): string {
  const { s, hasJobSettings, hasSteps } = sql;
  const added = [...(hasJobSettings ? ["parent"] : []), ...(hasSteps ? ["ties"] : [])];
  const columns = ["id", "seq", "queue", "type", "state", "key", "tags", ...added];
  return `CREATE OR REPLACE FUNCTION ${s}.forget_job() RETURNS trigger ${FIXED} AS $function$
DECLARE deleted integer;
BEGIN
  -- The job was moved to the other table, not deleted.
  IF TG_TABLE_NAME = 'live' AND EXISTS (SELECT FROM ${s}.archive a WHERE a.id = OLD.id) THEN RETURN NULL; END IF;
  IF TG_TABLE_NAME = 'archive' AND EXISTS (SELECT FROM ${s}.live l WHERE l.id = OLD.id) THEN RETURN NULL; END IF;
  WITH t AS MATERIALIZED (SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint AS now),
  gone AS MATERIALIZED (SELECT ${columns.map((column) => `OLD.${column} AS ${column}`).join(", ")}),
  ${archiveSql(sql).deleteRelated("gone", "all keys")}
  SELECT pg_catalog.count(*) FROM gone INTO deleted;
  RETURN NULL;
END $function$;`;
}

/** SQL that replaces that function, if it exists, by one that works without what this migration adds. */
export function forgetJobBefore({ schema: s, userType }: SchemaSettings, migration: 8 | 15): string {
  return `IF pg_catalog.to_regprocedure('${s}.forget_job()') IS NOT NULL THEN
${forgetJob(sqlFor(s, userType, migration))}
END IF;`;
}
