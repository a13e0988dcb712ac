import type { Migration } from "./schema.js";

/**
 * Operations of the admin API, and workers that drain. Columns without a computed default are added at once. Roles get the privileges
 * on the new table that they have on the table of API tokens: those of a server of the admin API.
 */
export const OPERATIONS: Migration = {
  version: 12,
  name: "operations and draining workers",
  up: ({ schema: s }) => `
ALTER TABLE ${s}.workers ADD COLUMN IF NOT EXISTS draining boolean NOT NULL DEFAULT false;
-- Changes of many jobs by the admin API. At most a few hundred rows: without an index of states.
CREATE TABLE IF NOT EXISTS ${s}.operations (
  id uuid PRIMARY KEY, started_at bigint NOT NULL, state text NOT NULL, ended_at bigint, stop boolean NOT NULL,
  -- The process that runs it, and until when. NULL: it has ended.
  owner text NOT NULL, lease_until bigint,
  summary text NOT NULL, plan text NOT NULL
);
-- Also in migration 10 by now; stores that had it before have no such index.
CREATE INDEX IF NOT EXISTS transitions_n ON ${s}.transitions (n);
DECLARE given record;
BEGIN
  FOR given IN SELECT a.privilege_type AS what, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS role
    FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = '${s}.tokens'::regclass AND a.grantee <> c.relowner
    AND a.privilege_type IN ('SELECT', 'INSERT', 'DELETE')
  LOOP
    EXECUTE format('GRANT %s ON ${s}.operations TO %s', given.what, given.role);
    IF given.what = 'INSERT' THEN EXECUTE format('GRANT UPDATE ON ${s}.operations TO %s', given.role); END IF;
  END LOOP;
END;`,
  down: ({ schema: s }) => `
DROP TABLE ${s}.operations;
ALTER TABLE ${s}.workers DROP COLUMN draining;`,
};
