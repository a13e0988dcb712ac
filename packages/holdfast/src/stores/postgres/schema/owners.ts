import { SchemaUntrustedError } from "../../../errors.js";
import { type Runner, unnamed } from "../connection/db.js";
import { signatures } from "./functions.js";
import { SEQUENCE_NAMES, TABLE_NAMES, type SchemaSettings } from "./schema.js";
import { VIEW_NAMES } from "./views.js";

const RELATIONS = [...TABLE_NAMES, ...VIEW_NAMES, "migrations", ...SEQUENCE_NAMES];
const TRIGGER_FUNCTIONS = ["forget_job", "forget_schedule", "forget_user"];

/** A schema, or a relation or function with one of our names in it, and its owner. */
export interface Foreign {
  what: string;
  owner: string;
}

/**
 * A part of the schema whose owner is not the current role, a role it is a member of, a superuser or the owner of the
 * database. The owner of a table can run code as every role that writes to it, and the owner of the schema can replace
 * its tables. Other names are not checked: a schema may be shared, and we use none of those.
 */
export async function foreignPart(runner: Runner, settings: SchemaSettings): Promise<Foreign | null> {
  // Not by pg_has_role, to which a superuser is a member of every role.
  const text = `WITH RECURSIVE mine AS (
      SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname = current_user
      UNION SELECT m.roleid FROM pg_catalog.pg_auth_members m JOIN mine ON mine.oid = m.member
    ), owned AS (
      SELECT 'the schema ' || n.nspname AS what, n.nspowner AS owner FROM pg_catalog.pg_namespace n WHERE n.oid = pg_catalog.to_regnamespace($1)
      UNION ALL SELECT 'the relation ' || c.relname, c.relowner FROM pg_catalog.pg_class c
        WHERE c.relnamespace = pg_catalog.to_regnamespace($1) AND c.relname::text = ANY ($2::text[])
      UNION ALL SELECT 'the function ' || p.proname, p.proowner FROM pg_catalog.pg_proc p
        WHERE p.pronamespace = pg_catalog.to_regnamespace($1) AND p.proname::text = ANY ($3::text[])
    )
    SELECT o.what, r.rolname::text FROM owned o JOIN pg_catalog.pg_roles r ON r.oid = o.owner
    WHERE NOT r.rolsuper AND r.rolname <> 'pg_database_owner' AND NOT r.oid IN (SELECT oid FROM mine)
      AND r.oid <> (SELECT d.datdba FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    LIMIT 1`;
  const functions = Object.values(signatures(settings))
    .join(", ")
    .matchAll(/\.(\w+)\(/g);
  const names = [...TRIGGER_FUNCTIONS, ...[...functions].map(([, name]) => name)];
  const [row] = await runner.run(unnamed(text), [settings.schema, RELATIONS, names]);
  return row === undefined ? null : { what: row[0] as string, owner: row[1] as string };
}

/** Throws before anything is created in such a schema. */
export async function refuseForeign(runner: Runner, settings: SchemaSettings): Promise<void> {
  const foreign = await foreignPart(runner, settings);
  if (foreign === null) return;
  const { what, owner } = foreign;
  throw new SchemaUntrustedError(
    `${what} belongs to the role "${owner}", which could run code with the privileges of this role; nothing was changed. ` +
      `If you trust it, migrate as that role or as a member of it (GRANT "${owner}" TO …); if not, drop its objects or use another schema`,
  );
}
