import { InvalidOptionError } from "../../errors.js";
import { openPostgres, USAGE, type PostgresOptions, type PostgresStore } from "./open.js";

export type { DoctorCheck, Finding } from "./doctor/finding.js";
export type { LegacyImport, LegacyImportOptions, LegacyMap, LegacyProgress } from "./legacy/options.js";
export type { CallersTransaction, PgClient, PgPool, PgQueryable, Row as PgRow } from "./connection/db.js";
export type { PostgresOptions, PostgresStore } from "./open.js";
export type { AccessOptions, AccessRoles } from "./schema/access.js";
export type { UndoOptions } from "./schema/migrate.js";
export type { ScriptOptions } from "./schema/migration-plan.js";
export type { UsersOptions } from "./schema/users.js";

/**
 * Opens the PostgreSQL store: by address with options, or on your own `pg` pool.
 *
 * ```ts
 * const hf = await holdfast({ store: postgres({ pool }), jobs });
 * ```
 */
export function postgres(url: string, options?: Omit<PostgresOptions, "pool">): PostgresStore;
export function postgres(options: PostgresOptions & Required<Pick<PostgresOptions, "pool">>): PostgresStore;
export function postgres(first: string | PostgresOptions, options: PostgresOptions = {}): PostgresStore {
  if (first === undefined) {
    throw new InvalidOptionError("url", `is undefined; is the environment variable set? Otherwise ${USAGE}`);
  }
  return typeof first === "string" ? openPostgres(first, options) : openPostgres(null, first);
}
