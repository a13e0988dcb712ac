import { functions } from "./functions.js";
import type { Migration } from "./schema.js";
import { secondView } from "./views.js";

/**
 * The view `jobs` gets the names of the API. The old one stays, as `job_records`: views that depend on it follow the rename.
 * Roles that could read the old view can read both. The functions are created again with their current error messages.
 */
export const API_NAMES: Migration = {
  version: 7,
  name: "names of the API",
  up: (settings) => {
    const { schema: s } = settings;
    return `${functions(settings)}
IF NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = '${s}.jobs'::regclass AND attname = 'state') THEN
  ALTER VIEW ${s}.jobs RENAME TO job_records;
  ${secondView(settings)}
END IF;
DECLARE reader record;
BEGIN
  FOR reader IN SELECT a.grantee, bool_or(a.is_grantable) AS grantable FROM pg_class c, aclexplode(c.relacl) a
    WHERE c.oid = '${s}.job_records'::regclass AND a.privilege_type = 'SELECT' GROUP BY a.grantee
  LOOP
    EXECUTE format('GRANT SELECT ON ${s}.jobs TO %s%s',
      CASE WHEN reader.grantee = 0 THEN 'PUBLIC' ELSE reader.grantee::regrole::text END,
      CASE WHEN reader.grantable THEN ' WITH GRANT OPTION' ELSE '' END);
  END LOOP;
END;`;
  },
  down: ({ schema: s }) => `DROP VIEW ${s}.jobs;
ALTER VIEW ${s}.job_records RENAME TO jobs;`,
};
