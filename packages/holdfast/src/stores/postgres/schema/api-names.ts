import { functions } from "./functions.js";
import type { Migration } from "./schema.js";
import { jobsView } from "./views.js";

/**
 * The view `jobs` gets the names of the API. The old one stays, as `job_records`: views that depend on it follow the
 * rename. Roles that could read the old view can read both. The functions are created again because they check the
 * names of scopes.
 */
export const API_NAMES: Migration = {
  version: 7,
  name: "names of the API",
  up: (settings) => {
    const { schema: s } = settings;
    return `${renameScope(s, "ever", "forever")}
${renameReason(s, "by hand", "manual")}
${functions(settings)}
IF pg_catalog.to_regclass('${s}.job_records') IS NULL THEN
  ALTER VIEW ${s}.jobs RENAME TO job_records;
  ${jobsView(settings)}
END IF;
DECLARE reader record;
BEGIN
  FOR reader IN SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) a
    WHERE c.oid = '${s}.job_records'::regclass AND a.privilege_type = 'SELECT'
  LOOP
    EXECUTE format('GRANT SELECT ON ${s}.jobs TO %s', CASE WHEN reader.grantee = 0 THEN 'PUBLIC' ELSE reader.grantee::regrole::text END);
  END LOOP;
END;`;
  },
  down: ({ schema: s }) => `DROP VIEW ${s}.jobs;
ALTER VIEW ${s}.job_records RENAME TO jobs;
${renameScope(s, "forever", "ever")}
${renameReason(s, "manual", "by hand")}`,
};

function renameScope(s: string, from: string, to: string): string {
  const columns = { keys: "scope", live: "key_scope", archive: "key_scope" };
  return Object.entries(columns)
    .map(([table, column]) => `UPDATE ${s}.${table} SET ${column} = '${to}' WHERE ${column} = '${from}';`)
    .join("\n");
}

/** The reason of a slot that was run manually. */
function renameReason(s: string, from: string, to: string): string {
  return `UPDATE ${s}.slots SET reason = '${to}' WHERE reason = '${from}';`;
}
