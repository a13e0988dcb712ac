import { InvalidOptionError } from "../../../errors.js";
import { optionKeys, refuseUnknownIn, show } from "../../../options.js";
import { type Db, unnamed } from "../connection/db.js";
import type { Access, SchemaSettings } from "./schema.js";

/**
 * Roles for programs, and row-level security that shows users only their own jobs.
 *
 * ```ts
 * postgres(url, { access: { userRoles: ["authenticated"], identity: "supabase" }, userType: "uuid" });
 * ```
 */
export interface AccessOptions {
  /**
   * Roles that users' own queries run as. They must exist. They may read that user's rows of the views `jobs` and
   * `job_records` and of the tables behind them, and nothing else. Default none.
   */
  userRoles?: readonly string[];
  /**
   * How the database identifies the current user: by Supabase's `auth.uid()`, or by a setting that your program sets in
   * each transaction (`SELECT set_config('holdfast.user_id', $1, true)`). Without a user no rows are visible. Default
   * `{ setting: "holdfast.user_id" }`.
   */
  identity?: "supabase" | { setting: string };
  /** Names of the roles to grant to your programs' logins. They are created if missing. */
  roles?: AccessRoles;
}

/** Roles without login. Each has all privileges of the previous one. */
export interface AccessRoles {
  /**
   * Enqueues jobs for any user, and replaces waiting ones by their unique key. It uses functions and has no privileges
   * on the tables of jobs. Default `<schema>_enqueue`.
   */
  enqueue?: string;
  /** Runs workers, schedules and maintenance. Default `<schema>_work`. */
  work?: string;
  /** Also pauses queues, and manages the audit log and API tokens. Default `<schema>_admin`. */
  admin?: string;
}

const ACCESS_FIELDS: ReadonlySet<string> = optionKeys<AccessOptions>({ userRoles: true, identity: true, roles: true });
const IDENTITY_FIELDS: ReadonlySet<string> = optionKeys<{ setting: string }>({ setting: true });
const ROLE_FIELDS: ReadonlySet<string> = optionKeys<AccessRoles>({ enqueue: true, work: true, admin: true });

export function readAccess(given: AccessOptions | undefined, schema: string): Access | null {
  if (given === undefined) return null;
  refuseUnknownIn(given, ACCESS_FIELDS, "access");
  const { userRoles = [], identity = { setting: "holdfast.user_id" }, roles = {} } = given;
  refuseUnknownIn(roles, ROLE_FIELDS, "access.roles");
  if (!Array.isArray(userRoles)) throw new InvalidOptionError("access.userRoles", "must be an array of role names");
  return {
    userRoles: userRoles.map((name) => readRole(name, "access.userRoles")),
    setting: readIdentity(identity),
    enqueue: readRole(roles.enqueue ?? `${schema}_enqueue`, "access.roles.enqueue"),
    work: readRole(roles.work ?? `${schema}_work`, "access.roles.work"),
    admin: readRole(roles.admin ?? `${schema}_admin`, "access.roles.admin"),
  };
}

/** The name of the setting; `null` for Supabase. */
function readIdentity(identity: Exclude<AccessOptions["identity"], undefined>): string | null {
  if (identity === "supabase") return null;
  refuseUnknownIn(identity, IDENTITY_FIELDS, "access.identity");
  if (!/^[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)+$/.test(identity.setting)) {
    throw new InvalidOptionError(
      "access.identity.setting",
      `${show(identity.setting)} must be a setting name with a dot, such as "app.user_id"`,
    );
  }
  return identity.setting;
}

function readRole(name: unknown, field: string): string {
  if (typeof name !== "string" || !/^[A-Za-z_][A-Za-z0-9_$-]{0,62}$/.test(name)) {
    throw new InvalidOptionError(field, `${show(name)} is not a valid role name`);
  }
  return `"${name}"`;
}

/** Checks roles and functions before PostgreSQL does, so that errors name the option. */
export async function refuseAccess(db: Db, { access }: SchemaSettings): Promise<void> {
  if (access === null) return;
  const names = access.userRoles.map((role) => role.slice(1, -1));
  const text = `SELECT pg_catalog.to_regproc('auth.uid') IS NOT NULL, (
    SELECT pg_catalog.min(u.name) FROM pg_catalog.unnest($1::text[]) AS u (name) WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = u.name))`;
  const [row] = await db.run(unnamed(text), [names]);
  const [hasUid, missing] = (row ?? [false, null]) as [boolean, string | null];
  if (missing !== null) {
    throw new InvalidOptionError(
      "access.userRoles",
      `the role ${show(missing)} does not exist; create it or remove it here`,
    );
  }
  if (access.setting === null && !hasUid) {
    throw new InvalidOptionError(
      "access.identity",
      'is "supabase", but the function auth.uid() does not exist; use { setting } instead',
    );
  }
}
